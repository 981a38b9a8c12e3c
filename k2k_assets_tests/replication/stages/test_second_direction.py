"""The second direction of a pair is added later, or the marker changes: copies that it does not tell stay there."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.unmarked_copies import UnmarkedCopies
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted, Where
from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    add_partitions,
    create_topic,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.both_ways import (
    MARKER,
    OneWay,
    assert_no_echo_and_no_loss,
    settle,
    topic_on_both,
    write_some,
)
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, in_threads, told
from k2k_assets_tests.support.copies.pipelines import MODES, write_pipeline

pytestmark = pytest.mark.integration


class Pair:
    """A topic on both sides, and the pipelines there and back by any settings, each with one group."""

    def __init__(self, clusters: KafkaSandbox, directory: Path, mode: str = "enabled") -> None:
        self.topic = topic_on_both(clusters)
        self.name = unique("both")
        self._directory, self._mode = directory, mode
        self._servers = clusters.source_servers, clusters.target_servers
        self.sync_timeout = "30 seconds"

    def forth(self, marks: bool = True, **sections: Any) -> OneWay:
        return self._way(*self._servers, marks, **sections)

    def back(self, marks: bool = True, **sections: Any) -> OneWay:
        return self._way(*self._servers[::-1], marks, **sections)

    def _way(
        self, source: str, target: str, marks: bool, group: str = "", control: str = "", **sections: Any
    ) -> OneWay:
        names = control or f"{self.name}-control"
        path = write_pipeline(
            self._directory, source, target, [self.topic],
            consumer={"group.id": group or self.name, **sections.pop("consumer", {})},
            features={"exactlyOnce": self._mode, "bidirectionalReplication": "enabled" if marks else "disabled"},
            **{
                "name": self.name,
                "coordination": {
                    "commit": {"topic": f"{names}-commit", "syncTimeout": self.sync_timeout},
                    "assignment": {"topic": f"{names}-assignment"},
                },
                **sections,
            },
        )  # fmt: skip
        return OneWay(path, load_pipeline([path]), source, target)

    def values(self, servers: str) -> list[bytes | None]:
        return [record.value for record in read_all(servers, self.topic)]

    def assert_stopped(self, way: OneWay, position: int, end: int) -> None:
        outcome = copy(way.pipeline)
        (reason,) = outcome.stopped[self.topic].values()
        assert isinstance(reason, UnmarkedCopies)
        assert (reason.source, reason.position, reason.log_end) == (TopicPartition(self.topic, 0), position, end)
        assert f"k2k-tool set -f FILE -o {self.topic}:0:latest" in told(outcome)[self.topic]

    def set(self, way: OneWay, where: Where) -> None:
        with both_clusters(way.pipeline) as (source, target):
            override(way.pipeline, source, target, Request((Wanted(self.topic, 0, where),), "a test"))


@pytest.fixture
def pair(clusters: KafkaSandbox, tmp_path: Path) -> Pair:
    return Pair(clusters, tmp_path)


def one_after_the_other(pair: Pair) -> tuple[OneWay, OneWay, list[bytes]]:
    """One way has copied something without a marker; now both files say that it goes both ways."""
    once = pair.forth(marks=False)
    values = write_some(once, pair.topic, "history", 20)
    assert copy(once.pipeline).stopped == {}
    return pair.forth(), pair.back(), values


@MODES
def test_the_history_does_not_come_back(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    pair = Pair(clusters, tmp_path, mode)
    forth, back, values = one_after_the_other(pair)
    end = len(values) + (mode == "enabled")
    pair.assert_stopped(back, 0, end)
    settle([forth], 1)
    pair.assert_stopped(back, 0, end)
    assert pair.values(forth.source) == values
    # As the stop says, and as docs/bidirectional.md does.
    pair.set(back, "latest")
    ways = forth, back
    values += [value for n, way in enumerate(ways) for value in write_some(way, pair.topic, f"new{n}", 10)]
    settle(ways)
    for way in ways:
        assert sorted(value or b"" for value in pair.values(way.source)) == sorted(values)
    marked = [record.value for record in read_all(back.source, pair.topic) if MARKER in dict(record.headers)]
    assert len(marked) == 10, "of the history none is"


def test_who_sets_the_position_before_the_first_start_is_not_stopped(pair: Pair) -> None:
    forth, back, values = one_after_the_other(pair)
    pair.set(back, "latest")
    settle((forth, back))
    assert pair.values(forth.source) == values


def test_where_it_begins_behind_them_nothing_is_stopped(pair: Pair) -> None:
    forth, _, values = one_after_the_other(pair)
    back = pair.back(consumer={"auto.offset.reset": "latest"})
    settle((forth, back))
    assert pair.values(forth.source) == values


@pytest.mark.slow
def test_all_is_copied_where_somebody_says_so_once(pair: Pair) -> None:
    forth, back, values = one_after_the_other(pair)
    pair.assert_stopped(back, 0, 21)
    pair.set(back, 0)
    settle((forth, back))
    assert pair.values(forth.source) == values + values
    write_some(back, pair.topic, "more", 1)
    settle((forth, back))
    assert len(pair.values(forth.source)) == 41


def test_a_pipeline_back_that_has_copied_nothing_yet_stops_nothing(pair: Pair) -> None:
    assert copy(pair.forth(marks=False).pipeline).stopped == {}
    back = pair.back()
    values = write_some(back, pair.topic, "own", 5)
    forth = pair.forth()
    settle((back, forth))
    assert pair.values(back.target) == values
    (last,) = commit_records(forth.pipeline, forth.target)[-1:]
    assert (last.position, last.marker_changed) == (6, False)


def test_all_copies_have_the_marker(pair: Pair) -> None:
    """As from the first record on; so another group may begin anew at any time."""
    forth, back = pair.forth(), pair.back()
    values = write_some(forth, pair.topic, "a", 5)
    settle((forth, back), 1)
    settle([pair.back(group=unique("another"))], 1)
    assert_no_echo_and_no_loss((forth, back), pair.topic, values)
    (last,) = commit_records(forth.pipeline, forth.target)[-1:]
    assert (last.marker, last.marker_changed) == (forth.pipeline.marker, False)


def test_a_group_that_begins_anew_is_stopped_by_what_was_copied_before_the_marker(pair: Pair) -> None:
    forth, back, _ = one_after_the_other(pair)
    pair.set(back, "latest")
    write_some(forth, pair.topic, "new", 5)
    settle((forth, back))
    (last,) = commit_records(forth.pipeline, forth.target)[-1:]
    assert (last.marker, last.marker_changed) == (forth.pipeline.marker, True)
    pair.assert_stopped(pair.back(group=unique("another")), 0, 27)


CHANGES: list[dict[str, Any]] = [
    {"name": unique("renamed")},
    {"bidirectional": {"mode": "cluster"}},
    {"bidirectional": {"headers": {"bidirectional": "another"}}},
]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(CHANGES[0], id="name", marks=pytest.mark.slow),
        pytest.param(CHANGES[1], id="mode", marks=pytest.mark.slow),
        pytest.param(CHANGES[2], id="header", marks=pytest.mark.slow),
    ],
)
def test_copies_under_a_former_marker_that_are_not_read_yet(pair: Pair, change: dict[str, Any]) -> None:
    before = forth, back = pair.forth(), pair.back()
    values = write_some(forth, pair.topic, "a", 5) + write_some(back, pair.topic, "b", 5)
    settle(before)
    values += write_some(forth, pair.topic, "late", 3)
    copy(forth.pipeline)
    (position,) = {record.position for record in commit_records(back.pipeline, back.target)[-1:]}

    after = forth, back = pair.forth(**change), pair.back(**change)
    pair.assert_stopped(back, position, position + 4)
    copy(forth.pipeline)
    pair.assert_stopped(back, position, position + 4)
    pair.set(back, "latest")
    settle(after)
    values += write_some(back, pair.topic, "then", 5)
    settle(after)
    for way in after:
        assert sorted(value or b"" for value in pair.values(way.source)) == sorted(values)


def test_a_marker_changes_without_a_stop_where_all_is_read(pair: Pair) -> None:
    before = forth, back = pair.forth(), pair.back()
    values = write_some(forth, pair.topic, "a", 5) + write_some(back, pair.topic, "b", 5)
    settle(before)
    after = tuple(make(bidirectional={"mode": "cluster"}) for make in (pair.forth, pair.back))
    settle(after, 1)
    values += [value for n, way in enumerate(after) for value in write_some(way, pair.topic, f"then{n}", 5)]
    settle(after)
    assert_no_echo_and_no_loss((after[0], after[1]), pair.topic, values)


def test_partitions_that_are_added_hold_no_old_copies(pair: Pair) -> None:
    forth, back, values = one_after_the_other(pair)
    pair.set(back, "latest")
    settle((forth, back))
    for way in (forth, back):
        add_partitions(way.source, pair.topic, 2)
    produce(forth.source, pair.topic, [b"new"], 1)
    settle((forth, back))
    assert sorted(value or b"" for value in pair.values(forth.source)) == sorted([*values, b"new"])


def test_what_comes_before_the_slot_starts_where_the_latest_is_wanted(pair: Pair) -> None:
    """As on a topic to which somebody writes all the time."""
    forth, _, values = one_after_the_other(pair)
    back = pair.back(consumer={"auto.offset.reset": "latest"})

    def in_threads_behind_a_record(plans: Any) -> list[SlotResult]:
        values.extend(write_some(back, pair.topic, "late", 1))
        return in_threads(plans)

    assert copy(back.pipeline, runner=in_threads_behind_a_record).stopped == {}
    assert pair.values(forth.source) == values


def as_by_an_older_release(*ways: OneWay) -> None:
    """Takes the marker from the last commit of each."""
    for way in ways:
        record = replace(commit_records(way.pipeline, way.target)[-1], marker=None, marker_changed=False)
        produce(way.target, way.pipeline.coordination.commit.topic, [(record.key_bytes(), record.value_bytes())])


def test_a_pair_of_an_older_release_always_had_the_marker(pair: Pair) -> None:
    forth, back = pair.forth(), pair.back()
    values = write_some(forth, pair.topic, "a", 5)
    settle((forth, back))
    as_by_an_older_release(forth, back)
    write_some(forth, pair.topic, "late", 1)
    assert copy(forth.pipeline).stopped == {}
    (last,) = commit_records(forth.pipeline, forth.target)[-1:]
    assert (last.position > len(values), last.marker_changed) == (True, False)
    pair.set(back, 0)
    (last,) = commit_records(back.pipeline, back.target)[-1:]
    assert (last.marker, last.marker_changed) == (back.pipeline.marker, False)


@pytest.mark.slow
def test_a_pair_of_an_older_release_one_of_which_was_one_way_once(pair: Pair) -> None:
    """What that one has left to read are copies with the marker: the other one's settings tell it."""
    forth, back, _ = one_after_the_other(pair)
    pair.set(back, "latest")
    write_some(back, pair.topic, "own", 3)
    settle((forth, back))
    as_by_an_older_release(forth, back)
    write_some(forth, pair.topic, "late", 1)
    settle((forth, back))
    assert len(pair.values(forth.source)) == len(pair.values(back.source)) == 24


def test_an_open_transaction_hides_no_copies(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(clusters, tmp_path, "disabled")
    pair.sync_timeout = "1 second"
    forth, back, values = one_after_the_other(pair)
    held = OpenTransaction(back.source, back.pipeline.coordination.commit.topic, [(b"?", b"?")])
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        running = Running(back.pipeline, 2)
        wait_until(
            lambda: running.error or [line for line in caplog.messages if "was not read to its end" in line],
            60, "the topic that is not read to its end to be told",
        )  # fmt: skip
    held.abort()
    at = TopicPartition(pair.topic, 0)
    wait_until(lambda: running.error or (running.progress and running.told(at)), 120, "the stop to be told")
    assert "made without the marker" in (running.told(at) or "")
    running.end()
    assert pair.values(forth.source) == values


def test_a_pipeline_with_positions_that_becomes_bidirectional(pair: Pair) -> None:
    """It has brought back what was written on the other side during an outage; then both ways are wanted."""
    once, home = pair.forth(marks=False), pair.back(marks=False, consumer={"auto.offset.reset": "latest"})
    copy(home.pipeline)
    values = write_some(once, pair.topic, "history", 20)
    copy(once.pipeline)
    pair.assert_stopped(pair.back(), 0, 21)
    assert pair.values(once.source) == values


@pytest.mark.parametrize(
    ("said", "stops"),
    [
        pytest.param({"target_began": 3}, True, id="adopted from another tool"),
        pytest.param({"position": 9, "marker": Marker("another", "cluster")}, True, id="another marker"),
        pytest.param({"position": 9, "marker_changed": True}, True, id="another marker before"),
        pytest.param({"position": 9}, False, id="the same marker"),
        pytest.param({"marker": None}, False, id="nothing copied"),
        pytest.param({"position": 9, "marker": None}, True, id="without a marker"),
        pytest.param({"position": 9, "marker": None, "cluster": "third"}, False, id="third cluster"),
        pytest.param({"position": 9, "marker": None, "source": TopicPartition("a", 0)}, False, id="another topic"),
        pytest.param({"position": 9, "marker": None, "target_topic_id": "former"}, False, id="former topic"),
    ],
)
def test_which_commits_of_the_pipeline_back_count(pair: Pair, said: dict[str, Any], stops: bool) -> None:
    back = pair.back()
    write_some(back, pair.topic, "own", 3)
    record = replace(a_commit_of_the_other(back, pair.topic), **said)
    commits = create_topic(back.source, back.pipeline.coordination.commit.topic)
    produce(back.source, commits, [(record.key_bytes(), record.value_bytes()), (b"?", b"?")])
    assert (copy(back.pipeline).stopped != {}) == stops
    assert len(pair.values(back.target)) == (0 if stops else 3)


def a_commit_of_the_other(back: OneWay, topic: str) -> CommitRecord:
    """A commit of the pipeline back that has copied nothing yet."""
    with both_clusters(back.pipeline) as (source, target):
        topic_id, cluster = source.describe([topic])[topic].topic_id, target.cluster_id()
    return CommitRecord(
        "any", cluster, TopicPartition(topic, 0), "commit", "theirs", 5, None, "id", topic, topic_id, None, 1, 0, 1, 0,
        began=5, marker=back.pipeline.marker,
    )  # fmt: skip


def test_the_newest_commit_counts_in_whichever_partition_it_lies(pair: Pair) -> None:
    back = pair.back()
    write_some(back, pair.topic, "own", 3)
    newer = replace(a_commit_of_the_other(back, pair.topic), sequence=2, position=9)
    older = replace(newer, sequence=1, marker=None)
    commits = create_topic(back.source, back.pipeline.coordination.commit.topic, 2)
    for partition, record in enumerate((newer, older)):
        produce(back.source, commits, [(record.key_bytes(), record.value_bytes())], partition)
    assert copy(back.pipeline).stopped == {}


@pytest.mark.parametrize("partition", ["source", "producer"])
def test_of_which_partitions_commits_count(pair: Pair, partition: str) -> None:
    """Where partitions keep their numbers, only the one of the same number may hold copies of a partition."""
    back = pair.back(partition=partition)
    write_some(back, pair.topic, "own", 3)
    commit = a_commit_of_the_other(back, pair.topic)
    record = replace(commit, source=TopicPartition(pair.topic, 1), position=9, marker=None)
    commits = create_topic(back.source, back.pipeline.coordination.commit.topic)
    produce(back.source, commits, [(record.key_bytes(), record.value_bytes())])
    assert (copy(back.pipeline).stopped != {}) == (partition == "producer")


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "not named"])
def test_a_commit_topic_of_another_name(pair: Pair, caplog: pytest.LogCaptureFixture, is_named: bool) -> None:
    once = pair.forth(marks=False)
    write_some(once, pair.topic, "history", 3)
    copy(once.pipeline)
    names = once.pipeline.coordination.commit.topic
    reverse = {"commitTopic": names} if is_named else {}
    back = pair.back(control=unique("elsewhere"), bidirectional={"reverse": reverse})
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        stopped = copy(back.pipeline).stopped
    said = [line for line in caplog.messages if "'bidirectional.reverse.commitTopic'" in line]
    assert (pair.topic in stopped) == is_named
    assert len(said) == (not is_named)
    assert is_named or f"'{back.pipeline.coordination.commit.topic}' on the source" in said[0]
