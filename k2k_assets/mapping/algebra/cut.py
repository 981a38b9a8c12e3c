"""Translates positions into a target partition that several source partitions feed. Pure, in bulk.

The records of the sources lie mixed, and a group has read each source up to another position:

```
 source a   0  1  2  3  4          position 3: 0, 1 and 2 are read
 source b   0  1  2                position 1: 0 is read
 target     a0 a1 b0 b1 a2 a3 b2 a4  .  .      (. = not committed yet)
            0  1  2  3  4  5  6  7   L
                     └ the answer: the smallest unread one. a2 is read again, nothing is skipped.
```

The answer is right only at a *cut*. In this order:

1. take L, the last stable offset of the target partition;
2. take the committed positions of the copy and, at-least-once, the ends of the source partitions;
3. take the high watermarks of the mapping topic, which include uncommitted records;
4. read mapping records until they pass those ends.

Then every record below L is mapped: mappings are committed with their records, so unmapped records lie at or above L.
The answer is the smallest unread target offset below L over all sources, and L if there is none.

In at-least-once mode, records are on the target before their mapping. If a source is mapped to less than its end, its
unmapped records may lie anywhere after its last mapped record; so the answer is at most the offset after that record,
unless the group has read all of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap
from k2k_assets.mapping.algebra.translate import NO_OFFSET, Translated, TranslationState, next_copied, unbroken

_NONE = np.iinfo(np.int64).max

_Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Feed:
    """One source partition that feeds a target partition, and the positions of groups in it.

    Attributes:
        mapping: Map of the source partition.
        positions: Next offset to read on the source, one for each wanted answer (each group); `NO_OFFSET` leaves this
            source out. For a group that has read nothing of it: the offset where copying of it began, or 0.
        copied_to: Committed position of the copy. If the mapping ends before it, mapping records are missing, because
            mapping is off. None skips this check.
        source_end: At-least-once: end of the source partition. None with exactly-once.
        floor: At-least-once: log start of the target partition, at which the first record of a source without any
            mapped record may lie.
        alone: Whether the source partition goes to no other target partition (`translate.translate`).
    """

    mapping: PartitionMap
    positions: Offsets
    copied_to: int | None = None
    source_end: int | None = None
    floor: int | None = None
    alone: bool = False


def combine(target: Target, feeds: Sequence[Feed], stable_end: int) -> Translated:
    """Translates positions in all source partitions of a target partition into one position for each group.

    Args:
        target: The target partition.
        feeds: All source partitions that may be routed to it, with equally many positions; at least one.
        stable_end: L, last stable offset of the target partition at the cut.

    Returns:
        One answer for each group. Exact: the smallest unread record, or L. Ahead: an end that will move with more
        mappings, because a position lies beyond them, or a source has unmapped records. Unknown: the coverage of a
        source is broken behind its position. Not replicated: none of the sources is covered.
    """
    shape = np.shape(feeds[0].positions)
    unread = np.full(shape, _NONE, dtype=np.int64)
    end = np.full(shape, stable_end, dtype=np.int64)
    beyond, unknown, replicated = (np.zeros(shape, dtype=np.bool_) for _ in range(3))
    for feed in feeds:
        positions = np.asarray(feed.positions, dtype=np.int64)
        asked = positions >= 0
        record, proven = _unread(feed, target, positions)
        unmapped, placed = _unmapped(feed, target, positions)
        unread = np.where(asked, np.minimum(unread, record), unread)
        end = np.where(asked, np.minimum(end, unmapped), end)
        beyond |= asked & (positions > feed.mapping.covered_end)
        unknown |= asked & ~(proven & placed)
        replicated |= asked & bool(feed.mapping.covered)
    ahead = (end < unread) & (beyond | (end < stable_end))
    states = np.where(ahead, TranslationState.AHEAD, TranslationState.EXACT)
    states = np.where(unknown, TranslationState.UNKNOWN, states)
    states = np.where(replicated | unknown, states, TranslationState.NOT_REPLICATED).astype(np.uint8)
    offsets = np.where(states <= TranslationState.AHEAD, np.minimum(unread, end), np.int64(NO_OFFSET))
    return Translated(offsets, states)


def _unread(feed: Feed, target: Target, positions: Offsets) -> tuple[Offsets, _Flags]:
    """Target offset of the first unread mapped record (`_NONE` if there is none), and whether the mappings prove it."""
    mapping, runs = feed.mapping, feed.mapping.runs.get(target, NO_RUNS)
    offsets = np.full(positions.shape, _NONE, dtype=np.int64)
    # Records that are copied but not mapped may lie anywhere; only a group that has read them has a proven answer.
    proven = np.maximum(positions, mapping.covered_end) >= (feed.copied_to or 0)
    if not mapping.covered:
        return offsets, proven
    unread = next_copied(runs, positions)
    # Without an unread record, coverage must reach from the position to its end.
    records = np.where(unread.run < len(runs), unread.record, mapping.covered_end - 1)
    proven &= (positions >= mapping.covered_end) | unbroken(mapping, positions, records)
    proven &= positions >= mapping.complete_from(target, feed.alone)
    found = unread.run < len(runs)
    run = unread.run[found]
    offsets[found] = runs.target_starts[run] + (unread.record[found] - runs.source_starts[run])
    return offsets, proven


def _unmapped(feed: Feed, target: Target, positions: Offsets) -> tuple[Offsets, _Flags]:
    """Lowest target offset at which unread, unmapped records may lie (`_NONE`: nowhere), and whether it is known."""
    runs = feed.mapping.runs.get(target, NO_RUNS)
    may = np.maximum(positions, feed.mapping.covered_end) < (feed.source_end or 0)
    place = runs.target_end if len(runs) else feed.floor
    return np.where(may, _NONE if place is None else place, _NONE), ~may | (place is not None)
