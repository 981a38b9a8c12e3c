"""Folds mapping records of one source partition into merged runs and covered ranges: pure, no I/O.

```
 records, by (generation, sequence):   [0,5) [5,9)            [7,12)     <- a re-copy that starts at 7
 covered before the re-copy:           [0,9)
 after it:                             [0,7) + [7,12) = [0,12)           <- the runs at 7 and 8 are cancelled
```

A missing record leaves a gap in the covered ranges; it is never filled by a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.runs import Run, cancel_from, merge


class Target(NamedTuple):
    """A target partition."""

    topic: str
    topic_id: str
    partition: int


def nowhere(rule: str) -> Target:
    """Stands for the target of records that a rule left out on purpose.

    A range that was left out is a run whose target offsets are its source offsets, so it is cut and merged as runs are.
    """
    return Target("", rule, -1)


def is_nowhere(target: Target) -> bool:
    """Whether a target stands for records that were left out on purpose."""
    return not target.topic


class Covered(NamedTuple):
    """A covered source range: start inclusive, end exclusive."""

    start: int
    end: int


class Order(NamedTuple):
    """The order of mapping records of one group: generation, then sequence."""

    generation: int
    sequence: int

    @classmethod
    def of(cls, record: MappingRecord) -> Order:
        """The order of a record."""
        return cls(record.generation, record.sequence)


NEVER = Order(-1, -1)


@dataclass(slots=True)
class PartitionMapping:
    """The mapping of one source partition, folded from mapping records.

    Attributes:
        runs: Runs by target partition: ordered by source offset, disjoint, merged.
        covered: Covered ranges: ordered, disjoint, not adjacent.
        newest: Order of the newest record folded in.
        skipped: The covered ranges that were skipped by hand (`k2k-tool set`): ordered, disjoint, not adjacent.
        position: Source offset that the newest record has reached.
    """

    runs: dict[Target, list[Run]] = field(default_factory=dict)
    covered: list[Covered] = field(default_factory=list)
    newest: Order = NEVER
    skipped: list[Covered] = field(default_factory=list)
    position: int = 0


class LateRecord(Exception):
    """A record is older than one that was folded before it; only a fold of all records can place it."""


class Beginning(NamedTuple):
    """How a record begins, or several that follow on each other.

    Attributes:
        generation: Generation of the first record.
        forward_since: The first generation since which the partition was copied only forwards up to it, and to the same
            place.
        start: Start of the covered range of the first record.
    """

    generation: int
    forward_since: int
    start: int

    @classmethod
    def of(cls, record: MappingRecord) -> Beginning:
        """How a record begins."""
        return cls(record.generation, record.only_forward_since, record.covered_from)


def goes_on(newest: Order, position: int, beginning: Beginning, is_doubtful: bool = False) -> bool:
    """Whether what was folded before still holds when records follow it.

    Where some are missing in between, because they were lost, or no mappings were written for a time, these may have
    copied it again, or what comes behind it to another place. It still holds if the records say that no generation
    since went back, or elsewhere. That they begin where another generation stood proves nothing, wherever their copies
    lie: what lies below may have been copied again, and as few of it as there would be markers.

    Args:
        newest: Order of the newest record before them.
        position: Source offset that it had reached.
        beginning: How they begin.
        is_doubtful: Whether records may have been lost, even if they begin where the one before them ends.
    """
    generation, forward_since, start = beginning
    is_missing = is_doubtful or (start > position and newest != NEVER)
    return not is_missing or (forward_since <= newest.generation <= generation and start >= position)


def fold(mapping: PartitionMapping, records: Iterable[MappingRecord], with_dropped: bool = False) -> PartitionMapping:
    """Adds records to a partition's mapping, in their own order.

    Args:
        mapping: The mapping, which is changed in place.
        records: Records of this source partition and topic id, in any order.
        with_dropped: Whether the ranges that were left out on purpose are added too, as runs into `nowhere`.

    Returns:
        The mapping.

    Raises:
        LateRecord: A record is older than `mapping.newest`.
    """
    added: dict[Target, list[Run]] = {}
    for record in sorted(records, key=Order.of):
        order = Order.of(record)
        if order < mapping.newest:
            raise LateRecord(f"{order} after {mapping.newest}")
        if not goes_on(mapping.newest, mapping.position, Beginning.of(record)):
            mapping.covered.clear()
        if record.covered_from < mapping.position:
            _cancel(mapping, added, record.covered_from)
        mapping.newest, mapping.position = order, record.covered_to
        covered = Covered(record.covered_from, record.covered_to)
        _cover(mapping.covered, covered)
        if record.override is not None:
            _cover(mapping.skipped, covered)
        for target in record.targets:
            key = Target(target.topic, target.topic_id, target.partition)
            added.setdefault(key, []).extend(target.runs)
        for each in record.dropped if with_dropped else ():
            ranges = added.setdefault(nowhere(each.rule), [])
            ranges.extend(Run(start, start, end - start) for start, end in each.ranges)
    for key, runs in added.items():
        mapping.runs[key] = merge([*mapping.runs.get(key, ()), *runs])
    mapping.runs = {key: runs for key, runs in mapping.runs.items() if runs}
    return mapping


def _cancel(mapping: PartitionMapping, added: dict[Target, list[Run]], start: int) -> None:
    for runs_by_target in (mapping.runs, added):
        for key, runs in runs_by_target.items():
            runs_by_target[key] = cancel_from(runs, start)
    for ranges in (mapping.covered, mapping.skipped):
        while ranges and ranges[-1].end > start:
            last = ranges.pop()
            if last.start < start:
                ranges.append(Covered(last.start, start))


def _cover(covered: list[Covered], new: Covered) -> None:
    if new.end <= new.start:
        return
    if covered and covered[-1].end == new.start:
        covered[-1] = Covered(covered[-1].start, new.end)
    else:
        covered.append(new)
