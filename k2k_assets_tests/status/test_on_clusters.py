"""The status of a real copy on real clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.topic_follower import Replaced
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets.status.copy_status import MovedGroups
from k2k_assets.status.lag_reader import read_lags
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.kafka import Record
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import hand_copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

EXACT = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    return kafka.create_topic(clusters.source_servers, kafka.unique("status"), 3)


@pytest.fixture
def pipeline(tmp_path: Path, clusters: KafkaSandbox, topic: str) -> Pipeline:
    return make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=EXACT)


@pytest.fixture
def both(pipeline: Pipeline) -> Iterator[tuple[Cluster, Cluster]]:
    with both_clusters(pipeline) as clusters:
        yield clusters


def old(seconds: float) -> Record:
    return Record(value=b"v", timestamp=round((time.time() - seconds) * 1000))


def test_seconds_behind_come_from_the_first_record_that_is_not_copied(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [old(9000), old(600), old(5)], partition=0)
    kafka.produce(clusters.source_servers, topic, [old(100)], partition=1)
    a, b, c, gone = (TopicPartition(topic, p) for p in (0, 1, 2, 7))
    found = read_lags(pipeline, both[0], {a: 1, b: 1, c: None, gone: 5})
    assert found[a].offsets == 2
    assert 600 <= (found[a].seconds or 0) < 9000
    assert (found[b].offsets, found[b].seconds) == (0, 0.0)
    assert (found[c].position, found[c].offsets, found[c].seconds) == (0, 0, 0.0), "empty, and never copied"
    assert (found[gone].offsets, found[gone].seconds) == (None, None)
    assert (read_lags(pipeline, both[0], {a: None})[a].seconds or 0) >= 9000, "never copied: from the log start"


def test_each_partition_tells_also_where_batches_are_large(
    clusters: KafkaSandbox, pipeline: Pipeline, both: tuple[Cluster, Cluster]
) -> None:
    """A broker sends a batch that is larger than was asked for of the first partition alone."""
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("large"), 12)
    for partition in range(12):
        kafka.produce(clusters.source_servers, topic, [Record(value=bytes(90_000 * partition))], partition=partition)
    found = read_lags(pipeline, both[0], {TopicPartition(topic, p): None for p in range(12)})
    assert [lag.seconds is None for lag in found.values()] == [False] * 12


def test_what_transactions_leave_behind_is_no_record_that_waits(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    """Behind the last record lies its marker: an offset that lags for ever, until something is written."""
    kafka.produce(clusters.source_servers, topic, [old(900)], partition=0, transactional_id=kafka.unique("tx"))
    a = TopicPartition(topic, 0)
    (lag,) = read_lags(pipeline, both[0], {a: 1}).values()
    assert (lag.offsets, lag.seconds) == (1, 0.0)


def test_records_that_were_deleted_are_not_waited_for(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [old(9000), old(9000), old(600)], partition=0)
    kafka.delete_records(clusters.source_servers, topic, 0, 2)
    (lag,) = read_lags(pipeline, both[0], {TopicPartition(topic, 0): 1}).values()
    assert lag.offsets == 2
    assert 600 <= (lag.seconds or 0) < 9000


def test_a_copy_is_followed_from_before_its_first_record_on(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [old(30)] * 10, partition=0)
    with CopyReader(pipeline, *both) as reader:
        (state,) = reader.read().topics
        assert (state.state, state.lag.offsets, state.last_commit) == ("not begun", 10, None)
        copy(pipeline)
        status = reader.read()
        assert [topic.state for topic in status.topics] == ["active"]
        assert (status.lag.offsets, status.lag.seconds) == (0, 0.0)
        kafka.produce(clusters.source_servers, topic, [b"more"] * 5, partition=0)
        assert [topic.state for topic in reader.read().topics] == ["behind"]
        copy(pipeline)
        (state,) = reader.read().topics
        assert state.state == "active"
        assert sum(state.history) == 15


def test_a_position_that_can_be_read_again_is_told_no_more_as_unreadable(
    clusters: KafkaSandbox, tmp_path: Path, topic: str
) -> None:
    """The page of `k2k-tool server` keeps its reader for as long as it runs."""
    kafka.create_topic(clusters.target_servers, topic, 3)
    errors = {"onControlMessageDeserializationError": "ignore"}
    hand = hand_copy(clusters, tmp_path, topic, features=EXACT, errorHandling=errors)
    hand.commit(topic, 5, partition=1)
    record = hand.commit(topic, 0)
    hand.write(hand.pipeline.coordination.commit.topic, record.key_bytes(), b"no JSON")

    def stopped(reader: CopyReader) -> list[str]:
        return [reason.code for state in reader.read().topics for reason in state.stopped.values()]

    with both_clusters(hand.pipeline) as both, CopyReader(hand.pipeline, *both) as reader:
        assert stopped(reader) == ["position-unreadable"]
        hand.commit(topic, 6, partition=1)
        assert stopped(reader) == ["position-unreadable"], "what is told of another partition changes nothing"
        hand.commit(topic, 3)
        assert stopped(reader) == []
    with both_clusters(hand.pipeline) as both, CopyReader(hand.pipeline, *both) as reader:
        assert stopped(reader) == []


def test_a_commit_topic_that_was_deleted_is_told_and_the_next_reader_reads_the_new_one(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [b"v"] * 10, partition=0)
    copy(pipeline)
    commits = pipeline.coordination.commit.topic
    with CopyReader(pipeline, *both) as reader:
        assert [found.state for found in reader.read().topics] == ["active"]
        kafka.delete_topic(clusters.target_servers, commits)
        kafka.create_topic(clusters.target_servers, commits)
        with pytest.raises(Replaced, match="was deleted and created anew"):
            reader.read()
    with CopyReader(pipeline, *both) as reader:
        assert [found.state for found in reader.read().topics] == ["not begun"]


def test_a_stopped_partition_has_its_reason(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [b"v"] * 10, partition=0)
    copy(pipeline)
    kafka.produce(clusters.source_servers, topic, [b"v"] * 10, partition=0)
    kafka.delete_records(clusters.source_servers, topic, 0, 15)
    assert copy(pipeline).stopped
    with CopyReader(pipeline, *both) as reader:
        (state,) = reader.read().topics
    assert state.state == "stopped"
    assert {p: reason.code for p, reason in state.stopped.items()} == {0: "records-deleted"}


def test_groups_are_counted_and_what_cannot_be_told_does_not_stop_it(
    clusters: KafkaSandbox,
    pipeline: Pipeline,
    both: tuple[Cluster, Cluster],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with CopyReader(pipeline, *both) as reader:
        assert reader.read().groups == MovedGroups()

    def refused(*_: object) -> Callable[[], None]:
        raise K2KError("no group may be seen")

    monkeypatch.setattr(SourceGroups, "observe", refused)
    with CopyReader(pipeline, *both) as reader:
        assert reader.read().groups == MovedGroups(unknown="no group may be seen")


@pytest.mark.own_clusters
def test_a_look_leaves_no_trace_on_the_source(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, both: tuple[Cluster, Cluster]
) -> None:
    kafka.produce(clusters.source_servers, topic, [b"v"] * 10, partition=0)
    before = kafka.topics(clusters.source_servers), kafka.topics(clusters.target_servers)
    with CopyReader(pipeline, *both) as reader:
        reader.read()
    assert (kafka.topics(clusters.source_servers), kafka.topics(clusters.target_servers)) == before
    groups = both[0].admin.list_consumer_groups().result(30)
    assert pipeline.group not in [group.group_id for group in groups.valid]
