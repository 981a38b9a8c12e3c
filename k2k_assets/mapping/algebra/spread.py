"""Translates positions back to a source partition that was spread over several target partitions. Pure.

A group that comes back from the target has read each target partition up to another position:

```
 source      0  1  2  3  4  5  6        (. = marker, or filtered: not on the target)
 went to     a  b  a  .  b  a  b
 position in a: before 5, in b: before 4        0, 1, 2 are read; 4, 5 and 6 are not
 answer: 3, the source offset after the last record below all unread ones
```

With one target partition the answer is that of `translate_back`, except for offsets of records that were not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState, ends_are_covered, next_records, unbroken

_NONE = np.iinfo(np.int64).max


def combine_back(mapping: PartitionMap, positions: Mapping[Target, int]) -> tuple[int, TranslationState]:
    """Translates a group's positions in several target partitions to its position in the source partition.

    Args:
        mapping: Map of the source partition, at a cut: all records that the group may have read are mapped.
        positions: Next offset to read in each target partition that it went to; 0 where nothing was read. Other target
            partitions are ignored.

    Returns:
        The source offset after the last record below all unread ones: no unread record is skipped, and records between
        it and the first unread one were not copied. Unknown if coverage is broken around an answer, not replicated if
        there are no runs; both with `NO_OFFSET`.
    """
    tables = {target: runs for target in positions if len(runs := mapping.runs.get(target, NO_RUNS))}
    if not mapping.covered or not tables:
        return NO_OFFSET, TranslationState.NOT_REPLICATED
    sides = [_sides(mapping, runs, positions[target]) for target, runs in tables.items()]
    if len(tables) < len(positions):
        sides.append(_nothing_known(mapping))
    first_unread = min(side.unread for side in sides)
    if any(not side.proven and side.read_to < first_unread for side in sides):
        return NO_OFFSET, TranslationState.UNKNOWN
    before = [end for runs in tables.values() if (end := _end_before(runs, first_unread)) is not None]
    # If nothing was read, the answer is the first record, as in `translate_back`.
    return (max(before) if before else first_unread), TranslationState.EXACT


class _Sides(NamedTuple):
    """The source offsets around a position on the target."""

    read_to: int  # offset after the last record that was read; -1 if none was, or if no coverage tells of it
    unread: int  # offset of the first record that was not read; `_NONE` if all were read
    proven: bool  # whether the mappings prove that no other record lies between the two


def _sides(mapping: PartitionMap, runs: RunTable, position: int) -> _Sides:
    after = next_records(runs.target_starts, runs.counts, np.array([position]))
    run, record = int(after.run[0]), int(after.record[0])
    if run < len(runs) and record > runs.target_starts[run]:
        unread = int(runs.source_starts[run]) + record - int(runs.target_starts[run])
        is_covered = _proven(mapping, unread - 1, unread)
        return _Sides(unread if is_covered else -1, unread, is_covered)
    unread = int(runs.source_starts[run]) if run < len(runs) else _NONE
    if run and not ends_are_covered(mapping, runs, np.array([run - 1]))[0]:
        return _Sides(-1, unread, False)
    read_to = int(runs.source_starts[run - 1] + runs.counts[run - 1]) if run else -1
    if run < len(runs):
        return _Sides(read_to, unread, _proven(mapping, read_to, unread))
    end = mapping.covered_end
    return _Sides(read_to, unread, _proven(mapping, read_to, end - 1) or end == read_to)


def _nothing_known(mapping: PartitionMap) -> _Sides:
    """The sides for a target partition without runs: uncovered records may lie there, unread."""
    return _Sides(-1, _NONE, mapping.from_the_beginning and len(mapping.covered) == 1)


def _proven(mapping: PartitionMap, position: int, record: int) -> bool:
    return bool(unbroken(mapping, np.array([position]), np.array([record]))[0])


def _end_before(runs: RunTable, source_offset: int) -> int | None:
    """Source offset after the last mapped record below an offset; None if there is none."""
    run = int(np.searchsorted(runs.source_starts, source_offset)) - 1
    return None if run < 0 else min(source_offset, int(runs.source_starts[run] + runs.counts[run]))
