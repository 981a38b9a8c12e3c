"""A broker loses the marker of a transaction, as Kafka 4.3.1 can when it restarts: the transaction hangs forever.

The marker is cut off the target partition's log while the broker is down; for the coordinator the transaction has
ended.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.coordination.claims import fence
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.deadline import Deadline
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot.start import hanging_transactions
from k2k_assets.replication.slot.start.hanging_transactions import HangingTransactions
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    create_topic,
    end_offsets,
    produce,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, told
from k2k_assets_tests.support.copies.interleaving import (
    RULE,
    at_step,
    copy_alone,
    crash,
    cut_log,
    die,
    pipeline_of,
    values,
)

pytestmark = pytest.mark.integration

OLD, NEW = ([b"%s-%d" % (age, n) for n in range(10)] for age in (b"old", b"new"))
PATIENCE = 1.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging_transactions, "patience_seconds", lambda _: PATIENCE)
    monkeypatch.setattr(hanging_transactions, "_WATCH_SECONDS", 0.2)


def without_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule: nothing is written beside a transaction that does not end."""
    monkeypatch.setattr(HangingTransactions, "stopped", lambda *_: {})


def lose_marker(clusters: KafkaSandbox, topic: str) -> None:
    """The last thing in the target partition is a marker; afterwards it is gone."""
    last = end_offsets(clusters.target_servers, topic)[0] - 1
    assert end_offsets(clusters.target_servers, topic, "read_committed")[0] == last + 1
    cut_log(clusters.target, topic, last)
    assert end_offsets(clusters.target_servers, topic) == {0: last}
    assert end_offsets(clusters.target_servers, topic, "read_committed") == {0: 0}, "readers stand at its first record"


def remedy(topic: str) -> str:
    return f"kafka-transactions.sh abort --topic {topic} --partition 0 --start-offset 0"


@pytest.mark.own_clusters
@pytest.mark.slow
@RULE
def test_the_marker_of_an_aborted_transaction(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("aborted"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    at_step(monkeypatch, "before commit", die)
    crash(pipeline)
    fence(pipeline, [transactional_id(pipeline.name, pipeline.group, 0)])
    lose_marker(clusters, topic)
    if not rule:
        without_the_look(monkeypatch)
    outcome = copy_alone(pipeline)

    if rule:
        assert f"a transaction has been open at {topic}-0 offset 0 for more than 1 s" in told(outcome)[topic]
        assert f"{remedy(topic)}: its records do not count as copied" in told(outcome)[topic]
        assert values(target, topic) == []
    else:
        assert outcome.stopped == {}
        assert values(target, topic) == OLD + OLD, "the next marker shows what was aborted"


@pytest.mark.own_clusters
@pytest.mark.slow
@RULE
def test_the_marker_of_a_committed_transaction(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, good = (create_topic(source, unique(name)) for name in ("committed", "good"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic, good])
    copy_alone(pipeline)
    lose_marker(clusters, topic)
    produce(source, topic, NEW)
    produce(source, good, NEW)
    if rule:
        outcome = copy_alone(pipeline)
        words = told(outcome)[topic]
        assert set(outcome.stopped) == {topic}
        assert remedy(topic) in words
        assert (
            f"k2k-tool set -f FILE -o {topic}:0:OFFSET, with the offset that k2k-tool translate -f FILE --reverse "
            in words
        )
        assert f"--topic {topic} --partition 0 --offset 0 tells" in words
        assert outcome.topics[topic].partitions[0].position == 10
        assert_same_content(source, good, target)
    else:
        without_the_look(monkeypatch)
        at_step(monkeypatch, "before commit", die, topic=topic)
        crash(pipeline)
        monkeypatch.undo()
        without_the_look(monkeypatch)
        copy_alone(pipeline)
        assert values(target, topic) == NEW, "the next marker, of an abort, hides what was committed"


def test_a_transaction_of_somebody_else_is_waited_for(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("held"))
    create_topic(target, topic)
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    others = OpenTransaction(target, topic, [b"foreign"])
    assert f"open at {topic}-0 offset 0" in told(copy_alone(pipeline))[topic]
    others.abort()
    assert copy_alone(pipeline).stopped == {}
    assert values(target, topic) == OLD


def at_least_once(clusters: KafkaSandbox, directory: Path, topics: list[str]) -> Pipeline:
    return pipeline_of(clusters, directory, topics, mode="disabled")


def with_many_to_one(clusters: KafkaSandbox, directory: Path, topics: list[str]) -> Pipeline:
    return pipeline_of(clusters, directory, topics, partition="producer")


@pytest.mark.slow
@pytest.mark.parametrize("make", [at_least_once, with_many_to_one])
def test_where_others_may_write_it_is_said_once(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Any
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("held"))
    create_topic(target, topic)
    others = OpenTransaction(target, topic, [b"foreign"])
    with caplog.at_level(logging.ERROR, "k2k.replication"):
        running = Running(make(clusters, tmp_path, [topic]), 1)
        produce(source, topic, OLD)
        running.await_copied(10)
        told = f"a transaction has been open at {topic}-0 offset 0"
        deadline, more = Deadline(60), 0
        while more < 3 and not deadline.expired():
            more += told in caplog.text  # what is said again would be said soon after the first time
            time.sleep(PATIENCE)
            produce(source, topic, NEW[:1])
            running.await_copied(running.copied() + 1)
        running.end()
    assert caplog.text.count(told) == 1
    assert remedy(topic) in caplog.text
    others.abort()
    assert values(target, topic)[:10] == OLD
