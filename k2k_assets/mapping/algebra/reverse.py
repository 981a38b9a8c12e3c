"""Translates positions between two partitions that are copied into each other, each with records of its own. Pure.

```
 here    a0 a1 b0' a2 | b1'            a: written here, b: written there, ': copies, |: a marker
 there   a0' a1' b0 a2' b1             a group stands there at 3: a2 and b1 are not read
                                       here it continues at 3, the first record that it has not read
```
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState, next_copied, next_records, translate


def first_unread(
    forth: PartitionMap, there: Target, back: PartitionMap, here: Target, position: int
) -> tuple[int, TranslationState]:
    """The first record here that a group has not read there.

    Args:
        forth: Map of the partition here, which was copied there.
        there: The partition there.
        back: Map of the partition there, which is copied here.
        here: The partition here.
        position: Next offset that the group reads there.

    Returns:
        Its offset. The state is ahead if the group has read records there that are not copied here yet; it is unknown,
        with `NO_OFFSET`, if the mappings do not prove the answer.
    """
    copies = back.runs.get(here, NO_RUNS)
    # The reverse pipeline may have begun behind copies that came from here: `forth` covers these.
    # Those of another tool, which were adopted, it does not cover.
    begun = replace(back, log_start=back.began) if back.target_began is None else back
    copied = translate(begun, here, np.array([position]))
    state = TranslationState(int(copied.states[0]))
    if state > TranslationState.AHEAD:
        return NO_OFFSET, state
    own = _first_own(forth, there, position)
    if own is None:
        # The group has read all copies from here; later records may not have been copied.
        if len(forth.covered) != 1:
            return NO_OFFSET, TranslationState.UNKNOWN
        own = _past_read_copies(copies, forth.covered_end, position)
    unread = next_copied(copies, np.array([position]))
    run = int(unread.run[0])
    if run == len(copies):
        return own, state
    return min(own, int(copies.target_starts[run] + unread.record[0] - copies.source_starts[run])), state


def _first_own(forth: PartitionMap, there: Target, position: int) -> int | None:
    """The first own record here whose copy there is not read; None if the group has read all copies."""
    runs = forth.runs.get(there, NO_RUNS)
    unread = next_records(runs.target_starts, runs.counts, np.array([position]))
    run = int(unread.run[0])
    if run == len(runs):
        return None
    return int(runs.source_starts[run] + unread.record[0] - runs.target_starts[run])


def _past_read_copies(copies: RunTable, offset: int, position: int) -> int:
    """The first offset from `offset` on that is no copy of a record that was read there."""
    for start, origin, count in zip(copies.target_starts, copies.source_starts, copies.counts, strict=True):
        read = min(int(count), max(0, position - int(origin)))
        if start <= offset < start + read:
            offset = int(start) + read
    return offset
