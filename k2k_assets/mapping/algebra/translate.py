"""Translates positions of one source partition to positions of one target partition, and back. Pure, in bulk.

A *position* is the offset of the next record to read. It is translated to the smallest target offset of a copied
record that has not been read:

```
 source     0  1  2  3  .  .  6  7  8           covered [0, 9), copying began at 0, the log ends at 20
 target     5  6  7  8  |  10 11 12 |           runs (0,5,4) (6,10,3)

 position   0  1 …  3  4  5  6 …  8  9 … 15
 answer     5  6 …  8 10 10 10 … 12 13 … 13
            └────────── exact ─────────┘  └─ ahead: 13 is the offset after the last mapped record, not the log end
```

and back, where `|` at 9 is a marker and belongs to no run:

```
 target     … 5  6  7  8  9 10 11 12 13 14
 answer     0 0  1  2  3  4  6  7  8  9  9
```

An answer is given only where the mappings prove it. *Unbroken* means: in one covered range.

- If a record is copied at or after the position, its target offset is the answer. It is exact if the coverage is
  unbroken from the position to that record. A position below all coverage counts as the start of the coverage, if
  coverage begins where copying began.
- If none is, the answer is the offset after the last mapped record: exact up to the end of the coverage, ahead beyond
  it. The coverage must be unbroken from the last mapped record (or from where copying began, if there is none) to its
  end; with broken coverage the answer might be a record that was read already.
- Back, the answer is a record in a run, which must be covered; or the offset after the record that was read last,
  which must be covered too: below a loss runs tell of former copies only (`partition_map.py`).
- Otherwise the answer is *unknown*: mapping was switched on later, a mapping record was lost, or the index was pruned.
- It is unknown too, whatever the coverage, for a position below records that went elsewhere (the target topic was
  deleted and created anew, or records were routed to another topic or to other partitions), and for a position below
  the offset where copying began, if the source had records there. A group that stands there would skip these records.
- It is unknown where it would be the target's log start, because no record of the partition is mapped, and the target
  holds records: they may be copies of a former source topic of that name, which a group there would read again.
- Of a copy that another tool began and `k2k-tool adopt` took over nothing is known: positions below where copying began
  are unknown, and so are positions in it, translated back.

This module does not handle the bounds of the target's log otherwise, nor several sources in one target partition
(`cut.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap, RunTable

NO_OFFSET = -1

_Flags = NDArray[np.bool_]


class TranslationState(IntEnum):
    """The state of a translated position. The first four follow from the mappings, the other two from the clusters."""

    EXACT = 0
    AHEAD = 1
    UNKNOWN = 2
    NOT_REPLICATED = 3
    EXPIRED = 4
    """The answer lay below the log start of its partition, and was raised to it."""
    MAY_REPEAT = 5
    """Records that were read already may be read again: translation back at least once (`may_repeat`), and where both
    sides are written and order records differently (`reverse.first_unread`)."""

    @property
    def label(self) -> str:
        """The text for people."""
        return "may be read again" if self is TranslationState.MAY_REPEAT else self.name.lower().replace("_", " ")


STATE_LABELS = tuple(state.label for state in TranslationState)
"""The texts for people, by value of the state."""


@dataclass(frozen=True, slots=True)
class Translated:
    """Translated positions, in the order of the given ones.

    Attributes:
        offsets: The translated positions; `NO_OFFSET` (-1) where the state is unknown or not replicated.
        states: Values of `TranslationState`.
    """

    offsets: Offsets
    states: NDArray[np.uint8]


def unknown_where(flags: NDArray[np.bool_], found: Translated) -> Translated:
    """Sets some answers to unknown, because their positions have no meaning.

    Args:
        flags: Which answers, in their order.
        found: The answers.
    """
    flags = flags & (found.states != TranslationState.NOT_REPLICATED)
    offsets = np.where(flags, np.int64(NO_OFFSET), found.offsets)
    return Translated(offsets, np.where(flags, np.uint8(TranslationState.UNKNOWN), found.states).astype(np.uint8))


def translate(
    mapping: PartitionMap,
    target: Target,
    positions: Offsets,
    floor: int | None = None,
    alone: bool = False,
    log_end: int | None = None,
) -> Translated:
    """Translates positions on the source to positions on the target.

    Args:
        mapping: Map of the source partition.
        target: The target partition.
        positions: Next offsets to read on the source, any shape and order.
        floor: The answer if the coverage proves that no record of the partition ever went to the target partition: its
            log start if this is its only source; behind an adopted copy the offset where copying began, if that is
            higher. None: such positions are not replicated.
        alone: Whether the source partition goes to no other target partition today, so that records in others were
            routed there earlier.
        log_end: Last stable offset of the target partition: of records from the floor on nobody knows whose copies they
            are, so that the floor is not exact. None: whatever lies there is no matter.

    Returns:
        The answers, same shape.
    """
    positions = np.asarray(positions, dtype=np.int64)
    runs = mapping.runs.get(target, NO_RUNS)
    if not mapping.covered or (not len(runs) and floor is None):
        return _nothing(positions)
    if floor is not None:
        floor = max(floor, mapping.target_began or 0)
    unread = next_copied(runs, positions)
    states = np.where(positions <= mapping.covered_end, TranslationState.EXACT, TranslationState.AHEAD).astype(np.uint8)
    offsets = np.full(positions.shape, runs.target_end if len(runs) else floor, dtype=np.int64)
    found = unread.run < len(runs)
    known = np.full(positions.shape, _tail_is_unbroken(mapping, runs))
    if len(runs):
        run = unread.run[found]
        records = unread.record[found]
        offsets[found] = runs.target_starts[run] + (records - runs.source_starts[run])
        known[found] = unbroken(mapping, positions[found], records)
    elif log_end is not None and log_end > (floor or 0):
        known &= states == TranslationState.AHEAD
    return _answers(offsets, states, known & (positions >= mapping.complete_from(target, alone)))


def translate_back(
    mapping: PartitionMap, target: Target, positions: Offsets, mapped_to: int | None = None
) -> Translated:
    """Translates positions on the target back to positions on the source.

    Args:
        mapping: Map of the source partition.
        target: The target partition.
        positions: Next offsets to read on the target, any shape and order.
        mapped_to: Target offset below which every copied record is mapped (the last stable offset of a cut). Positions
            up to it are exact even behind the last mapped record; without it these are ahead.

    Returns:
        The answers, same shape. In a gap the answer is the source offset after the record before the gap, because no
        record in between was copied.
    """
    positions = np.asarray(positions, dtype=np.int64)
    runs = mapping.runs.get(target, NO_RUNS)
    if not mapping.covered or not len(runs):
        return _nothing(positions)
    unread = next_records(runs.target_starts, runs.counts, positions)
    found = unread.run < len(runs)
    run = np.minimum(unread.run, len(runs) - 1)
    in_gap = ~found | (positions < runs.target_starts[run])
    # The run that was read last; not used where none was.
    last = np.maximum(unread.run - 1, 0)
    read_to = runs.source_starts[last] + runs.counts[last]
    in_run = runs.source_starts[run] + (positions - runs.target_starts[run])
    offsets = np.where(in_gap, np.where(unread.run == 0, runs.source_starts[0], read_to), in_run)

    is_read = ends_are_covered(mapping, runs, last)
    at_end = is_read & (positions == runs.target_starts[last] + runs.counts[last])
    known = np.where(in_gap, at_end, unbroken(mapping, in_run, in_run))
    behind, between = in_gap & ~found, in_gap & found & (unread.run > 0)
    known[between] |= is_read[between] & unbroken(mapping, read_to[between], runs.source_starts[run[between]])
    known[behind] |= _tail_is_unbroken(mapping, runs)
    first = unread.run == 0
    start = np.array([mapping.covered[0].start])
    known[in_gap & first] = mapping.from_the_beginning and bool(unbroken(mapping, start, runs.source_starts[:1])[0])
    # A reader below has not read all of an adopted copy, whose source offsets nobody knows.
    known &= ~(in_gap & first) | (positions >= (mapping.target_began or 0))
    known &= ~in_gap | (offsets >= mapping.elsewhere_to(target))
    exact_to = max(runs.target_end, mapped_to or 0)
    states = np.where(positions <= exact_to, TranslationState.EXACT, TranslationState.AHEAD).astype(np.uint8)
    return _answers(offsets, states, known)


def may_repeat(
    mapping: PartitionMap,
    target: Target,
    positions: Offsets,
    below: int = BEYOND_ALL_LOGS,
    written_there: RunTable = NO_RUNS,
) -> _Flags:
    """At least once: whether a reader that goes back to the source may read records again.

    ```
     source   0  1  2  3  4  5               the copy crashed after it had sent 3 and 4, and sent them again
     target   0  1  2  3  4  5  6  7  8      (3, 4: copies that no mapping record answers for)
     copy of  0  1  2 (3  4) 3  4  5         at 5 a reader has read 3 and 4, and goes back to 3
    ```

    The unmapped offsets of a gap of n offsets hold copies of at most n records, which are copied again right behind the
    gap. So a reader that has read n mapped records since the gap will read none of these records again. What a frozen
    writer had queued may land in pieces, among the copies of its successor: of several gaps that follow each other so
    closely all offsets count.

    From the position on at which copying went on exactly once, the unmapped offsets behind its copy are markers.

    Args:
        mapping: Map of the source partition.
        target: The target partition.
        positions: Next offsets to read on the target.
        below: Source position from which on it was copied exactly once; unless given it never was.
        written_there: Runs whose source is the target partition, if it is copied back: these records were written there
            and are no copies.
    """
    positions = np.asarray(positions, dtype=np.int64)
    runs = mapping.runs.get(target, NO_RUNS)
    markers_from = _copy_of(runs, below)

    def unmapped(start: Offsets, end: Offsets) -> Offsets:
        start, end = np.minimum(start, markers_from), np.minimum(end, markers_from)
        here = (count_below(written_there.source_starts, written_there.counts, each) for each in (end, start))
        return end - start - (next(here) - next(here))

    start = np.int64(mapping.target_began or 0)
    if not len(runs):
        return np.asarray(unmapped(np.minimum(start, positions), positions) > 0)
    ends = runs.target_starts + runs.counts
    gaps = unmapped(np.concatenate(([start], ends[:-1])), runs.target_starts)
    mapped = np.concatenate(([0], np.cumsum(runs.counts)))[:-1]
    # Number of mapped records after which all copies in the gaps so far have been copied again: after the first record
    # behind some gap, as many as are in this one and all later ones.
    so_far = np.cumsum(gaps)
    enough = so_far + np.maximum.accumulate(mapped - (so_far - gaps))
    run = np.searchsorted(runs.target_starts, positions, side="right") - 1
    at = np.maximum(run, 0)
    read = mapped[at] + np.minimum(positions - runs.target_starts[at], runs.counts[at])
    in_gap = unmapped(np.minimum(ends[at], positions), positions) > 0
    return np.where(run < 0, unmapped(np.zeros_like(positions), positions) > 0, in_gap | (read < enough[at]))


def _copy_of(runs: RunTable, position: int) -> int:
    """Target offset of the first copied record from a source position on; behind all others if none is mapped."""
    from_there = np.flatnonzero((runs.counts > 0) & (runs.source_starts + runs.counts > position))
    if not len(from_there):
        return BEYOND_ALL_LOGS
    run = from_there[0]
    return int(runs.target_starts[run] + max(0, position - runs.source_starts[run]))


def count_below(starts: Offsets, counts: Offsets, positions: Offsets) -> NDArray[np.int64]:
    """Number of records below each position, in ordered, disjoint runs; arguments as for `next_records`."""
    positions = np.asarray(positions, dtype=np.int64)
    if not len(starts):
        return np.zeros(positions.shape, dtype=np.int64)
    run = np.searchsorted(starts, positions, side="right") - 1
    at = np.maximum(run, 0)
    before = (np.cumsum(counts) - counts)[at] + np.minimum(positions - starts[at], counts[at])
    return np.where(run < 0, np.int64(0), before)


@dataclass(frozen=True, slots=True)
class NextRecords:
    """The first record at or after each position.

    Attributes:
        run: Index of the record's run; the number of runs if there is no such record.
        record: Offset of the record; the position itself if there is no such record.
    """

    run: NDArray[np.int64]
    record: Offsets


def next_records(starts: Offsets, counts: Offsets, positions: Offsets) -> NextRecords:
    """Finds the first record at or after each position, in ordered, disjoint runs.

    Args:
        starts: First offset of each run, on the side of the positions.
        counts: Number of records of each run.
        positions: Positions, any shape.
    """
    if not len(starts):
        return NextRecords(np.zeros(positions.shape, dtype=np.int64), positions)
    run = np.maximum(np.searchsorted(starts, positions, side="right").astype(np.int64) - 1, 0)
    run += positions >= starts[run] + counts[run]
    start = starts[np.minimum(run, len(starts) - 1)]
    return NextRecords(run, np.where(run < len(starts), np.maximum(positions, start), positions))


def next_copied(runs: RunTable, positions: Offsets) -> NextRecords:
    """The next records on the source; skips a run of no records (`run_tables.end_of_read`) if other runs follow it."""
    unread = next_records(runs.source_starts, runs.counts, positions)
    last = len(runs) - 1
    nothing = (unread.run < last) & (runs.counts[np.minimum(unread.run, last)] == 0) if len(runs) else np.False_
    if not np.any(nothing):
        return unread
    run = unread.run + nothing
    return NextRecords(run, np.where(nothing, runs.source_starts[np.minimum(run, last)], unread.record))


def unbroken(mapping: PartitionMap, positions: Offsets, records: Offsets) -> _Flags:
    """Whether coverage is unbroken from each position up to and including a record at or after it.

    Args:
        mapping: The map, with at least one covered range.
        positions: Positions; one below all coverage counts as its start, if coverage begins where copying began.
        records: Offsets of the records, same shape.
    """
    starts, ends = np.array(mapping.covered, dtype=np.int64).T
    if mapping.from_the_beginning:
        positions = np.maximum(positions, starts[0])
    at = np.maximum(np.searchsorted(starts, records, side="right") - 1, 0)
    covers: _Flags = (starts[at] <= positions) & (records < ends[at])
    return covers


def ends_are_covered(mapping: PartitionMap, runs: RunTable, which: Offsets) -> _Flags:
    """Whether the last record of each run is covered; of a run of no records, the offset at which it stands.

    Args:
        mapping: The map, with at least one covered range.
        runs: Its runs into a target partition, at least one.
        which: Indexes of runs.
    """
    starts, ends = np.array(mapping.covered, dtype=np.int64).T
    end = runs.source_starts[which] + runs.counts[which]
    last = end - (runs.counts[which] > 0)
    at = np.maximum(np.searchsorted(starts, last, side="right") - 1, 0)
    covers: _Flags = (starts[at] <= last) & (end <= ends[at])
    return covers


def _tail_is_unbroken(mapping: PartitionMap, runs: RunTable) -> bool:
    """Whether coverage is unbroken from the last mapped record on; without one, from where copying began on."""
    if not len(runs):
        return mapping.from_the_beginning and len(mapping.covered) == 1
    last = np.array([len(runs) - 1])
    return mapping.covered[-1].start <= runs.source_end and bool(ends_are_covered(mapping, runs, last)[0])


def _nothing(positions: Offsets) -> Translated:
    return Translated(
        np.full(positions.shape, NO_OFFSET, dtype=np.int64),
        np.full(positions.shape, TranslationState.NOT_REPLICATED, dtype=np.uint8),
    )


def _answers(offsets: Offsets, states: NDArray[np.uint8], known: _Flags) -> Translated:
    return Translated(
        np.where(known, offsets, np.int64(NO_OFFSET)),
        np.where(known, states, np.uint8(TranslationState.UNKNOWN)).astype(np.uint8),
    )
