"""The records that stages have left out of a chunk on purpose, by rule.

```
 offsets     0  1  2  3  .  5  6  7          (. = marker, aborted, compacted)
 kept        x        x              x       by the filter: 1, 2; by the marker: 5, 6
 ranges         [1 ─ 3)     [5 ── 7)         of the filter, and of the marker
```

A range is of one rule, and no record in it is kept. Offsets without a record, between two records of a range, lie in it
too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.dropped_ranges import DroppedRange

_KEPT = 0


class DroppedRecords:
    """Which records of a chunk are kept, and by which rule the others are left out.

    Args:
        offsets: Source offsets of all records of the chunk, as they were read; at least one.
        first_leader_epoch: Leader epoch of the first one; None if it is not known.
        leader_epoch: Leader epoch of the last one; None if it is not known.

    Attributes:
        leader_epoch: Leader epoch of the last record; None if it is not known.
    """

    __slots__ = ("_by", "_first_leader_epoch", "_offsets", "_rules", "leader_epoch")

    def __init__(
        self, offsets: Sequence[int] | NDArray[np.int64], first_leader_epoch: int | None, leader_epoch: int | None
    ) -> None:
        self._offsets: NDArray[np.int64] = np.asarray(offsets, dtype=np.int64)
        self._rules: list[str] = []
        # For each record: 0, or the number of its rule, from 1 on.
        self._by = np.zeros(len(self._offsets), np.int16)
        self._first_leader_epoch, self.leader_epoch = first_leader_epoch, leader_epoch

    @property
    def count(self) -> int:
        """Number of records that are left out."""
        return int(np.count_nonzero(self._by))

    @property
    def end(self) -> int:
        """Source offset after the last record, kept or not."""
        return int(self._offsets[-1]) + 1

    def add(self, kept: Sequence[bool], rule: str) -> None:
        """Leaves out more records.

        Args:
            kept: Whether a record stays, for each one that was kept up to now.
            rule: Name of the rule that leaves out the others.
        """
        self._rules.append(rule)
        left = np.flatnonzero(self._by == _KEPT)
        self._by[left[~np.asarray(kept, dtype=np.bool_)]] = len(self._rules)

    def below(self, offset: int) -> DroppedRecords | None:
        """The same for the records below a source offset; None if none of these is left out."""
        after = int(np.searchsorted(self._offsets, offset))
        if after == len(self._offsets):
            return self
        if not self._by[:after].any():
            return None
        first = self._first_leader_epoch
        found = DroppedRecords(self._offsets[:after], first, first if first == self.leader_epoch else None)
        found._by, found._rules = self._by[:after], self._rules
        return found

    @property
    def range_count(self) -> int:
        """Number of `ranges`."""
        by = self._by
        return int(by[0] != _KEPT) + int(np.count_nonzero((by[1:] != by[:-1]) & (by[1:] != _KEPT)))

    def ranges(self) -> list[DroppedRange]:
        """The ranges that are left out, in the order of their offsets."""
        by, offsets = self._by, self._offsets
        firsts = np.flatnonzero(np.concatenate(([True], by[1:] != by[:-1])))
        lasts = np.concatenate((firsts[1:], [len(by)])) - 1
        return [
            DroppedRange(self._rules[by[first] - 1], int(offsets[first]), int(offsets[last]) + 1)
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
            if by[first] != _KEPT
        ]

    @property
    def begins(self) -> bool:
        """Whether the first record is left out."""
        return bool(self._by[0])
