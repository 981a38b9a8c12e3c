"""A mapping topic in memory, and an index that is built from it without Kafka and Spark: the same code, other jobs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pyarrow as pa
from hypothesis import strategies as st
from msgspec import structs

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import DroppedBy, MappedPartition, MappingKey, MappingRecord
from k2k_assets.core.dropped_ranges import DroppedRange, by_rule, extend
from k2k_assets.core.runs import Run, merge
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.algebra.fold import PartitionMapping, fold
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.index.folding import SORTED_BY
from k2k_assets.mapping.index.jobs import NewSegment
from k2k_assets.mapping.index.manifest import IndexIdentity, Manifest, NotedPosition, read_manifest
from k2k_assets.mapping.index.portion_table import from_table, read_portions, to_table
from k2k_assets.mapping.index.portions import Portion
from k2k_assets.mapping.index.read import IndexReader
from k2k_assets.mapping.index.record_rows import ROWS, RecordReader
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.tasks import FoldedPortion, by_stretch, fold_rows, merge_portions
from k2k_assets.mapping.index.unread import Unread, compared
from k2k_assets.mapping.index.update import Update
from k2k_assets_tests.support.memory import plans

GROUP = "g"
TOPIC = "mappings"
CLUSTERS = ("source-id", "target-id")


def mapping_record(
    order: tuple[int, int],
    covered: tuple[int, int],
    runs: Iterable[tuple[int, int, int]] | dict[int, list[Run]] = (),
    partition: int = 0,
    time: int = 0,
    topic_id: str = "sid",
    group: str = GROUP,
    dropped: Iterable[DroppedRange] = (),
) -> MappingRecord:
    """A record of source topic `s`; runs into partition 0 of target topic `t`, or by target partition."""
    by_target = runs if isinstance(runs, dict) else {0: [Run(*run) for run in runs]}
    targets = tuple(MappedPartition("t", "tid", p, tuple(of_p)) for p, of_p in by_target.items() if of_p)
    generation, sequence = order
    by = tuple(DroppedBy(rule, tuple(ranges)) for rule, ranges in by_rule(dropped).items())
    return MappingRecord(
        group, "s", partition, "p", CLUSTERS[0], topic_id, generation, 0, sequence, time, *covered, targets, dropped=by
    )


@dataclass(frozen=True)
class FakeMessage:
    """A record as the client hands it out."""

    place: tuple[str, int, int]
    key_and_value: tuple[bytes | None, bytes | None]

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes | None:
        return self.key_and_value[0]

    def value(self) -> bytes | None:
        return self.key_and_value[1]


@dataclass
class MappingTopic:
    """The topic. Offsets have gaps, as markers of transactions make them."""

    id: str = "topic-1"
    partitions: list[list[FakeMessage]] = field(default_factory=lambda: [[], []])
    starts: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    positions: list[NotedPosition] = field(default_factory=list)

    def write(self, *records: MappingRecord, partition: int = 0) -> None:
        for record in records:
            self.write_raw(record.key_bytes(), record.value_bytes(), partition)

    def write_raw(self, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        offset = 2 * len(self.partitions[partition])
        self.partitions[partition].append(FakeMessage((TOPIC, partition, offset), (key, value)))

    def expire(self, partition: int = 0) -> None:
        """Retention takes all that is in a partition."""
        self.starts[partition] = 2 * len(self.partitions[partition])

    def read(self, wanted: OffsetRange) -> list[FakeMessage]:
        low, high = max(wanted.start, self.starts[wanted.partition]), wanted.end
        return [message for message in self.partitions[wanted.partition] if low <= message.offset() < high]

    def find_unread(self, before: IndexIdentity | None) -> Unread:
        ends = {p: 2 * len(messages) for p, messages in enumerate(self.partitions)}
        return compared(TOPIC, self.id, self.starts, ends, self.positions, CLUSTERS, before)


@dataclass
class LocalJobs:
    """The jobs of an update in this process; `tasks` files in each segment."""

    topic: MappingTopic
    tasks: int = 2
    ignore_unreadable: bool = False

    def fold(self, root: IndexRoot, segment: str, ranges: Sequence[OffsetRange], most: int | None) -> NewSegment:
        batches, left = [], []
        passed_over: set[MappingKey | None] = set()
        read_behind: set[MappingKey] = set()
        for wanted in ranges:
            messages = self.topic.read(wanted)
            reader, reached = RecordReader(GROUP, self.ignore_unreadable, splits=most is not None), wanted.end
            size = 0
            for number, message in enumerate(messages):
                size += len(message.value() or b"")
                if most is not None and size >= most:
                    reached = message.offset() + 1
                    messages = messages[: number + 1]
                    break
            batches.append(reader.rows(cast("list[Message]", messages)))
            left.append(wanted._replace(start=reached))
            passed_over |= reader.passed_over
            read_behind |= reader.read_behind
        rows = pa.Table.from_batches(batches, schema=ROWS)
        rows = rows.sort_by([(name, "ascending") for name in SORTED_BY])
        portions: list[FoldedPortion] = []
        for task in range(self.tasks):
            mine = rows.filter(pa.array([p % self.tasks == task for p in rows["partition"].to_pylist()], pa.bool_()))
            portions += fold_rows(root, segment, mine)
        rest = [each for each in left if each.start < each.end]
        return NewSegment(by_stretch(portions), rest, frozenset(passed_over), frozenset(read_behind))

    def merge(self, root: IndexRoot, segment: str, portions: pa.Table) -> pa.Table:
        merged: list[Portion] = []
        every = from_table(portions)
        for task in range(self.tasks):
            merged += merge_portions(root, segment, [p for p in every if p.source.partition % self.tasks == task])
        return to_table(merged)


def local(root: IndexRoot) -> Path:
    """The directory of an index that lies on this machine."""
    assert isinstance(root, Path)
    return root


@dataclass
class LocalIndex:
    """An index of a mapping topic in memory."""

    root: IndexRoot
    topic: MappingTopic = field(default_factory=MappingTopic)
    retention: int | None = None
    now: int = 0
    ignore_unreadable: bool = False

    @property
    def folder(self) -> Path:
        """Its directory, on this machine."""
        return local(self.root)

    def update(self) -> Manifest:
        jobs = LocalJobs(self.topic, ignore_unreadable=self.ignore_unreadable)
        update = Update(self.root, "p", GROUP, TOPIC, self.retention, jobs, self.topic.find_unread, lambda: self.now)
        return update.run(read_manifest(self.root))

    def reader(self) -> IndexReader:
        manifest = read_manifest(self.root)
        assert manifest is not None
        return IndexReader.of(self.root, manifest, read_portions(self.root, manifest.directory))

    def maps(self) -> dict[SourcePartition, PartitionMap]:
        reader = self.reader()
        return {source: reader.partition_map(source, with_dropped=True) for source in reader.sources()}


def folded_at_once(records: Iterable[MappingRecord]) -> dict[SourcePartition, PartitionMap]:
    """What the index must say of records, by the plain fold of all of them."""
    by_source: dict[SourcePartition, list[MappingRecord]] = {}
    for record in records:
        source = SourcePartition(record.cluster, record.topic, record.source_topic_id, record.partition)
        by_source.setdefault(source, []).append(record)
    folds = {source: fold(PartitionMapping(), of, with_dropped=True) for source, of in by_source.items()}
    maps = {
        source: PartitionMap.with_dropped(
            source, None, tuple(of.covered), {target: RunTable.of(runs) for target, runs in of.runs.items()}
        )
        for source, of in folds.items()
    }
    return {source: replace(found, skipped=tuple(folds[source].skipped)) for source, found in maps.items()}


@st.composite
def histories(draw: st.DrawFn, most: int = 12, partitions: int = 2) -> list[MappingRecord]:
    """Copies of two source partitions into three target partitions.

    With gaps, re-copies, lost and empty records, and ranges that one of two rules has left out, or that were skipped by
    hand.
    """
    positions = [draw(st.integers(0, 5)) for _ in range(partitions)]
    ends = [draw(st.integers(0, 9)) for _ in range(3)]
    markers = draw(st.sampled_from([1, 1, 0]))  # copied at least once, there are none
    records = []
    for number in range(draw(st.integers(0, most))):
        partition = draw(st.integers(0, partitions - 1))
        kind = draw(st.sampled_from(["copy"] * 5 + ["again", "lost", "skipped"]))
        if kind == "again":
            positions[partition] = draw(st.integers(0, positions[partition]))
        start = positions[partition]
        runs: dict[int, list[Run]] = {}
        dropped: list[DroppedRange] = []
        for offset in range(start, start + draw(st.integers(0, 7))):
            positions[partition] = offset + 1
            target = draw(st.sampled_from([0, 0, 0, 0, 1, 2, None, "a", "a", "b"]))
            if isinstance(target, str):
                follow = bool(dropped) and dropped[-1].end == offset
                extend(dropped, [DroppedRange(target, offset, offset + 1)], follow)
            elif target is not None:
                runs.setdefault(target, []).append(Run(offset, ends[target], 1))
                ends[target] += draw(st.sampled_from([1, 1, 1, 2]))
        merged = {target: merge(of_target) for target, of_target in sorted(runs.items())}
        order = (1 + number // 5, number)
        covered = (start, positions[partition])
        if kind == "skipped":
            records.append(
                replace(mapping_record(order, covered, partition=partition, time=number), override="by hand")
            )
        elif kind != "lost":
            records.append(mapping_record(order, covered, merged, partition, time=number, dropped=dropped))
        ends = [end + markers for end in ends]
    return records


def committed(record: MappingRecord) -> CommitRecord:
    """The commit record of the transaction of a mapping record."""
    return plans.commit_record(
        TopicPartition(record.topic, record.partition), record.covered_to, generation=record.generation,
        sequence=record.sequence, group=record.group, cluster=record.cluster, source_topic_id=record.source_topic_id,
        target_topic="t", target_topic_id="tid", forward_since=record.only_forward_since,
    )  # fmt: skip


def routed_to(record: MappingRecord) -> str:
    """The target topic of the instance of `in_generations` that wrote a record."""
    return "elsewhere" if _life(record) % 3 == 1 else "t"


def _life(record: MappingRecord) -> int:
    return record.sequence // 3


def in_generations(records: Iterable[MappingRecord]) -> list[MappingRecord]:
    """The same records as instances write them: none goes back in its generation, what is set by hand has its own.

    After each third one an instance is started anew, and each third instance has another routing.
    """
    found: list[MappingRecord] = []
    last: dict[int, MappingRecord] = {}
    topics: dict[int, str] = {}
    life = 0
    for record in records:
        is_restart, life = _life(record) != life, _life(record)
        topic = routed_to(record)
        same_place = topics.get(record.partition, topic) == topic
        topics[record.partition] = topic
        before = last.get(record.partition)
        goes_on = before and before.override is record.override is None and before.covered_to <= record.covered_from
        generation = (found[-1].generation if found else 1) + (is_restart or not goes_on)
        since = before.only_forward_since if before and goes_on and same_place else None
        targets = tuple(structs.replace(each, topic=topic) for each in record.targets)
        last[record.partition] = replace(record, generation=generation, forward_since=since, targets=targets)
        found.append(last[record.partition])
    return found


def unique_root(directory: Path) -> Path:
    """A place for one more index."""
    return directory / uuid.uuid4().hex


def appended(count: int, first: int = 0, partition: int = 0) -> list[MappingRecord]:
    """Records of one offset each; a gap on the target after every one."""
    return [mapping_record((1, n), (n, n + 1), [(n, 2 * n, 1)], partition, time=n) for n in range(first, first + count)]
