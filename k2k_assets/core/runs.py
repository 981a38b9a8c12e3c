"""The algebra of runs: pure, no I/O.

A *run* is a maximal stretch in which source and target offsets both rise by one:

    source   ... 5  6  7  .  .  10 11        (. = transaction marker, aborted, compacted, filtered)
    target   ... 7  8  9  |  |  12 13        (| = commit markers of our own transactions)
    runs:    (5, 7, 3)  (10, 12, 2)

Invariants of an ordered list of runs of one source partition into one target partition:

- every count is at least one;
- runs are ordered and disjoint on the source side, and on the target side;
- it is *merged* when no run can be joined to its successor (both sides adjacent).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Run(NamedTuple):
    """A stretch of records that were copied one after the other.

    Attributes:
        source_start: Source offset of the first record.
        target_start: Target offset of the first record.
        count: How many records, at least one.
    """

    source_start: int
    target_start: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here

    @property
    def source_end(self) -> int:
        """Source offset after the last record."""
        return self.source_start + self.count

    @property
    def target_end(self) -> int:
        """Target offset after the last record."""
        return self.target_start + self.count


def runs_of(source_offsets: Sequence[int], target_offsets: Sequence[int]) -> list[Run]:
    """Folds pairs of offsets into runs.

    Args:
        source_offsets: Source offsets in the order of copying.
        target_offsets: The target offset of each, same length.

    Returns:
        The merged runs, in the order of the pairs.
    """
    runs: list[Run] = []
    start = target = 0
    count = 0
    for s, t in zip(source_offsets, target_offsets, strict=True):
        if count and s == start + count and t == target + count:
            count += 1
            continue
        if count:
            runs.append(Run(start, target, count))
        start, target, count = s, t, 1
    if count:
        runs.append(Run(start, target, count))
    return runs


def runs_of_stretch(source_offsets: Sequence[int], target_start: int) -> list[Run]:
    """Folds records that lie in one piece on the target, with gaps on the source.

    Args:
        source_offsets: Rising source offsets.
        target_start: Target offset of the first; the others follow without a gap.

    Returns:
        One run for each piece without a gap on the source.
    """
    offsets = np.asarray(source_offsets, dtype=np.int64)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(offsets) != 1) + 1))
    counts = np.diff(np.concatenate((starts, [len(offsets)])))
    return [
        Run(int(offsets[start]), target_start + int(start), int(count))
        for start, count in zip(starts, counts, strict=True)
    ]


def merge(runs: Iterable[Run]) -> list[Run]:
    """Joins each run to its predecessor where both sides are adjacent.

    Args:
        runs: Runs ordered by source offset.

    Returns:
        The merged runs, same order, same pairs of offsets.
    """
    merged: list[Run] = []
    for run in runs:
        if merged and merged[-1].source_end == run.source_start and merged[-1].target_end == run.target_start:
            last = merged[-1]
            merged[-1] = Run(last.source_start, last.target_start, last.count + run.count)
        else:
            merged.append(Run(*run))
    return merged


def cancel_from(runs: Sequence[Run], source_offset: int) -> list[Run]:
    """Drops the runs at or after a source offset, because a re-copy starts there.

    Args:
        runs: Runs ordered by source offset.
        source_offset: Where the re-copy starts.

    Returns:
        The runs before the offset; a run that straddles it is cut.
    """
    kept = bisect_left(runs, source_offset, key=lambda run: run.source_start)
    result = list(runs[:kept])
    if result and result[-1].source_end > source_offset:
        last = result[-1]
        result[-1] = Run(last.source_start, last.target_start, source_offset - last.source_start)
    return result


def ordered_and_disjoint(runs: Sequence[Run]) -> bool:
    """Whether both sides rise without overlap, and no run is empty."""
    if any(run.count < 1 for run in runs):
        return False
    return all(a.source_end <= b.source_start and a.target_end <= b.target_start for a, b in pairwise(runs))
