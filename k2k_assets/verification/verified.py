"""How far the content of each partition was verified, and what that is worth at the next evaluation: pure.

```
  copied      ├──────────────────────────────────────────────┤────── since ──────>
  seen        ██████   ████            ███████           █████│
                                                         last ┘│
                                                verified position
```

Each new stretch begins with the last mapped record below the verified position. It has to be mapped to the target
offset at which it lay: another one tells that the copy was replaced from somewhere below, and then nothing is verified
any more. A fault has the partition fall back too; where it lies is remembered until it was verified good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection, without
from k2k_assets.verification.sampling import NO_LAP, Look, Ranges, Unverified, joined

# Of one partition. Beyond it the smallest are forgotten, and looked at once more; bad ones are joined.
_MOST_RANGES = 64


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class MappedRecord(_Model):
    """A record and where its copy lies."""

    source_offset: int
    target_topic_id: str
    target_partition: int
    target_offset: int


class Verified(_Model):
    """What is known of one source partition.

    Attributes:
        position: Everything below was looked at, at least in samples; 0 where nothing is verified.
        last: The last mapped record below it; None where none is: then all is looked at each time.
        seen: What was looked at record by record, and is right.
        bad: What was found wrong, and was not verified good since.
        lap: Where the second look goes on, and where its lap ends.
        turn: Evaluation in which anything of it was looked at last.
    """

    position: int = 0
    last: MappedRecord | None = None
    seen: tuple[Covered, ...] = ()
    bad: tuple[Covered, ...] = ()
    lap: Covered = NO_LAP
    turn: int = -1

    def fallen_back(self) -> Verified:
        """After any doubt: only what was found wrong is still known."""
        return Verified(bad=self.bad, turn=self.turn)

    def within(self, readable: Ranges) -> Verified:
        """What of it still holds.

        Args:
            readable: Source ranges that are mapped, and still on the source.
        """
        clipped = {"bad": tuple(intersection(self.bad, readable)), "seen": tuple(intersection(self.seen, readable))}
        known = self.model_copy(update=clipped)
        at = None if self.last is None else self.last.source_offset
        is_there = at is None or any(start <= at < end for start, end in readable)
        # Mappings that end below what was verified have been replaced, or were lost.
        return known if is_there and readable[-1].end >= self.position else known.fallen_back()

    def unverified(self, readable: Ranges) -> Unverified:
        """What there is to be looked at; `within` the same ranges."""
        if self.last is None:
            return Unverified(self.bad, readable)
        at = self.last.source_offset
        end = max(at + 1, *(each.end for each in readable))
        # Both hold the last record: what lies on the target between it and its neighbours is looked at too.
        older = intersection(readable, [Covered(0, at + 1)])
        return Unverified(self.bad, intersection(readable, [Covered(at, end)]), older, self.lap)


@dataclass(slots=True)
class Compared:
    """What an evaluation has done in one partition.

    Attributes:
        ranges: What was compared.
        first_left: Pieces of `Look.first` that were not: time ran out.
        second_left: Likewise of `Look.second`.
        bad: What of it is wrong.
        is_held: Whether some of it cannot be read yet.
        last_before: The last mapped record below a source offset, for those that were asked for.
    """

    ranges: list[Covered] = field(default_factory=list)
    first_left: int = 0
    second_left: int = 0
    bad: list[Covered] = field(default_factory=list)
    is_held: bool = False
    last_before: dict[int, MappedRecord] = field(default_factory=dict)

    @property
    def done(self) -> list[Covered]:
        """What was compared, ordered and disjoint."""
        return [Covered(*each) for each in joined(self.ranges, 0)]


def asked_for(known: Verified, look: Look, readable: Ranges) -> set[int]:
    """The source offsets for which `Compared.last_before` is needed."""
    of_last = set() if known.last is None else {known.last.source_offset + 1}
    return {readable[-1].end, *of_last, *({look.window.end} if look.window else ())}


def updated(known: Verified, newest: Verified, look: Look, readable: Ranges, compared: Compared, turn: int) -> Verified:
    """What is known of a partition after an evaluation.

    Args:
        known: What the evaluation went out from, `within` what is readable.
        newest: What is noted now: another evaluation may have found something wrong meanwhile.
        look: What was to be looked at.
        readable: What could have been.
        compared: What was done.
        turn: Number of the evaluation.
    """
    if not compared.ranges:
        return newest
    found = intersection([Covered(*each) for each in joined(compared.bad, 0)], compared.done)
    bad = _few([*outside(newest.bad, compared.done), *found])
    is_complete = not compared.first_left
    if compared.bad or (is_complete and _is_replaced(known, compared)):
        return Verified(bad=bad, turn=turn)
    noted: dict[str, object] = {"bad": bad, "turn": turn}
    if not compared.is_held:
        noted["seen"] = _largest([*(known.seen if known.last else ()), *compared.done])
        if is_complete:
            noted |= {"position": readable[-1].end, "last": compared.last_before.get(readable[-1].end)}
        if is_complete and not compared.second_left:
            noted["lap"] = _lap(look, compared)
    return known.model_copy(update=noted)


def _is_replaced(known: Verified, compared: Compared) -> bool:
    return known.last is not None and compared.last_before.get(known.last.source_offset + 1) != known.last


def _lap(look: Look, compared: Compared) -> Covered:
    """The next window begins with the last record of this one, unless that would be the same window again."""
    if look.window is None:
        return NO_LAP
    last = compared.last_before.get(look.window.end)
    is_further = last is not None and last.source_offset > look.window.start
    return Covered(last.source_offset if last and is_further else look.window.end, look.lap_end)


def outside(ranges: Ranges, gaps: Ranges) -> tuple[Covered, ...]:
    """What of ordered, disjoint ranges lies in none of others."""
    left = tuple(ranges)
    for gap in gaps:
        left = without(left, gap)
    return left


def _largest(ranges: Ranges) -> tuple[Covered, ...]:
    found = sorted(joined(ranges, 0), key=lambda each: each[0] - each[1])
    return tuple(Covered(*each) for each in sorted(found[:_MOST_RANGES]))


def _few(ranges: Ranges) -> tuple[Covered, ...]:
    """Not too many, nothing left out: those that lie closest are joined, with what lies between."""
    found = joined(ranges, 0)
    gaps = sorted(after[0] - before[1] for before, after in pairwise(found))
    gap = gaps[len(found) - _MOST_RANGES - 1] if len(found) > _MOST_RANGES else 0
    return tuple(Covered(*each) for each in joined(found, gap))
