"""Joins runs in columns. Pure, vectorised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from k2k_assets.mapping.algebra.partition_map import NO_RUNS, RunTable


def joined_runs(runs: RunTable) -> RunTable:
    """Joins each run with its predecessor if it continues that one on both sides.

    Args:
        runs: Runs, ordered by source offset.
    """
    starts, targets, counts = runs.source_starts, runs.target_starts, runs.counts
    if len(counts) < 2:
        return runs
    breaks = (starts[1:] != starts[:-1] + counts[:-1]) | (targets[1:] != targets[:-1] + counts[:-1])
    if breaks.all():
        return runs
    firsts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    return RunTable(starts[firsts], targets[firsts], np.add.reduceat(counts, firsts))


def concatenated(tables: Sequence[RunTable]) -> RunTable:
    """Concatenates tables, and joins runs that continue from one table to the next.

    Args:
        tables: Tables of runs into one target partition, ordered by source offset.
    """
    filled = [table for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0] if filled else NO_RUNS
    columns = zip(*((t.source_starts, t.target_starts, t.counts) for t in filled), strict=True)
    return joined_runs(RunTable(*(np.concatenate(column) for column in columns)))
