"""Translates positions between two partitions that are copied into each other, each with records of its own. Pure.

```
 there    a0 a1 b0' a2 | b1'           a: written there, b: written here, ': copies, |: a marker
 here     a0' a1' b0 a2' b1            a group stands there at 3: it has read a0, a1 and b0
                                       here it continues at 3, the first record that it has not read
```

A group that stands there at S has read all records below S: those that were written there, and copies of those that
were written here. So it has not read here

- copies whose record lies there at or after S;
- records that were written here, whose copy lies there at or after S, or which are not copied there yet.

The answer is the smallest offset of these: nothing is skipped. The two logs may order records differently: then the
group reads some here for a second time, and the answer says how many:

```
 there    a0 b0' a1                    at 1 a group has read a0, and not b0
 here     b0 a0' a1'                   it continues at 0, and reads a0 again
```

Beyond what is copied there, nobody knows whether an offset here holds a record that was written here, or a marker. So
the answer is at most the first such offset. It is at most the end of the cut too: behind it copies may lie that are not
mapped yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.in_memory_mapping import without
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap, RunTable
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    TranslationState,
    count_below,
    may_repeat,
    next_copied,
    next_records,
    translate,
)

_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LogHere:
    """The log of the partition here.

    Attributes:
        start: Its log start.
        end: Its last stable offset at the cut of `back`.
        end_there: End of the partition there, if it is copied here at least once: then copies may lie here that are not
            mapped yet. None with exactly-once.
        repeats: Whether copies there may be unmapped, because records are copied there at least once.
    """

    start: int
    end: int
    end_there: int | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class FirstUnread:
    """Where groups continue here, in the order of their positions there.

    Attributes:
        offsets: The first record here that is not read; `NO_OFFSET` where the mappings do not prove it.
        states: Values of `TranslationState`. Ahead: the group has read records there that are not copied yet.
            May repeat: it reads records again, or the mappings do not prove that it does not. Unknown: they do not
            prove the answer.
        again: Number of records that the group reads again, as far as the mappings tell.
    """

    offsets: Offsets
    states: NDArray[np.uint8]
    again: NDArray[np.int64]


def first_unread(
    forth: PartitionMap, there: Target, back: PartitionMap, here: Target, positions: Offsets, log: LogHere
) -> FirstUnread:
    """Finds the first record here that groups have not read there.

    The positions have to be read before `back` and `forth` are, and `back` no later than `forth`.

    Args:
        forth: Map of the partition here, which is copied there.
        there: The partition there.
        back: Map of the partition there, which is copied here.
        here: The partition here.
        positions: Next offsets that groups read there.
        log: The log here.
    """
    positions = np.asarray(positions, dtype=np.int64)
    copies, own = back.runs.get(here, NO_RUNS), forth.runs.get(there, NO_RUNS)
    found = translate(back, here, positions, log.start, alone=True)
    copy, record = _first_copy(copies, positions), _first_own(own, positions)
    known_to, is_all = _known_to(forth, there, log.start)
    behind = np.where(copy <= known_to, known_to, np.minimum(_end_of_copies(copies, known_to), copy))
    end = _end_of_mapped(copies, back, positions, log)
    offsets = np.minimum(np.minimum(copy, record), np.minimum(behind, end))
    at = np.maximum(offsets, log.start)
    again = _between(copies.source_starts, copies.target_starts, copies.counts, positions, at)
    again += _between(own.target_starts, own.source_starts, own.counts, positions, at)

    exact = found.states == TranslationState.EXACT
    repeats = (again > 0) | (at < _counted_from(back, copies, positions)) | (not is_all)
    if log.repeats:
        repeats |= may_repeat(forth, there, positions, written_there=copies)
    states = np.where(exact & repeats, np.uint8(TranslationState.MAY_REPEAT), found.states)
    proven = (found.states <= TranslationState.AHEAD) & (known_to != NO_OFFSET) & (is_all | (offsets < known_to))
    lost = np.where(found.states == TranslationState.NOT_REPLICATED, found.states, np.uint8(TranslationState.UNKNOWN))
    return FirstUnread(
        np.where(proven, offsets, np.int64(NO_OFFSET)),
        np.where(proven, states, lost).astype(np.uint8),
        np.where(proven, again, np.int64(0)),
    )


def _first_copy(copies: RunTable, positions: Offsets) -> Offsets:
    """Offset here of the first copy that is not read; `_NONE` if all are read."""
    unread = next_copied(copies, positions)
    return _moved(unread.run, unread.record, copies.source_starts, copies.target_starts)


def _first_own(own: RunTable, positions: Offsets) -> Offsets:
    """Offset of the first record that was written here whose copy is not read; `_NONE` if all copies are read."""
    unread = next_records(own.target_starts, own.counts, positions)
    return _moved(unread.run, unread.record, own.target_starts, own.source_starts)


def _moved(run: NDArray[np.int64], records: Offsets, starts: Offsets, to: Offsets) -> Offsets:
    if not len(starts):
        return np.full(records.shape, _NONE, dtype=np.int64)
    at = np.minimum(run, len(starts) - 1)
    return np.where(run < len(starts), to[at] + records - starts[at], _NONE)


def _known_to(forth: PartitionMap, there: Target, log_start: int) -> tuple[int, bool]:
    """Up to which offset it is known of all records here where they went.

    Returns:
        The offset (`NO_OFFSET` if it is not known of the first record), and whether no more is known behind it.
    """
    if forth.elsewhere_to(there, alone=True) > log_start or not forth.covered:
        return NO_OFFSET, False
    begin = log_start
    if forth.from_the_beginning and not forth.began_late:
        begin = max(begin, forth.covered[0].start)  # there was nothing below
    if begin >= forth.covered_end:
        return begin, True
    # What was skipped by hand nobody has read there.
    covered = reduce(without, forth.skipped, forth.covered)
    for each in covered:
        if each.start <= begin < each.end:
            return each.end, each.end == forth.covered_end
    return NO_OFFSET, False


def _end_of_copies(copies: RunTable, offset: int) -> int:
    """The first offset from `offset` on that holds no mapped copy."""
    ends = copies.target_starts + copies.counts
    run = int(np.searchsorted(copies.target_starts, offset, side="right")) - 1
    if run < 0 or offset >= ends[run]:
        return offset
    breaks = np.flatnonzero(copies.target_starts[run + 1 :] != ends[run:-1])
    return int(ends[run + int(breaks[0])] if len(breaks) else ends[-1])


def _counted_from(back: PartitionMap, copies: RunTable, positions: Offsets) -> Offsets:
    """The offset here from which on all copies are mapped of what was read there below each position."""
    began = np.full(positions.shape, back.target_began or 0, dtype=np.int64)
    if back.is_whole:
        return began
    starts = np.array([each.start for each in back.covered], dtype=np.int64)
    at = np.maximum(np.searchsorted(starts, positions, side="right") - 1, 0)
    found: Offsets = np.maximum(began, _first_copy(copies, starts[at]))
    return found


def _end_of_mapped(copies: RunTable, back: PartitionMap, positions: Offsets, log: LogHere) -> Offsets:
    """The offset here behind which copies may lie that are not mapped yet, and not read."""
    end = np.full(positions.shape, log.end, dtype=np.int64)
    if log.end_there is None:
        return end
    may = np.maximum(positions, back.covered_end) < log.end_there
    last = copies.target_end if len(copies) else max(log.start, back.target_began or 0)
    return np.where(may, np.minimum(end, last), end)


def _between(starts: Offsets, others: Offsets, counts: Offsets, below: Offsets, at: Offsets) -> NDArray[np.int64]:
    """Number of records below a position on the one side, and at or after a position on the other side."""
    found: NDArray[np.int64] = np.maximum(count_below(starts, counts, below) - count_below(others, counts, at), 0)
    return found
