"""Two real schema registries, whose ids differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.sandbox.registry import SandboxRegistry


@pytest.fixture(scope="session")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxRegistry, SandboxRegistry]]:
    folder: Path = tmp_path_factory.mktemp("registries")
    source = SandboxRegistry("source", folder / "source", temporary=True)
    target = SandboxRegistry("target", folder / "target", first_id=40, temporary=True)
    try:
        source.start()
        target.start()
        yield source, target
    finally:
        source.kill()
        target.kill()
