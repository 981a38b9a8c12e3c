"""A replication in memory, record by record, with which tests compare the algebra of translation.

It knows what a reader would see, so skipped and re-read records are counted by looking at the logs, not by offsets.
Nothing of the code under test is used but the mapping records, which are the input of that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Target

RECORD, GAP, FILTERED = "record", "gap", "filtered"
"""A source offset: a record that is copied; a marker, aborted or compacted record; a record that a stage drops."""

Route = Callable[[int, int], int]
Copies = dict[int, int]


def target(partition: int) -> Target:
    """A target partition."""
    return Target("t", "tid", partition)


@dataclass
class Entry:
    """One offset of a target log; without a source it is a marker or a foreign record."""

    source: tuple[int, int] | None = None  # partition, offset
    visible: bool = True


@dataclass
class _Open:
    """A transaction of one source partition that is not committed yet."""

    start: int
    end: int
    copies: list[tuple[int, int, int]] = field(default_factory=list)  # source offset, target partition, target offset


@dataclass(frozen=True)
class Moment:
    """What could be known at one moment.

    Attributes:
        records: How many mapping records were committed.
        logs: Length of each target log.
        stable: Last stable offset of each target log.
        positions: Committed position of each source partition.
        copied: Newest committed copy of each source offset, by source and target partition.
    """

    records: int
    logs: tuple[int, ...]
    stable: tuple[int, ...]
    positions: tuple[int, ...]
    copied: dict[tuple[int, int], Copies]


class World:
    """Source logs, target logs, and the copying between them.

    Args:
        logs: What lies at each offset of each source partition.
        began: Where copying begins in each: below it retention has deleted all.
        route: Target partition of a source record, by source partition and offset.
        targets: How many target partitions.
        exactly_once: Whether records and mapping are one transaction.
    """

    def __init__(
        self, logs: list[list[str]], began: list[int], route: Route, targets: int, exactly_once: bool = True
    ) -> None:
        self.sources = logs
        self.began = began
        self.targets: list[list[Entry]] = [[] for _ in range(targets)]
        self.records: list[MappingRecord] = []
        self.mapped = True
        self.recopy_lost = False
        self.route = route
        self.exactly_once = exactly_once
        self._positions = list(began)
        self._generations = [0] * len(logs)
        self._open: dict[int, _Open] = {}
        self._copied: dict[tuple[int, int], Copies] = {}
        self.moments: list[Moment] = [self._now()]

    def begin(self, p: int, length: int) -> None:
        """Copies up to `length` more offsets of a source partition, without a commit."""
        if p in self._open:
            return
        start = self._positions[p]
        chunk = _Open(start, min(start + length, len(self.sources[p])))
        for offset in range(chunk.start, chunk.end):
            if self.sources[p][offset] == RECORD:
                q = self.route(p, offset)
                chunk.copies.append((offset, q, len(self.targets[q])))
                self.targets[q].append(Entry((p, offset), visible=not self.exactly_once))
        self._open[p] = chunk
        self.moments.append(self._now())

    def commit(self, p: int, lost: bool = False) -> None:
        """Commits what is open; its mapping record may be lost, or not written at all."""
        chunk = self._open.pop(p, None)
        if chunk is None:
            return
        self._end(chunk, visible=True)
        for (source, _), copies in self._copied.items():
            for offset in [o for o in copies if source == p and o >= chunk.start]:
                del copies[offset]  # a re-copy: what was copied before from here on counts no more
        for offset, q, at in chunk.copies:
            self._copied.setdefault((p, q), {})[offset] = at
        self._positions[p] = chunk.end
        if self.mapped and not lost:
            self.records.append(self._mapping_record(p, chunk))
        elif self._is_recopy(p, chunk):
            self.recopy_lost = True
        self.moments.append(self._now())

    def abort(self, p: int) -> None:
        """Ends what is open without a commit; at-least-once its records stay, and are copied again."""
        chunk = self._open.pop(p, None)
        if chunk is not None:
            self._end(chunk, visible=not self.exactly_once)
            self.moments.append(self._now())

    def recopy(self, p: int, start: int) -> None:
        """Sets a source partition back: what was copied from there on is copied once more."""
        self.abort(p)
        self._positions[p] = max(self.began[p], min(start, self._positions[p]))
        self._generations[p] += 1

    def finish(self) -> None:
        """Copies the rest, so that every record that is not on the target now was skipped."""
        for p, log in enumerate(self.sources):
            self.commit(p)
            self.begin(p, len(log))
            self.commit(p)

    def foreign(self, q: int) -> None:
        """A record of somebody else on the target."""
        self.targets[q].append(Entry())
        self.moments.append(self._now())

    def records_from(self, p: int, start: int) -> set[tuple[int, int]]:
        """Source partition and offset of the records from an offset on, as far as they can still be read."""
        log = enumerate(self.sources[p])
        return {(p, offset) for offset, kind in log if kind == RECORD and offset >= max(start, self.began[p])}

    def read_from(self, q: int, offset: int, end: int | None = None) -> Iterator[tuple[int, int]]:
        """The source partition and offset of each record that a reader gets, in order."""
        for entry in self.targets[q][offset:end]:
            if entry.source and entry.visible:
                yield entry.source

    def _end(self, chunk: _Open, visible: bool) -> None:
        for _, q, at in chunk.copies:
            self.targets[q][at].visible = visible
        if self.exactly_once:
            for q in sorted({q for _, q, _ in chunk.copies}):
                self.targets[q].append(Entry())

    def _is_recopy(self, p: int, chunk: _Open) -> bool:
        return any(r.partition == p and r.covered_to > chunk.start for r in self.records)

    def _mapping_record(self, p: int, chunk: _Open) -> MappingRecord:
        targets = tuple(
            MappedPartition(*target(q), tuple(Run(s, at, 1) for s, to, at in chunk.copies if to == q))
            for q in sorted({q for _, q, _ in chunk.copies})
        )
        order = self._generations[p], len(self.records)
        return MappingRecord("g", "s", p, "p", "c", "sid", order[0], p, order[1], 0, chunk.start, chunk.end, targets)

    def _now(self) -> Moment:
        first_open = [len(log) for log in self.targets]
        if self.exactly_once:
            for chunk in self._open.values():
                for _, q, at in chunk.copies:
                    first_open[q] = min(first_open[q], at)
        copied: dict[tuple[int, int], Copies] = {}
        for (p, q), copies in self._copied.items():
            copied[p, q] = dict(copies)
        logs = tuple(len(log) for log in self.targets)
        return Moment(len(self.records), logs, tuple(first_open), tuple(self._positions), copied)
