"""The mapped offsets of a stretch, as the proof needs them: where each source offset leads, and its rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k2k_assets.transport.record_batch.batches.varints import Numbers

UNMAPPED = -1


@dataclass(frozen=True, slots=True)
class MappedOffsets:
    """Runs into one target partition. They rise on both sides and overlap on neither.

    Attributes:
        starts: First source offset of each run.
        targets: First target offset of each run.
        counts: Number of records of each run, at least one.
        ranks: Number of records in the runs before each.
    """

    starts: Numbers
    targets: Numbers
    counts: Numbers
    ranks: Numbers

    @classmethod
    def of(cls, starts: Numbers, targets: Numbers, counts: Numbers) -> MappedOffsets | None:
        """Runs in any order; None if there are none, or if two of them overlap or cross."""
        order = np.argsort(starts, kind="stable")
        starts, targets, counts = starts[order], targets[order], counts[order]
        if not len(starts) or (counts <= 0).any():
            return None
        for side in (starts, targets):
            if (side[1:] < (side + counts)[:-1]).any():
                return None
        return cls(starts, targets, counts, np.cumsum(counts) - counts)

    @property
    def records(self) -> int:
        """Number of mapped offsets."""
        return int(self.ranks[-1] + self.counts[-1])

    @property
    def first_target(self) -> int:
        """Target offset of the first one."""
        return int(self.targets[0])

    @property
    def target_end(self) -> int:
        """Target offset after the last one."""
        return int(self.targets[-1] + self.counts[-1])

    @property
    def last(self) -> int:
        """The last mapped source offset."""
        return int(self.starts[-1] + self.counts[-1]) - 1

    def from_offset(self, start: int) -> MappedOffsets | None:
        """Those from a source offset on; None if there are none."""
        first = int(np.searchsorted(self.starts + self.counts, start, side="right"))
        starts, targets, counts = (each[first:].copy() for each in (self.starts, self.targets, self.counts))
        if len(starts) and (cut := max(0, start - int(starts[0]))):
            starts[0] += cut
            targets[0] += cut
            counts[0] -= cut
        return MappedOffsets.of(starts, targets, counts)

    def inverse(self) -> MappedOffsets:
        """The same from the target's side."""
        return MappedOffsets(self.targets, self.starts, self.counts, self.ranks)

    def of_stretch(self, start: int, end: int) -> tuple[int, int] | None:
        """Rank and target offset of `start`, if all offsets up to `end` are mapped by one run."""
        run = int(np.searchsorted(self.starts, start, side="right")) - 1
        if run < 0 or end > self.starts[run] + self.counts[run]:
            return None
        into = start - int(self.starts[run])
        return int(self.ranks[run]) + into, int(self.targets[run]) + into

    def of_offsets(self, offsets: Numbers) -> tuple[Numbers, Numbers]:
        """Rank and target offset of each of some rising source offsets; `UNMAPPED` where there is none."""
        if not len(offsets):
            return offsets, offsets
        first, end = int(offsets[0]), int(offsets[-1]) + 1
        if end - first == len(offsets) and (found := self.of_stretch(first, end)):
            rank, target = found
            return np.arange(rank, rank + len(offsets)), np.arange(target, target + len(offsets))
        run = np.searchsorted(self.starts, offsets, side="right") - 1
        into = offsets - self.starts[run]
        is_mapped = (run >= 0) & (into < self.counts[run])
        ranks, targets = self.ranks[run] + into, self.targets[run] + into
        return np.where(is_mapped, ranks, UNMAPPED), np.where(is_mapped, targets, UNMAPPED)
