"""The part of a source partition's mapping that a running mapper keeps in memory. Pure, no I/O.

```
 source     0 ............... since ............ end of the coverage
 index      [═════════════════════)                 on disk; may be newer than when it was opened
 in memory             [═════════════════════════)  tables of runs, extended by each mapping record
```

Positions at or above `since` are looked up here. The runs below were dropped, or never loaded because the index has
them; only their ends in each target partition are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.mapping.algebra import run_tables
from k2k_assets.mapping.algebra.fold import (
    NEVER,
    Beginning,
    Covered,
    Order,
    PartitionMapping,
    Target,
    fold,
    goes_on,
    is_nowhere,
)
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable, SourcePartition

Tables = Mapping[Target, RunTable]


class Placed(NamedTuple):
    """A mapping record with its partition and offset in the mapping topic."""

    partition: int
    offset: int
    record: MappingRecord


Records = dict[tuple[str, SourcePartition], list[Placed]]
"""Mapping records by their pipeline's `group.id` and their source partition, in the order of the mapping topic."""


class NotInMemory(Exception):
    """A re-copy cancels runs that are not in memory; only reading the records anew tells what is left of them."""


@dataclass(slots=True)
class Mark:
    """A mapping record up to which all older ones can be dropped together.

    Attributes:
        time: Wall time of the record, milliseconds since the epoch.
        offset: Its offset in the mapping topic.
        covered_to: End of its covered range.
    """

    time: int
    offset: int
    covered_to: int


class End(NamedTuple):
    """Source and target offset after a record."""

    source: int
    target: int

    @classmethod
    def of(cls, table: RunTable) -> End:
        """The offsets after the last record of a table, which must not be empty."""
        return cls(table.source_end, table.target_end)


@dataclass(slots=True)
class InMemoryMapping:
    """The mapping of one source partition in memory.

    Attributes:
        since: Lowest source position that can be looked up here.
        covered: Covered ranges, also below `since`: ordered, disjoint, not adjacent.
        skipped: Those that were skipped by hand, also below `since`.
        newest: Order of the newest record folded in.
        position: Source offset after that record.
        tables: Runs from `since` on, by target partition. Tables are replaced, never changed.
        ends: Offsets after the last record below `since`, by target partition.
        recopied: Offsets in the mapping topic behind the records that cancelled others, by its partitions.
        is_doubtful: Whether records may have been deleted before they were read; then the next record may belong to a
            copy that began anywhere.
        marks: Records at which `drop` can cut, oldest first.
        with_dropped: Whether the ranges that were left out on purpose are kept too, as tables of `fold.nowhere`.
        first_time: Wall time of the oldest record folded in, milliseconds since the epoch; None before the first.
        last_time: Wall time of the newest.
    """

    since: int = 0
    covered: list[Covered] = field(default_factory=list)
    newest: Order = NEVER
    tables: dict[Target, RunTable] = field(default_factory=dict)
    ends: dict[Target, End] = field(default_factory=dict)
    recopied: dict[int, int] = field(default_factory=dict)
    is_doubtful: bool = False
    marks: list[Mark] = field(default_factory=list)
    with_dropped: bool = False
    first_time: int | None = None
    last_time: int = 0
    skipped: list[Covered] = field(default_factory=list)
    position: int = 0

    @classmethod
    def behind(
        cls, known: PartitionMap, newest: Order = NEVER, is_doubtful: bool = False, with_dropped: bool = False
    ) -> InMemoryMapping:
        """Makes a mapping that continues where an index ends.

        Args:
            known: The index's coverage, and the last run into each target partition.
            newest: Order of the newest record in the index.
            is_doubtful: Whether records may have been lost since that one.
            with_dropped: As the attribute.
        """
        ends = {target: End.of(table) for target, table in known.runs.items() if len(table)}
        since = known.covered_end if ends or with_dropped else 0
        found = cls(since, list(known.covered), newest, ends=ends, is_doubtful=is_doubtful, with_dropped=with_dropped)
        found.skipped = list(known.skipped)
        found.position = max([known.covered_end, *(end.source for end in ends.values())])
        if not known.covered:
            # The runs are left of a loss; a later record may start anywhere among them.
            found._forget_below(found.position)
        return found

    @property
    def covered_end(self) -> int:
        """End of the last covered range; 0 when there is none."""
        return self.covered[-1].end if self.covered else 0

    @property
    def runs(self) -> int:
        """Number of runs in memory."""
        return sum(map(len, self.tables.values()))

    def target_ends(self) -> dict[Target, int]:
        """Target offset after the last record, by target partition."""
        below = {target: end.target for target, end in self.ends.items()}
        found = below | {target: table.target_end for target, table in self.tables.items() if len(table)}
        return {target: end for target, end in found.items() if not is_nowhere(target)}

    def target_topics(self) -> set[str]:
        """Ids of the topics that records went to."""
        return {target.topic_id for target in {*self.tables, *self.ends} if not is_nowhere(target)}

    def extend(self, placed: Sequence[Placed], mark_every: int) -> None:
        """Adds mapping records. What they leave out may have gone elsewhere (`fold.goes_on`).

        Args:
            placed: Records in the order of the mapping topic; at least one.
            mark_every: Milliseconds between marks.

        Raises:
            LateRecord: A record is older than one that was folded before.
            NotInMemory: A record cancels runs that are not in memory.
        """
        for part in self._parts(sorted(placed, key=lambda each: Order.of(each.record))):
            self._extend(part, mark_every)

    def _parts(self, placed: Iterable[Placed]) -> Iterator[list[Placed]]:
        """Splits records in their order where one does not go on."""
        newest, position = self.newest, self.position
        part: list[Placed] = []
        for each in placed:
            record = each.record
            if part and not goes_on(newest, position, Beginning.of(record)):
                yield part
                part = []
            part.append(each)
            newest, position = Order.of(record), record.covered_to
        yield part

    def _extend(self, placed: Sequence[Placed], mark_every: int) -> None:
        records = [each.record for each in placed]
        goes_back = _goes_back(self.position, records)
        first = records[0]
        if not goes_on(self.newest, self.position, Beginning.of(first), self.is_doubtful):
            self._forget_below(first.covered_from)
            goes_back = True  # for all that is known
        self.is_doubtful = False
        start = min(record.covered_from for record in records)
        if start < self.since:
            raise NotInMemory(f"a copy starts again at {start}, and only what lies from {self.since} on is held")
        skipped = list(without(self.skipped, Covered(start, self.position)))
        added = PartitionMapping(
            covered=list(self.covered), newest=self.newest, skipped=skipped, position=self.position
        )
        fold(added, records, self.with_dropped)
        self.covered, self.newest, self.skipped = added.covered, added.newest, added.skipped
        self.position = records[-1].covered_to
        if goes_back:
            for each in placed:
                self.recopied[each.partition] = max(self.recopied.get(each.partition, 0), each.offset + 1)
            self._cancel_from(start)
        for target, runs in added.runs.items():
            self.tables[target] = run_tables.joined(self.tables.get(target, NO_RUNS), RunTable.of(runs))
        for each in placed:
            self._mark(each.offset, each.record, mark_every)
        times = [record.time for record in records]
        self.first_time = min(times) if self.first_time is None else min(self.first_time, *times)
        self.last_time = max(self.last_time, *times)

    def drop(self, older_than: int | None = None, log_start: int = 0, most_runs: int | None = None) -> bool:
        """Drops the oldest runs.

        Args:
            older_than: Drop runs of records written before this time, in milliseconds since the epoch.
            log_start: Drop runs of records below this offset of the mapping topic, which has deleted them.
            most_runs: Keep at most so many runs into one target partition.

        Returns:
            Whether any runs were dropped.
        """
        since, passed = self.since, 0
        for mark in self.marks:
            if mark.offset >= log_start and (older_than is None or mark.time >= older_than):
                break
            since = max(since, min(mark.covered_to, self.covered_end))
            passed += 1
        del self.marks[:passed]
        if most_runs is not None:
            since = max(
                [since, *(int(t.source_starts[-most_runs]) for t in self.tables.values() if len(t) > most_runs)]
            )
        gone = {target: run_tables.before(table, since) for target, table in self.tables.items()}
        if since <= self.since or not any(map(len, gone.values())):
            return False
        self.since = since
        self.ends.update({target: End.of(table) for target, table in gone.items() if len(table)})
        left = {target: run_tables.since(table, since) for target, table in self.tables.items()}
        self.tables = {target: table for target, table in left.items() if len(table)}
        return True

    def alone(self) -> tuple[tuple[Covered, ...], Tables]:
        """Coverage and runs from `since` on; positions below are unknown."""
        covered = self._with_end(without(self.covered, Covered(0, self.since)))
        return covered, {target: self._from_since(target) for target in {*self.tables, *self.ends}}

    def with_index(self, below: PartitionMap) -> tuple[tuple[Covered, ...], Tables]:
        """Coverage and runs, also below `since` where both this mapping and the index cover.

        The index may have been pruned or built anew meanwhile: positions that it has lost are unknown.

        Args:
            below: The index's map of positions below `since`.
        """
        covered = self._covered_with(below.covered)
        tables, indexed = {}, below.tables
        for target in {*self.tables, *self.ends, *indexed}:
            first = run_tables.before(indexed.get(target, NO_RUNS), self.since)
            second = self.tables.get(target, NO_RUNS)
            if target in self.ends:
                last = self.ends[target]
                if len(first) and (first.source_end > last.source or first.target_end > last.target):
                    return self.alone()  # the index has read a later copy, which is not in memory yet
                reached = len(first) and End.of(first) == last
                if not (reached and self._goes_on_from(last, covered)):
                    second = self._from_since(target)
            tables[target] = run_tables.joined(first, second)
        return covered, {target: table for target, table in tables.items() if len(table)}

    def skipped_with(self, below: PartitionMap) -> tuple[Covered, ...]:
        """The ranges that were skipped by hand, also those that only the index knows; they may overlap.

        Args:
            below: As for `with_index`.
        """
        return tuple(sorted({*self.skipped, *intersection(below.skipped, (Covered(0, self.since),))}))

    def _covered_with(self, below: Sequence[Covered]) -> tuple[Covered, ...]:
        held = without(self.covered, Covered(0, self.since))
        both = intersection(without(self.covered, Covered(self.since, self.covered_end)), below)
        if both and held and both[-1].end == held[0].start:
            joined = (*both[:-1], Covered(both[-1].start, held[0].end), *held[1:])
        else:
            joined = (*both, *held)
        return self._with_end(joined)

    def _with_end(self, covered: tuple[Covered, ...]) -> tuple[Covered, ...]:
        """Adds an empty range at the end of the coverage, which still tells how far the partition was copied."""
        if self.covered and not (covered and covered[-1].end >= self.covered_end):
            return (*covered, Covered(self.covered_end, self.covered_end))
        return covered

    def _from_since(self, target: Target) -> RunTable:
        table = self.tables.get(target, NO_RUNS)
        if target not in self.ends:
            return table
        end = self.ends[target]
        at = self.since if self._goes_on_from(end, self.covered) else end.source
        return run_tables.joined(run_tables.end_of_read(at, end.target), table)

    def _goes_on_from(self, end: End, covered: Iterable[Covered]) -> bool:
        """Whether coverage is unbroken from the record before an end up to `since`.

        If a mapping record is missing in between, the last record below `since` may be another one.
        """
        return any(each.start < end.source and self.since <= each.end for each in covered)

    def _forget_below(self, start: int) -> None:
        """Forgets all copies: what was lost may have made others, up to where the next record starts.

        It stays known which target partitions have copies, and where these end; and what was skipped by hand.
        """
        ends = self.ends | {target: End.of(table) for target, table in self.tables.items()}
        self.covered, self.tables, self.ends, self.since = [], {}, {}, 0
        for target, end in ends.items():
            if start and not is_nowhere(target):
                # So far below that it does not seem to be the last copy before the next record.
                self.tables[target] = run_tables.end_of_read(min(end.source, start - 1), end.target)

    def _cancel_from(self, start: int) -> None:
        cut = {target: _before(table, start) for target, table in self.tables.items()}
        self.tables = {target: table for target, table in cut.items() if len(table)}

    def _mark(self, offset: int, record: MappingRecord, every: int) -> None:
        for mark in reversed(self.marks):
            if mark.covered_to <= record.covered_from:
                break
            mark.covered_to = record.covered_from
        if not self.marks or record.time >= self.marks[-1].time + every:
            self.marks.append(Mark(record.time, offset, record.covered_to))


def without(covered: Sequence[Covered], gap: Covered) -> tuple[Covered, ...]:
    """Covered ranges without the offsets of a gap."""
    if gap.end <= gap.start:
        return tuple(covered)
    left: list[Covered] = []
    for each in covered:
        if each.end <= gap.start or each.start >= gap.end:
            left.append(each)
            continue
        if each.start < gap.start:
            left.append(Covered(each.start, gap.start))
        if each.end > gap.end:
            left.append(Covered(gap.end, each.end))
    return tuple(left)


def intersection(first: Sequence[Covered], second: Sequence[Covered]) -> tuple[Covered, ...]:
    """The intersection of two lists of ordered, disjoint ranges."""
    found: list[Covered] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i].start, second[j].start), min(first[i].end, second[j].end)
        if start < end:
            found.append(Covered(start, end))
        if first[i].end < second[j].end:
            i += 1
        else:
            j += 1
    return tuple(found)


def _before(table: RunTable, start: int) -> RunTable:
    """As `run_tables.before`; an end alone, of which the runs are forgotten, stays known below the start."""
    cut = run_tables.before(table, start)
    is_end_alone = start and not len(cut) and len(table) and not table.counts[0]
    return run_tables.end_of_read(start - 1, int(table.target_starts[0])) if is_end_alone else cut


def _goes_back(position: int, records: Iterable[MappingRecord]) -> bool:
    """Whether one of the records, which are in their order, starts below the end of the one before it."""
    for record in records:
        if record.covered_from < position:
            return True
        position = record.covered_to
    return False
