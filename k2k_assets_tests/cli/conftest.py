"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of each test is its own: `k2k start` writes there."""
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
