"""What a map still tells where the target has lost copies. Pure, no I/O.

```
 source   0 ... 3 | 4 ... 9 |           position 10
 target   0 ... 3 |                     4 to 9 are lost: the target ends at 4, or its next record got offset 4
 map      0 ... 3 |? ..... ?|           where a group continues that has not read 4 is not known
```

What is copied next takes their places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.mapping.algebra import run_tables
from k2k_assets.mapping.algebra.fold import Covered, Order, Target, is_nowhere
from k2k_assets.mapping.algebra.in_memory_mapping import Tables, without
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable
from k2k_assets.mapping.algebra.translate import next_records


def first_lost(runs: RunTable, cut: int) -> int | None:
    """Source offset of the first record whose copy is lost; None if none is.

    Args:
        runs: The runs into a target partition.
        cut: Target offset from which on its copies are lost.
    """
    found = next_records(runs.target_starts, runs.counts, np.array([cut]))
    run, record = int(found.run[0]), int(found.record[0])
    return int(runs.source_starts[run]) + record - int(runs.target_starts[run]) if run < len(runs) else None


def without_lost(mapping: PartitionMap, cut_of: Callable[[Target], int | None]) -> PartitionMap:
    """The map up to the first record whose copy is lost; what lies behind is unknown, up to where it was copied.

    Args:
        mapping: The map.
        cut_of: Target offset from which on copies in a target partition are lost; None if none are.
    """
    lost = [first_lost(runs, cut) for target, runs in mapping.runs.items() if (cut := cut_of(target)) is not None]
    start = min((offset for offset in lost if offset is not None), default=None)
    return mapping if start is None else unknown_from(mapping, start)


def cut_below(mapping: PartitionMap, log_end: int | None) -> int | None:
    """Where the log of a source partition was cut off below what was copied of it; None if it was not.

    Args:
        mapping: The map of what was copied.
        log_end: Up to where the log is the one that was copied; None if nothing is known of that.
    """
    return log_end if mapping.covered_end and log_end is not None and log_end < mapping.covered_end else None


def known_to_cut(mapping: PartitionMap, log_end: int | None) -> PartitionMap:
    """The map as far as the log of its source is the one that was copied.

    Args:
        mapping: The map of what was copied.
        log_end: As for `cut_below`.
    """
    cut = cut_below(mapping, log_end)
    return mapping if cut is None else unknown_from(mapping, cut)


def unknown_from(mapping: PartitionMap, start: int) -> PartitionMap:
    """The map up to a source offset; what lies behind is unknown, up to where it was copied."""
    return up_to(mapping, start).reaching(mapping.covered_end)


def unless_copied_anew(mapping: PartitionMap, newest: Order, commit: CommitRecord) -> PartitionMap:
    """The map where mapping records may be lost, as far as the newest commit record does not contradict it.

    ```
     mapping records   generation 1: 0 ... 100      lost: any
     commit record     generation 3: position 100   whether 2 or 3 went back before it, unless it says that none did
    ```

    What another instance committed since may be copies that cancel all that is known: then the runs tell that copies
    are there, and answer nothing. The commit record notes since which generation none went back.

    Args:
        mapping: The map of what was read.
        newest: Order of the newest mapping record that was read.
        commit: The newest commit record.
    """
    if _has_gone_on(newest, commit):
        return mapping
    return replace(up_to(mapping, commit.position), covered=(), dropped={}).reaching(commit.position)


def _has_gone_on(newest: Order, commit: CommitRecord) -> bool:
    """Whether no generation went back, or elsewhere, from a mapping record to a commit record."""
    since = commit.generation if commit.forward_since is None else commit.forward_since
    return since <= newest.generation


def up_to(mapping: PartitionMap, start: int) -> PartitionMap:
    """The map of what lies below a source offset."""
    return replace(
        mapping,
        covered=without(mapping.covered, Covered(start, mapping.covered_end)),
        runs={target: run_tables.before(table, start) for target, table in mapping.runs.items()},
        dropped={rule: run_tables.before(table, start) for rule, table in mapping.dropped.items()},
    )


def without_overlaid(covered: tuple[Covered, ...], tables: Tables) -> tuple[tuple[Covered, ...], Tables]:
    """Coverage and runs without the copies in whose places later ones lie: the target was cut off in between.

    ```
     source   0 ... 39 | 40 ... 99 | 100 ...
     target   0 ... 39 | 40 ... 99 | 40 ...       the copies of 40 to 99 are lost, and nobody had noticed it
    ```

    Args:
        covered: Covered ranges.
        tables: Runs by target partition, in the order of the source.
    """
    lost: list[Covered] = []
    kept = dict(tables)
    for target, table in tables.items():
        if is_nowhere(target) or len(table) < 2:
            continue
        # From where on later copies lie, behind each run but the last.
        later = np.minimum.accumulate(table.target_starts[:0:-1])[::-1]
        over = np.maximum(table.target_starts[:-1] + table.counts[:-1] - later, 0)
        gone = np.append(np.minimum(over, table.counts[:-1]), 0)
        ends = table.source_starts + table.counts
        which = np.flatnonzero(gone)
        if not len(which):
            continue
        # One gap reaches over all runs that follow and are lost as a whole.
        begins = (np.diff(which) > 1) | (gone < table.counts)[which[1:]]
        for of_one_cut in np.split(which, np.flatnonzero(begins) + 1):
            first, last = of_one_cut[0], of_one_cut[-1]
            lost.append(Covered(int(ends[first] - gone[first]), int(ends[last])))
        left = table.counts - gone
        some = left > 0
        kept[target] = RunTable(table.source_starts[some], table.target_starts[some], left[some])
    for gap in lost:
        covered = without(covered, gap)
    return covered, kept
