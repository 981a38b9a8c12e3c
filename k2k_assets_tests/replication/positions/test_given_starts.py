"""`replication[].source.start` on real clusters: it only counts for partitions without a position."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.stops.reasons.source_log import StartOutsideLog
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    Record,
    add_partitions,
    create_topic,
    delete_records,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import commit_records, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline

pytestmark = pytest.mark.integration

OLDEST = 946_684_800_000  # 2000-01-01, before all records
AT = 1_700_000_000_000


class World:
    """A topic of two partitions with a record each second from a time on, and pipelines that begin somewhere in it."""

    def __init__(self, clusters: KafkaSandbox, directory: Path) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        # Its records are years old: retention would take them, on the target too, which mirrors it.
        self.topic = create_topic(self.source, unique("given"), 2, {"retention.ms": "-1"})
        self._directory = directory
        self._group = unique("k2k")
        for partition, count in ((0, 10), (1, 4)):
            records = [Record(value=b"%d" % n, timestamp=AT + 1000 * n) for n in range(count)]
            produce(self.source, self.topic, records, partition)

    def pipeline(self, start: object, mode: str = "enabled") -> Pipeline:
        stages = [
            {"source": {"topic": [self.topic], "start": {self.topic: start} if isinstance(start, dict) else start}},
            {"sink": {"topic": "source", "partition": "source"}},
        ]
        topics = {
            "coordination": {"commit": {"topic": f"{self._group}-c"}, "assignment": {"topic": f"{self._group}-a"}}
        }
        return make_pipeline(
            self._directory, self.source, self.target, [self.topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled"}, consumer={"group.id": self._group},
            replication=stages, name=self._group, **topics,
        )  # fmt: skip

    def copied(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in read_all(self.target, self.topic):
            found.setdefault(record.partition, []).append(int(record.value or b""))
        return found


@MODES
@pytest.mark.parametrize(
    ("start", "copied"),
    [
        ({0: 6}, {0: [6, 7, 8, 9], 1: [0, 1, 2, 3]}),
        ({0: 10, 1: 3}, {0: [], 1: [3]}),
        (AT + 2500, {0: [3, 4, 5, 6, 7, 8, 9], 1: [3]}),
        ("2023-11-14T22:13:27Z", {0: [7, 8, 9], 1: []}),
        (OLDEST, {0: list(range(10)), 1: [0, 1, 2, 3]}),
        ("earliest", {0: list(range(10)), 1: [0, 1, 2, 3]}),
        ("latest", {0: [], 1: []}),
    ],
)
def test_where_a_first_copy_begins(
    clusters: KafkaSandbox, tmp_path: Path, start: object, copied: dict[int, list[int]], mode: str
) -> None:
    world = World(clusters, tmp_path)
    assert copy(world.pipeline(start, mode)).stopped == {}
    assert world.copied() == copied


def test_a_position_counts_whatever_the_file_says_later(clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = World(clusters, tmp_path)
    copy(world.pipeline({0: 6, 1: 2}))
    for start in ("earliest", {0: 0, 1: 0}, AT, "latest"):
        copy(world.pipeline(start))
    assert world.copied() == {0: [6, 7, 8, 9], 1: [2, 3]}
    records = {record.source: record for record in commit_records(world.pipeline("earliest"), world.target)}
    assert {tp.partition: (one.began, one.log_start) for tp, one in records.items()} == {0: (6, 0), 1: (2, 0)}


@pytest.mark.parametrize("start", [{0: 6, 1: 2}, AT + 2500])
@pytest.mark.parametrize(("step", "occurrence"), [("begin", 1), ("commit", 1), ("commit", 2)])
def test_a_slot_that_dies_at_its_start_begins_at_the_same_place(
    clusters: KafkaSandbox, tmp_path: Path, start: object, step: str, occurrence: int
) -> None:
    world = World(clusters, tmp_path)
    copy(world.pipeline(start), runner=dying_first(step, occurrence))
    assert world.copied() == (
        {0: [6, 7, 8, 9], 1: [2, 3]} if isinstance(start, dict) else {0: list(range(3, 10)), 1: [3]}
    )


@MODES
def test_a_partition_that_is_added_later_is_copied_from_its_beginning(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Its first records are older than the time by their own clocks, but were written after copying had begun."""
    world = World(clusters, tmp_path)
    pipeline = world.pipeline(AT + 2500, mode)
    copy(pipeline)
    add_partitions(world.source, world.topic, 4)
    produce(world.source, world.topic, [Record(value=b"%d" % n, timestamp=AT + 1000 * n) for n in range(5)], 2)
    produce(world.source, world.topic, [Record(value=b"7", timestamp=AT)], 3)
    assert copy(pipeline).stopped == {}
    assert world.copied() == {0: list(range(3, 10)), 1: [3], 2: list(range(5)), 3: [7]}


def test_offsets_that_the_log_does_not_have_stop_the_topic(clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = World(clusters, tmp_path)
    delete_records(world.source, world.topic, 0, 5)
    outcome = copy(world.pipeline({0: 2, 1: 5}))
    first, second = (TopicPartition(world.topic, partition) for partition in range(2))
    reasons = {0: StartOutsideLog(first, 2, 5, 10), 1: StartOutsideLog(second, 5, 0, 4)}
    assert outcome.stopped == {world.topic: reasons}
    assert copy(world.pipeline({0: 5, 1: 4})).stopped == {}, "the file was corrected"
    assert world.copied() == {0: [5, 6, 7, 8, 9], 1: []}
