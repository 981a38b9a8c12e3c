"""Pipelines that map schema ids between the two registries that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.support.copies.pipelines import Make, make_pipeline
from k2k_assets_tests.support.memory.registry_nodes import no_pauses

__all__ = ["no_pauses"]

Registries = tuple[SandboxRegistry, SandboxRegistry]


@pytest.fixture
def make(clusters: KafkaSandbox, registries: Registries, tmp_path: Path) -> Iterator[Make]:
    """Makes a pipeline of topics, a delivery mode (`features.exactlyOnce`), and sections of the file."""

    def made(topics: list[str], mode: str = "enabled", **sections: Any) -> Pipeline:
        features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
        urls = {"registries": (registries[0].url, registries[1].url)}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features=features,
            **{"sink": {"prefix": "copy."}, **urls, **sections},
        )

    yield made
    for registry in registries:
        registry.resume()
