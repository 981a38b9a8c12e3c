"""At-least-once with `read_uncommitted`: runs with an end stop at the high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import OpenTransaction, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


def reading_uncommitted(clusters: KafkaSandbox, directory: Path, topic: str, reset: str) -> Pipeline:
    consumer = {"group.id": unique("group"), "isolation.level": "read_uncommitted", "auto.offset.reset": reset}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "disabled"},
        consumer=consumer,
    )


def test_records_of_an_open_transaction_are_there_to_be_copied(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("open"))
    OpenTransaction(clusters.source_servers, topic, [b"open"] * 5)
    produce(clusters.source_servers, topic, [b"behind"] * 3, 0)

    outcome = copy(reading_uncommitted(clusters, tmp_path, topic, "earliest"))

    copied = outcome.topics[topic].partitions[0]
    assert (outcome.stopped, copied.position, copied.readable_end, copied.lag) == ({}, 8, 8, 0)
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"open"] * 5 + [b"behind"] * 3


def test_latest_is_behind_them(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """`latest` begins behind the records of an open transaction, not before them."""
    topic = create_topic(clusters.source_servers, unique("open"))
    OpenTransaction(clusters.source_servers, topic, [b"open"] * 5)
    pipeline = reading_uncommitted(clusters, tmp_path, topic, "latest")
    assert copy(pipeline).topics[topic].partitions[0].position == 5

    produce(clusters.source_servers, topic, [b"behind"] * 3, 0)
    assert copy(pipeline).stopped == {}
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"behind"] * 3
