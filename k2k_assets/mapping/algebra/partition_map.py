"""The map of one source partition at one moment: its runs and its coverage. Immutable, pure, ready for bulk look-ups.

```
 source    0  1  2  3  .  .  6  7  8 │ 9 10 11 │ 12 13          (. = marker, aborted, compacted, filtered)
 covered  [0 ───────────────────────── 9)      [12 ─ 14)        9 to 11: the mapping record was lost
 runs      (0,5,4)     (6,10,3)                 (12,17,2)       (source start, target start, count)
 target    5  6  7  8  |  10 11 12 |     ?     17 18            (| = commit marker of our own)
```

Invariants, which `k2k_assets.mapping.algebra.fold` keeps:

- the runs into one target partition are ordered and disjoint on the source side and on the target side;
- every mapped source offset lies in a covered range, or, after a loss, below all of them; no run crosses the end of a
  covered range;
- covered ranges are ordered, disjoint and not adjacent: between two of them a mapping record is missing.

A covered offset that is in no run was copied nowhere. Of an offset that is not covered nothing is known, even if it is
in a run: where mapping records were lost, the copies may have been made again. Such a run, or an end that is left of
it (`run_tables.end_of_read`), tells that copies are on the target, and answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, PartitionMapping, Target, is_nowhere, nowhere

Offsets = NDArray[np.int64]


class SourcePartition(NamedTuple):
    """One partition of one source topic; after the topic was created anew under the same name, it is another one."""

    cluster: str
    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """The runs of one source partition into one target partition, as columns of one length.

    Attributes:
        source_starts: Source offset of each run's first record; rising.
        target_starts: Target offset of each run's first record; rising.
        counts: Records in each run, at least one.
    """

    source_starts: Offsets
    target_starts: Offsets
    counts: Offsets

    @classmethod
    def of(cls, runs: Iterable[Run]) -> RunTable:
        """The table of runs that are ordered and disjoint on both sides."""
        rows = np.array([tuple(run) for run in runs], dtype=np.int64).reshape(-1, 3)
        columns = np.ascontiguousarray(rows.T)
        return cls(columns[0], columns[1], columns[2])

    @property
    def source_end(self) -> int:
        """Source offset after the last mapped record; the table must not be empty."""
        return int(self.source_starts[-1] + self.counts[-1])

    @property
    def target_end(self) -> int:
        """Target offset after the last mapped record; the table must not be empty."""
        return int(self.target_starts[-1] + self.counts[-1])

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Run]:
        columns = (self.source_starts.tolist(), self.target_starts.tolist(), self.counts.tolist())
        return (Run(*row) for row in zip(*columns, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunTable):
            return NotImplemented
        return (
            np.array_equal(self.source_starts, other.source_starts)
            and np.array_equal(self.target_starts, other.target_starts)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]  # tables are compared by their arrays, which cannot be hashed


NO_RUNS = RunTable.of(())


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """The map of one source partition.

    Attributes:
        source: The source partition.
        began: Position at which copying of it began, from the commit record; None if not known.
        covered: Covered source ranges: ordered, disjoint, not adjacent. The last may be empty: it marks how far the
            partition was copied.
        runs: Runs by target partition.
        log_start: Log start of the source partition when copying of it began; None if not known.
        target_began: Target offset at which copying began behind the copy of another tool; of that copy nothing is
            known. None if no such copy was adopted.
        dropped: The ranges that were left out on purpose, by rule, as runs whose target offsets mean nothing; empty if
            the reader did not ask for them.
        skipped: Source ranges that were skipped by hand (`k2k-tool set`), in order: what records they have is on the
            source alone, or its copies are lost.
    """

    source: SourcePartition
    began: int | None
    covered: tuple[Covered, ...]
    runs: Mapping[Target, RunTable]
    log_start: int | None = None
    target_began: int | None = None
    dropped: Mapping[str, RunTable] = field(default_factory=dict)
    skipped: tuple[Covered, ...] = ()

    @classmethod
    def of(
        cls, source: SourcePartition, began: int | None, mapping: PartitionMapping, log_start: int | None = None
    ) -> PartitionMap:
        """Makes a map from a fold of mapping records; the fold may be extended afterwards."""
        runs = {target: RunTable.of(runs) for target, runs in mapping.runs.items() if runs}
        return cls(source, began, tuple(mapping.covered), runs, log_start, skipped=tuple(mapping.skipped))

    @classmethod
    def with_dropped(
        cls,
        source: SourcePartition,
        began: int | None,
        covered: tuple[Covered, ...],
        tables: Mapping[Target, RunTable],
        log_start: int | None = None,
        target_began: int | None = None,
    ) -> PartitionMap:
        """Makes a map from tables, of which those of `fold.nowhere` are the ranges that were left out."""
        if not any(map(is_nowhere, tables)):
            return cls(source, began, covered, tables, log_start, target_began)
        runs = {target: table for target, table in tables.items() if not is_nowhere(target)}
        dropped = {target.topic_id: table for target, table in tables.items() if is_nowhere(target)}
        return cls(source, began, covered, runs, log_start, target_began, dropped)

    @property
    def tables(self) -> Mapping[Target, RunTable]:
        """The runs, and the ranges that were left out under `fold.nowhere` of their rules."""
        if not self.dropped:
            return self.runs
        return {**self.runs, **{nowhere(rule): table for rule, table in self.dropped.items()}}

    def rule_at(self, offset: int) -> str | None:
        """The rule by which the record at a source offset was left out; None if it was not, or that is not known."""
        for rule, table in self.dropped.items():
            run = int(np.searchsorted(table.source_starts, offset, side="right")) - 1
            if run >= 0 and offset < table.source_starts[run] + table.counts[run]:
                return rule
        return None

    def reaching(self, position: int) -> PartitionMap:
        """The map, extended to the committed position of the copy by an empty covered range.

        So positions in records that were copied without mapping records are unknown, not ahead of the copy.
        """
        if self.covered and position <= self.covered_end:
            return self
        return replace(self, covered=(*self.covered, Covered(position, position)))

    def complete_from(self, target: Target, alone: bool = False) -> int:
        """Source offset from which on the topic of a target partition has all copied records, as far as is known.

        Records below it may have gone elsewhere: to a deleted topic of that name, or to another topic by an earlier
        routing. Or they were on the source before copying began. A group that stands below it has not read these.

        Args:
            target: The target partition.
            alone: Whether all records go to this target partition today, and none to others of its topic.
        """
        return max(self._left_out_below, self.elsewhere_to(target, alone))

    def elsewhere_to(self, target: Target, alone: bool = False) -> int:
        """Source offset after the last record that went elsewhere; 0 if none did. Arguments as for `complete_from`."""

        def is_elsewhere(other: Target) -> bool:
            same_topic = (other.topic, other.topic_id) == (target.topic, target.topic_id)
            return not same_topic or (alone and other.partition != target.partition)

        others = (runs for other, runs in self.runs.items() if is_elsewhere(other) and len(runs))
        return max((runs.source_end for runs in others), default=0)

    @property
    def began_late(self) -> bool:
        """Whether copying began behind records of the source; only another tool may have copied those."""
        return self.began is not None and self.began > (self.log_start or 0)

    @property
    def _left_out_below(self) -> int:
        """Source offset below which records were not copied; 0 if the source had none below where copying began."""
        if self.began is not None and not self.began_late:
            return 0
        return self.covered[0].start if self.covered else self.began or 0

    def answers_all(self, start: int, end: int) -> bool:
        """Whether all offsets between two source positions are covered, or lie below where copying began."""
        begin = max(start, self.covered[0].start) if self.from_the_beginning else start
        return begin >= end or any(each.start <= begin and end <= each.end for each in self.covered)

    @property
    def from_the_beginning(self) -> bool:
        """Whether coverage begins where copying began, so that no record below it is on the target.

        Not so where copies below it are known: what told more of them is lost, and copying began anew since.
        """
        if self.began is None or not self.covered or self.covered[0].start > self.began:
            return False
        return not any(len(runs) and runs.source_starts[0] < self.covered[0].start for runs in self.runs.values())

    @property
    def is_whole(self) -> bool:
        """Whether the coverage is one range from where copying began on; also true if nothing was copied."""
        return not self.covered or (self.from_the_beginning and len(self.covered) == 1)

    @property
    def covered_end(self) -> int:
        """End of the last covered range; 0 when there is none."""
        return self.covered[-1].end if self.covered else 0
