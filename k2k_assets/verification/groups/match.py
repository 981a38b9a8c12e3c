"""Judges by content alone whether a group resumes at the same record. Pure.

```
  source   … r4 r5 r6 | r7 r8 r9 …       read before the position | unread from it on
  target   … r4 r5 r6 | r7 r8 r9 …       exact: the records on both sides of the two positions are the same
  target   … r5 r6 r7 | r8 r9 …          skipped 1: r7 would never be read
  target   … r3 r4 r5 | r6 r7 …          read again 1: r6 would be read twice
```

It uses no mapping, so that a wrong mapping cannot hide a fault. Records are recognised by their digests. If one source
partition feeds the target partition, both sides are compared in order, shifted against each other if need be. If no
shift fits, or several source partitions feed it, records with unique content are looked up on the other side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition


class Seen(NamedTuple):
    """A record that was read: its offset, and the digest of its content."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class RecordWindow:
    """The records around a position.

    Attributes:
        position: Position of the group.
        before: The records below it, nearest last.
        after: The records from it on, nearest first.
        whole: Whether no record can be missing: the log starts at or below the position, and is not compacted.
        ended: Whether `after` reaches the end of the readable records.
        from_first: Whether `before` reaches the first record that was ever written.
    """

    position: int
    before: tuple[Seen, ...] = ()
    after: tuple[Seen, ...] = ()
    whole: bool = True
    ended: bool = True
    from_first: bool = False

    @property
    def records(self) -> tuple[Seen, ...]:
        """The records before and after the position, in order."""
        return (*self.before, *self.after)


@dataclass(frozen=True, slots=True)
class Match:
    """The result for one target partition.

    Attributes:
        compared: Number of records that were recognised on the other side.
        skipped: S: number of unread records that lie before the target's position, or nowhere on the target.
        read_again: R: number of read records that lie at or after the target's position.
        different: Whether both sides have records there, and none in common.
        first: Source partition and record of the first fault; None if there is none.
    """

    compared: int = 0
    skipped: int = 0
    read_again: int = 0
    different: bool = False
    first: tuple[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class Sides:
    """The records on both sides of a target partition.

    Attributes:
        sources: The source partitions that feed it, with the records around the group's position.
        target: The records around the translated position.
        alone: One to one: no other source partition feeds it, and this one feeds no other.
        exactly_once: Whether each record is on the target only once.
    """

    sources: Mapping[TopicPartition, RecordWindow]
    target: RecordWindow
    alone: bool
    exactly_once: bool


def match(sides: Sides) -> Match:
    """Compares both sides: by shift if one source partition feeds the target partition, else by look-up."""
    lookup = _Lookup(sides)
    if not lookup.whole:
        return lookup.match()
    ((source, window),) = sides.sources.items()
    if _fits(window, sides.target, 0, least=1):
        return _of_shift(0, source, window, sides.target)
    found = None if sides.exactly_once else lookup.match()
    if found and found.compared:
        return found  # second copies: no shift fits
    shift = _shift(window, sides.target)
    if shift is not None:
        return _of_shift(shift, source, window, sides.target)
    found = found or lookup.match()
    facing = next(_facing(window, sides.target, 0), None)
    if facing is not None and not found.compared:
        return Match(different=True, first=(source, facing[0].offset))
    return found


def _facing(source: RecordWindow, target: RecordWindow, shift: int) -> Iterator[tuple[Seen, Seen]]:
    """The pairs of records if the target's records are moved by `shift` towards the source's start."""
    ours, theirs = source.records, target.records
    moved = len(source.before) - len(target.before) - shift
    first, last = max(0, -moved), min(len(theirs), len(ours) - moved)
    return ((ours[i + moved], theirs[i]) for i in range(first, last))


def _fits(source: RecordWindow, target: RecordWindow, shift: int, least: int) -> bool:
    facing = list(_facing(source, target, shift))
    return len(facing) >= least and all(one.digest == two.digest for one, two in facing)


def _shift(source: RecordWindow, target: RecordWindow) -> int | None:
    """Number of records by which the target's position is too low (positive) or too high; None if no shift fits."""
    least = max(1, min(len(source.records), len(target.records)) // 2)
    for distance in range(1, max(len(source.records), len(target.records)) + 1):
        fitting = [shift for shift in (distance, -distance) if _fits(source, target, shift, least)]
        if fitting:
            return max(fitting, key=lambda shift: sum(1 for _ in _facing(source, target, shift)))
    return None


def _of_shift(shift: int, source: TopicPartition, window: RecordWindow, target: RecordWindow) -> Match:
    compared = sum(1 for _ in _facing(window, target, shift))
    if not shift:
        return Match(compared)
    if shift > 0:
        read = window.before[-shift:]
        return Match(compared, read_again=shift, first=(source, read[0].offset) if read else None)
    return Match(compared, skipped=-shift, first=(source, window.after[0].offset) if window.after else None)


@dataclass(slots=True)
class _Lookup:
    """Looks records up on the other side."""

    sides: Sides
    copies: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def whole(self) -> bool:
        """Whether both sides must hold the same records in the same order."""
        sides = self.sides
        return sides.alone and sides.target.whole and all(window.whole for window in sides.sources.values())

    def match(self) -> Match:
        for seen in self.sides.target.records:
            self.copies[seen.digest].append(seen.offset)
        times = Counter(seen.digest for window in self.sides.sources.values() for seen in window.records)
        compared, skipped, again = 0, [], []
        for source, window in self.sides.sources.items():
            before = [seen for seen in window.before if times[seen.digest] == 1]
            after = [seen for seen in window.after if times[seen.digest] == 1]
            compared += sum(seen.digest in self.copies for seen in (*before, *after))
            again += [(source, seen.offset) for seen in self._read_again(before, after)]
            skipped += [(source, seen.offset) for seen in self._skipped(after)]
        first = next(iter([*skipped, *again]), None)
        return Match(compared, len(skipped), len(again), first=first)

    def _read_again(self, read: Sequence[Seen], unread: Sequence[Seen]) -> list[Seen]:
        position = self.sides.target.position
        if self.sides.exactly_once or not self.sides.alone:
            return [s for s in read if s.digest in self.copies and min(self.copies[s.digest]) >= position]
        # At least once: records before the first unread one are read again; later ones are second copies.
        unread_digests = {seen.digest for seen in unread}
        first = takewhile(lambda seen: seen.digest not in unread_digests, self.sides.target.after)
        digests = {seen.digest for seen in first}
        return [seen for seen in read if seen.digest in digests]

    def _skipped(self, unread: Sequence[Seen]) -> list[Seen]:
        position = self.sides.target.position
        ahead = [max(self.copies[seen.digest]) >= position for seen in unread if seen.digest in self.copies]
        # At least once: a second copy of the record may lie behind the records that were read here.
        certain = self.sides.exactly_once or self.sides.target.ended or any(ahead)
        below = [s for s in unread if s.digest in self.copies and max(self.copies[s.digest]) < position]
        return [*(below if certain else []), *self._missing(unread)]

    def _missing(self, unread: Sequence[Seen]) -> list[Seen]:
        """Unread records that are not on the target, although records before and after them are."""
        if not self.whole:
            return []
        on_target = [index for index, seen in enumerate(unread) if seen.digest in self.copies]
        return [seen for seen in unread[: on_target[-1]] if seen.digest not in self.copies] if on_target else []
