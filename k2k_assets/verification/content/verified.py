"""Verified positions: how far the content of each partition is verified, for the next evaluation. Pure.

```
  copied      ├──────────────────────────────────────────────┤────── since ──────>
  seen        ██████   ████            ███████           █████│
                                                         last ┘│
                                                verified position
```

Each new stretch begins with the last mapped record below the verified position. If that record is mapped to another
target offset now, the copy was replaced from somewhere below, and nothing is verified any more. A fault makes the
partition fall back too; its range is remembered until it was verified good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection, without
from k2k_assets.verification.content.sampling import NO_LAP, Look, Ranges, Unverified, joined, union

# Ranges of one partition. If there are more, the smallest are forgotten and compared again; bad ones are joined.
_MOST_RANGES = 64


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class MappedRecord(_Model):
    """A source record and the place of its copy."""

    source_offset: int
    target_topic_id: str
    target_partition: int
    target_offset: int


class Verified(_Model):
    """The notes on one source partition.

    Attributes:
        position: Verified position: everything below was compared, at least in samples; 0 if nothing is verified.
        last: The last mapped record below it; None if there is none, and then everything is compared each time.
        seen: Ranges that were compared record by record, and are right.
        bad: Ranges that were found wrong, and not verified good since.
        lap: Where the second look continues, and where its lap ends.
        turn: Number of the last evaluation that compared any of its records.
    """

    position: int = 0
    last: MappedRecord | None = None
    seen: tuple[Covered, ...] = ()
    bad: tuple[Covered, ...] = ()
    lap: Covered = NO_LAP
    turn: int = -1

    def fallen_back(self) -> Verified:
        """The notes after any doubt: only the ranges found wrong are kept."""
        return Verified(bad=self.bad, turn=self.turn)

    def within(self, readable: Ranges) -> Verified:
        """The part of the notes that is still valid.

        Args:
            readable: Source ranges that are mapped, and still on the source.
        """
        clipped = {"bad": tuple(intersection(self.bad, readable)), "seen": tuple(intersection(self.seen, readable))}
        known = self.model_copy(update=clipped)
        at = None if self.last is None else self.last.source_offset
        is_there = at is None or any(start <= at < end for start, end in readable)
        # If the mappings end below the verified position, they have been replaced or were lost.
        return known if is_there and readable[-1].end >= self.position else known.fallen_back()

    def unverified(self, readable: Ranges) -> Unverified:
        """The ranges to compare; call `within` with the same ranges first."""
        if self.last is None:
            return Unverified(self.bad, readable)
        at = self.last.source_offset
        end = max(at + 1, *(each.end for each in readable))
        # Both ranges contain the last record, so that the target records on both of its sides are compared too.
        older = intersection(readable, [Covered(0, at + 1)])
        return Unverified(self.bad, intersection(readable, [Covered(at, end)]), older, self.lap)


@dataclass(slots=True)
class Compared:
    """The work of an evaluation in one partition.

    Attributes:
        ranges: Compared ranges.
        first_left: Number of pieces of `Look.first` that were not compared, because time ran out.
        second_left: Number of pieces of `Look.second` that were not compared.
        bad: Ranges that are wrong.
        hidden: Ranges with records that cannot be read now: behind an open transaction, or without a leader.
        last_before: The last mapped record below each source offset of `asked_for`.
    """

    ranges: list[Covered] = field(default_factory=list)
    first_left: int = 0
    second_left: int = 0
    bad: list[Covered] = field(default_factory=list)
    hidden: list[Covered] = field(default_factory=list)
    last_before: dict[int, MappedRecord] = field(default_factory=dict)

    @property
    def done(self) -> list[Covered]:
        """The compared ranges, ordered and disjoint."""
        return union(self.ranges)


def asked_for(known: Verified, look: Look, readable: Ranges) -> set[int]:
    """The source offsets for which `Compared.last_before` has to be found."""
    of_last = set() if known.last is None else {known.last.source_offset + 1}
    return {readable[-1].end, *of_last, *({look.window.end} if look.window else ())}


def updated(known: Verified, newest: Verified, look: Look, readable: Ranges, compared: Compared, turn: int) -> Verified:
    """The notes on a partition after an evaluation.

    Args:
        known: The notes from which the evaluation started, `within` the readable ranges.
        newest: The present notes; another evaluation may have found faults meanwhile.
        look: The ranges that were chosen.
        readable: The ranges that could be compared.
        compared: The work that was done.
        turn: Number of the evaluation.
    """
    if not compared.ranges:
        return newest
    found = intersection(union(compared.bad), compared.done)
    # What cannot be read now is no proof that what was wrong is right.
    judged = outside(compared.done, union(compared.hidden))
    bad = _few([*outside(newest.bad, judged), *found])
    is_complete = not compared.first_left
    if compared.bad or (is_complete and _is_replaced(known, compared)):
        return Verified(bad=bad, turn=turn)
    noted: dict[str, object] = {"bad": bad, "turn": turn}
    if not compared.hidden:
        noted["seen"] = _largest([*(known.seen if known.last else ()), *compared.done])
        if is_complete:
            noted |= {"position": readable[-1].end, "last": compared.last_before.get(readable[-1].end)}
        if is_complete and not compared.second_left:
            noted["lap"] = _lap(look, compared)
    return known.model_copy(update=noted)


def _is_replaced(known: Verified, compared: Compared) -> bool:
    return known.last is not None and compared.last_before.get(known.last.source_offset + 1) != known.last


def _lap(look: Look, compared: Compared) -> Covered:
    """The start of the next window: the last record of this one, unless that would be the same window again."""
    if look.window is None:
        return NO_LAP
    last = compared.last_before.get(look.window.end)
    is_further = last is not None and last.source_offset > look.window.start
    return Covered(last.source_offset if last and is_further else look.window.end, look.lap_end)


def outside(ranges: Ranges, gaps: Ranges) -> tuple[Covered, ...]:
    """The parts of ordered, disjoint ranges that lie in no gap."""
    left = tuple(ranges)
    for gap in gaps:
        left = without(left, gap)
    return left


def _largest(ranges: Ranges) -> tuple[Covered, ...]:
    found = sorted(joined(ranges, 0), key=lambda each: each[0] - each[1])
    return tuple(Covered(*each) for each in sorted(found[:_MOST_RANGES]))


def _few(ranges: Ranges) -> tuple[Covered, ...]:
    """Reduces the number of ranges without losing any: the closest ones are joined, including the offsets between."""
    found = joined(ranges, 0)
    gaps = sorted(after[0] - before[1] for before, after in pairwise(found))
    gap = gaps[len(found) - _MOST_RANGES - 1] if len(found) > _MOST_RANGES else 0
    return tuple(union(found, gap))
