"""Fixtures of these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import Make, make_pipeline


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    """Pipelines of one group: another one made with the same topics goes on where the last one was."""
    name = unique("group")

    def make_one(topics: list[str], mode: str = "enabled", reset: str = "earliest", **rest: Any) -> Pipeline:
        consumer = {"group.id": name, "auto.offset.reset": reset}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
            consumer=consumer,
            coordination={"commit": {"topic": f"{name}-commits"}, "assignment": {"topic": f"{name}-claims"}},
            offsetMapping={"topic": f"{name}-mappings"},
            **rest,
        )

    return make_one


@pytest.fixture
def two(clusters: KafkaSandbox) -> tuple[str, str]:
    """Two source topics; the second is the one that goes on."""
    source = clusters.source_servers
    return create_topic(source, unique("bad"), 2), create_topic(source, unique("good"))
