"""Cuts and joins tables of runs at a source offset. Pure, without a loop over runs.

Each function returns a new table, which may share arrays with the old one; arrays are never changed.
"""

from __future__ import annotations

import numpy as np

from k2k_assets.mapping.algebra.partition_map import RunTable


def before(table: RunTable, source_offset: int) -> RunTable:
    """The runs below a source offset; a run that straddles it is cut."""
    kept = int(np.searchsorted(table.source_starts, source_offset, side="left"))
    counts = table.counts[:kept]
    if kept and table.source_starts[kept - 1] + counts[-1] > source_offset:
        counts = counts.copy()
        counts[-1] = source_offset - table.source_starts[kept - 1]
    return RunTable(table.source_starts[:kept], table.target_starts[:kept], counts)


def since(table: RunTable, source_offset: int) -> RunTable:
    """The runs at or above a source offset; a run that straddles it is cut."""
    first = int(np.searchsorted(table.source_starts, source_offset, side="left"))
    straddles = first > 0 and table.source_starts[first - 1] + table.counts[first - 1] > source_offset
    first -= straddles
    starts, targets, counts = table.source_starts[first:], table.target_starts[first:], table.counts[first:]
    if straddles:
        gone = source_offset - starts[0]
        starts, targets, counts = starts.copy(), targets.copy(), counts.copy()
        starts[0] += gone
        targets[0] += gone
        counts[0] -= gone
    return RunTable(starts, targets, counts)


def end_of_read(source_offset: int, target_offset: int) -> RunTable:
    """A run of no records, which only tells that the runs below the source offset end at the target offset."""
    return RunTable(*(np.array([value], dtype=np.int64) for value in (source_offset, target_offset, 0)))


def joined(first: RunTable, second: RunTable) -> RunTable:
    """Joins two merged tables, one behind the other; merges the runs where they meet."""
    if not len(first):
        return second
    if not len(second):
        return first
    seam = first.source_end == second.source_starts[0] and first.target_end == second.target_starts[0]
    skipped = int(seam)
    counts = np.concatenate((first.counts, second.counts[skipped:]))
    if seam:
        counts[len(first) - 1] += second.counts[0]
    return RunTable(
        np.concatenate((first.source_starts, second.source_starts[skipped:])),
        np.concatenate((first.target_starts, second.target_starts[skipped:])),
        counts,
    )
