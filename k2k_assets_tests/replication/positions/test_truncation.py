"""A source that lost records in an unclean election stops its topic, also when its log has grown past the position.

The broker's log is cut off while it is down; only the leader epoch tells afterwards that other records are there now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.cli.tool import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.transport.librdkafka import source as librdkafka_source
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    OpenTransaction,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, commit_records, copy, told
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline
from k2k_assets_tests.support.suite.storms import MODES, in_storms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("source")) as own:
        yield own


@pytest.fixture
def source(broker: Broker) -> LossySource:
    return LossySource(broker)


LATEST = {"auto.offset.reset": "latest"}


def pipeline_file(
    source: LossySource,
    clusters: KafkaSandbox,
    folder: Path,
    topics: Sequence[str],
    mode: str = "enabled",
    **consumer: str,
) -> tuple[Path, Pipeline]:
    """A pipeline whose consumer has further properties."""
    path = write_pipeline(
        folder,
        source.servers,
        clusters.target_servers,
        topics,
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        consumer={"group.id": unique("group"), **consumer},
    )
    return path, load_pipeline([path])


def reading(source: LossySource, clusters: KafkaSandbox, folder: Path, topic: str, isolation: str) -> Pipeline:
    """A pipeline at least once whose consumer has this isolation level."""
    consumer = {"group.id": f"group-{topic}", "isolation.level": isolation}
    return make_pipeline(
        folder,
        source.servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "disabled"},
        consumer=consumer,
        coordination={"commit": {"topic": f"{topic}-commits"}, "assignment": {"topic": f"{topic}-claims"}},
    )


@pytest.mark.slow
@MODES
def test_a_log_that_was_cut_off_and_grew_again(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource, capsys: Any, mode: str
) -> None:
    """With `latest`, which is for partitions without a position, and no reason to go on at the end."""
    target = clusters.target_servers
    plain, marked, shorter, good = topics = [
        create_topic(source.servers, unique(n)) for n in ("plain", "marked", "shorter", "good")
    ]
    path, pipeline = pipeline_file(source, clusters, tmp_path, topics, mode, **LATEST)
    assert copy(pipeline).stopped == {}  # their ends are their beginnings
    for topic in topics:
        source.write(topic, "kept", 40)
        if topic != good:
            source.mark(topic)
    source.write(marked, "lost", 40)  # and its marker
    for topic in (plain, shorter):
        source.write(topic, "lost", 60)
    source.write(marked, "lost in a transaction", 19, transactional=True)
    assert copy(pipeline).stopped == {}
    assert end_offsets(source.servers, marked)[0] == 100, "the last offset is a transaction marker"

    source.lose()
    for topic in (plain, marked, good):
        source.write(topic, "new", 100)
    source.write(shorter, "new", 10)
    stopped = told(copy(pipeline))
    assert set(stopped) == {plain, marked, shorter}
    for topic in (plain, marked):
        assert "the source log was truncated at 40, below position" in stopped[topic], stopped[topic]
        assert f"k2k-tool set -f FILE -o {topic}:0:40" in stopped[topic]
    assert "the source ends at 50, before position 100: its log was truncated" in stopped[shorter]
    assert_same_content(source.servers, good, target)

    arguments = [word for topic in (plain, marked, shorter) for word in ("-o", f"{topic}:0:40")]
    assert run(["set", "-f", str(path), *arguments]) == 0
    assert "plain" in capsys.readouterr().out
    assert copy(pipeline).stopped == {}
    for topic, count in ((plain, 100), (marked, 100), (shorter, 10)):
        assert [r.value for r in read_all(target, topic)][-count:] == [b"new %d" % i for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["disabled", *in_storms(("enabled",))])
def test_a_log_that_was_cut_off_before_anything_was_copied(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource, mode: str
) -> None:
    """With `latest` there is a position, and no record of ours to tell the leader epoch."""
    untouched, aborted = topics = [create_topic(source.servers, unique(n)) for n in ("untouched", "aborted")]
    path, pipeline = pipeline_file(source, clusters, tmp_path, topics, mode, **LATEST)
    for topic in topics:
        source.write(topic, "kept", 40)
        source.mark(topic)
        source.write(topic, "lost", 60)
    assert copy(pipeline).stopped == {}
    produce(source.servers, aborted, [b"never"] * 19, 0, abort=True)
    assert copy(pipeline).topics[aborted].partitions[0].position == 120

    source.lose()
    for topic in topics:
        source.write(topic, "new", 200)
    stopped = told(copy(pipeline))
    assert set(stopped) == {untouched, aborted}
    for words in stopped.values():
        assert "the source log was truncated at 40, below position 100" in words
    assert all(read_all(clusters.target_servers, topic) == [] for topic in topics)

    going_on = f"k2k-tool set -f FILE -o {untouched}:0:100"
    assert stopped[untouched].endswith(f"to go on without it: {going_on}")
    assert run(["set", "-f", str(path), *going_on.split()[4:]]) == 0
    assert set(copy(pipeline).stopped) == {aborted}
    assert [r.value for r in read_all(clusters.target_servers, untouched)] == [b"new %d" % i for i in range(60, 200)]


@pytest.mark.slow
@MODES
def test_leader_epochs_in_which_nothing_was_written_are_no_truncation(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource, mode: str
) -> None:
    """Leaders forget them. Before a record is copied, the position has the epoch that the log had at the beginning."""
    quiet, aborted = topics = [create_topic(source.servers, unique(n)) for n in ("quiet", "aborted")]
    for topic in topics:
        source.write(topic, "before", 40)
    source.start_again(topics)
    _, pipeline = pipeline_file(source, clusters, tmp_path, topics, mode, **LATEST)
    assert copy(pipeline).stopped == {}

    def epochs() -> dict[str, int]:
        records = commit_records(pipeline, clusters.target_servers)
        return {r.source.topic: -1 if r.leader_epoch is None else r.leader_epoch for r in records}

    assert min(epochs().values()) > 0
    source.start_again(topics)
    produce(source.servers, aborted, [b"never"] * 3, 0, abort=True)
    running = Running(pipeline, 1)
    try:
        passed = {TopicPartition(quiet, 0): 40, TopicPartition(aborted, 0): 44}
        wait_until(lambda: running.positions() == passed, PATIENCE, "the end of both")
    finally:
        running.end()
    assert running.error is None
    assert epochs() == {quiet: 0, aborted: 0}, "of the last records before the position"

    source.start_again(topics)
    for topic in topics:
        source.write(topic, "after", 10)
    assert copy(pipeline).stopped == {}
    for topic in topics:
        assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"after %d" % i for i in range(10)]


@pytest.mark.slow
@MODES
def test_a_log_that_is_cut_off_during_the_copy(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource, mode: str
) -> None:
    """With `latest`, too: what the consumer finds it never sets right by itself."""
    bad, good = topics = [create_topic(source.servers, unique(n)) for n in ("bad", "good")]
    _, pipeline = pipeline_file(source, clusters, tmp_path, topics, mode, **LATEST)
    assert copy(pipeline).stopped == {}  # their ends are their beginnings
    source.write(bad, "kept", 40)
    source.mark(bad)
    source.write(bad, "lost", 60)
    source.write(good, "kept", 10)
    running = Running(pipeline, 1)
    try:
        running.await_copied(110)

        source.lose()

        source.write(bad, "new", 100)
        source.write(good, "new", 10)
        at = TopicPartition(bad, 0)
        stopped = wait_until(lambda: running.told(at), 120, "the stop") or ""
        assert "truncated at 40, below position 100" in stopped or "source ends at" in stopped
        wait_until(lambda: len(read_all(clusters.target_servers, good)) == 20, PATIENCE, "the other topic to go on")
    finally:
        running.stop.set()
        running.join()
    assert running.error is None
    assert [r.value for r in read_all(clusters.target_servers, bad)][-1] == b"lost 59"


def test_a_marker_that_was_cut_off_and_written_over(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read uncommitted, records before the position are passed over only if they are known to be aborted ones.

    Without its marker the transaction is open again, so nobody is told what is committed behind it.
    """
    monkeypatch.setattr(librdkafka_source, "_UNDECIDED_SECONDS", 1.0)
    topic = create_topic(source.servers, unique("over"))
    pipeline = reading(source, clusters, tmp_path, topic, "read_uncommitted")
    transaction = OpenTransaction(source.servers, topic, [b"kept"] * 5)
    source.mark(topic)
    transaction.commit()
    first = copy(pipeline)
    assert (first.stopped, first.topics[topic].partitions[0].position) == ({}, 6)

    source.lose()
    source.write(topic, "over the marker", 10)
    reason = told(copy(pipeline))[topic]
    assert "the records from 5 to 5 of the source, before the position, are of a later leader epoch" in reason
    assert reason.endswith(f"k2k-tool set -f FILE -o {topic}:0:6; to copy them: k2k-tool set -f FILE -o {topic}:0:5")
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"kept"] * 5


def test_aborted_records_of_a_later_epoch_are_no_truncation(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource
) -> None:
    """The broker was started again between the last record and those that were passed over while reading committed."""
    topic = create_topic(source.servers, unique("switch"))
    source.write(topic, "before", 5)
    source.broker.restart()
    produce(source.servers, topic, [b"aborted"] * 3, 0, abort=True)
    source.await_later_epoch(topic)
    first = copy(reading(source, clusters, tmp_path, topic, "read_committed"))
    assert (first.stopped, first.topics[topic].partitions[0].position) == ({}, 9)

    source.write(topic, "after", 2)
    assert copy(reading(source, clusters, tmp_path, topic, "read_uncommitted")).stopped == {}
    names = ["before 0", "before 1", "before 2", "before 3", "before 4", "after 0", "after 1"]
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [name.encode() for name in names]


@pytest.mark.storm
def test_aborted_records_that_were_cut_off_and_written_over(
    clusters: KafkaSandbox, tmp_path: Path, source: LossySource
) -> None:
    """What is there now is committed: that is known."""
    topic = create_topic(source.servers, unique("over"))
    source.write(topic, "before", 5)
    source.mark(topic)
    produce(source.servers, topic, [b"aborted"] * 3, 0, abort=True)
    assert copy(reading(source, clusters, tmp_path, topic, "read_committed")).topics[topic].partitions[0].position == 9

    source.lose()
    source.write(topic, "over", 10)
    stopped = told(copy(reading(source, clusters, tmp_path, topic, "read_uncommitted")))
    assert "the source log was truncated at 5, below position 9" in stopped[topic]
