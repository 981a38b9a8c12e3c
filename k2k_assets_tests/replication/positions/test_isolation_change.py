"""A change of the consumer's isolation level: the pipeline continues at its position; nothing was truncated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import OpenTransaction, create_topic, produce, read_all, send, unique
from k2k_assets_tests.support.copies.copying import Running, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

Make = Callable[[str, str], Pipeline]


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    """Pipelines of one group that differ in the isolation level of their consumer."""
    name = unique("group")

    def make_one(topic: str, isolation: str) -> Pipeline:
        consumer = {"group.id": name, "isolation.level": isolation}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": "disabled", "offsetMapping": "enabled"},
            consumer=consumer,
            coordination={"commit": {"topic": f"{name}-commits"}, "assignment": {"topic": f"{name}-claims"}},
            offsetMapping={"topic": f"{name}-mappings"},
        )

    return make_one


def test_aborted_records_behind_the_last_copy_are_no_truncation(clusters: KafkaSandbox, make: Make) -> None:
    """They lie between the last record and the position: passed over while reading committed, readable since."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("switch"))
    produce(source, topic, [b"before"] * 5, 0)
    produce(source, topic, [b"aborted"] * 3, 0, abort=True)
    first = copy(make(topic, "read_committed"))
    assert (first.stopped, first.topics[topic].partitions[0].position) == ({}, 9)

    produce(source, topic, [b"after"] * 2, 0)
    produce(source, topic, [b"aborted too"], 0, abort=True)
    second = copy(make(topic, "read_uncommitted"))
    assert second.stopped == {}
    copied = [r.value for r in read_all(target, topic)]
    assert copied == [b"before"] * 5 + [b"after"] * 2 + [b"aborted too"]


def test_a_position_inside_an_open_transaction_is_no_truncation(clusters: KafkaSandbox, make: Make) -> None:
    """The way back: it lies beyond all that is committed."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("switch"))
    produce(source, topic, [b"before"] * 5, 0)
    transaction = OpenTransaction(source, topic, [b"open"] * 3)
    dirty = Running(make(topic, "read_uncommitted"), 1)
    dirty.await_copied(8)
    dirty.end()

    clean = Running(make(topic, "read_committed"), 1)
    send(transaction._client, topic, [b"open still"] * 2, 0)
    transaction.commit()
    produce(source, topic, [b"after"] * 2, 0)
    clean.await_copied(4)
    clean.end()
    assert [r.value for r in read_all(target, topic)] == [b"before"] * 5 + [b"open"] * 3 + [b"open still"] * 2 + [
        b"after"
    ] * 2
