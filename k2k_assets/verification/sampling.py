"""Which stretches of the copied ranges a content check looks at: pure.

```
  source     oldest ──────────────────────────────────────────── newest copy
             [oldest]        [window ──>]            [newest]│[── fresh ──]
                                                             └ verified position
```

Whole stretches are compared, not single records: only in order, record by record, do a missing one and a swapped
pair show. First comes what was found wrong before, then what was copied since the verified position: all of it, or a
sample. What is left of the budget is for a second look at what is older: its oldest and newest, and a window that moves
on from one evaluation to the next, in laps, so that in bounded time everything is looked at.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from k2k_assets.mapping.algebra.fold import Covered

# 400 000 records on each side take a few seconds of Spark on two cores.
RECORDS_IN_ALL = 400_000
LEAST_PER_PARTITION = 1_000
_PIECES = 4
NO_LAP = Covered(0, 0)

K = TypeVar("K", bound=Hashable)
Ranges = Sequence[Covered]


class Stretch(NamedTuple):
    """A range of source offsets: start inclusive, end exclusive."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unverified:
    """What there is to be looked at in one partition; all ranges are ordered and disjoint.

    Attributes:
        bad: What was found wrong, and not verified since.
        fresh: What was copied since the verified position.
        older: What lies below.
        lap: Where the window over what is older stands, and where its lap ends.
    """

    bad: Ranges = ()
    fresh: Ranges = ()
    older: Ranges = ()
    lap: Covered = NO_LAP


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at in one partition this time.

    Attributes:
        first: What was found wrong before, and what is fresh; with what of the second look joins on to it.
        second: The rest of the second look.
        window: The part of both that the window over what is older has come to; None where all of that is looked at.
        lap_end: Where the window's lap ends.
    """

    first: Ranges = ()
    second: Ranges = ()
    window: Covered | None = None
    lap_end: int = 0


@dataclass(slots=True)
class _Shares:
    """Offsets that each partition may look at."""

    bad: Sequence[int] = field(default_factory=list)
    fresh: Sequence[int] = field(default_factory=list)
    older: Sequence[int] = field(default_factory=list)


def looks(unverified: Mapping[K, Unverified], budget: int | None, seed: int) -> dict[K, Look]:
    """What is looked at, within the budget.

    Args:
        unverified: By partition.
        budget: See `next_budget`; None at first.
        seed: The same seed draws the same samples.
    """
    draw = random.Random(seed)
    most = RECORDS_IN_ALL if budget is None else budget
    shares = _shares(list(unverified.values()), max(most, LEAST_PER_PARTITION * len(unverified)))
    return {
        partition: _look(each, *of_partition, draw)
        for (partition, each), of_partition in zip(
            unverified.items(), zip(shares.bad, shares.fresh, shares.older, strict=True), strict=True
        )
    }


def next_budget(budget: int | None, compared: int, ran_out: bool) -> int:
    """Offsets that the next evaluation may look at: what was planned has to be reached, or nothing is verified.

    Args:
        budget: Of this one.
        compared: Offsets that it has looked at.
        ran_out: Whether its time ran out before all was looked at.
    """
    wanted = compared if ran_out else 2 * (budget or RECORDS_IN_ALL)
    return min(RECORDS_IN_ALL, max(LEAST_PER_PARTITION, wanted))


def _shares(partitions: Sequence[Unverified], budget: int) -> _Shares:
    """At most a quarter is for what was found wrong, and at least a quarter for the second look."""
    shares = _Shares()
    shares.bad = fair_shares([size(each.bad) for each in partitions], budget // 4)
    left = budget - sum(shares.bad)
    shares.fresh = fair_shares([size(each.fresh) for each in partitions], left - budget // 4)
    shares.older = fair_shares([size(each.older) for each in partitions], left - sum(shares.fresh))
    return shares


def fair_shares(demands: Sequence[int], budget: int) -> list[int]:
    """What each gets of a budget: all that it wants, or as much as anybody else who does not get that."""
    given = [0] * len(demands)
    for place, (demand, who) in enumerate(sorted((demand, who) for who, demand in enumerate(demands))):
        given[who] = min(demand, budget // (len(demands) - place))
        budget -= given[who]
    return given


def _look(each: Unverified, bad: int, fresh: int, older: int, draw: random.Random) -> Look:
    first = [*_part(each.bad, 0, bad), *_sample(each.fresh, fresh, draw)]
    second, window, lap_end = _second_look(each, older)
    both = [Covered(*piece) for piece in joined([*first, *second], 0)]
    has_first = [any(piece.start <= one.start < piece.end for one in first) for piece in both]
    return Look(
        [piece for piece, is_first in zip(both, has_first, strict=True) if is_first],
        [piece for piece, is_first in zip(both, has_first, strict=True) if not is_first],
        window,
        lap_end,
    )


def _sample(ranges: Ranges, share: int, draw: random.Random) -> list[Covered]:
    """All of some ranges, or their beginning, their end, and what is drawn between."""
    length = size(ranges)
    if length <= share:
        return list(ranges)
    piece = share // _PIECES
    middle = [draw.randrange(piece, length - piece) for _ in range(_PIECES - 2)]
    begins = [0, *(min(begin, length - piece) for begin in middle), length - piece]
    return [cut for begin in begins for cut in _part(ranges, begin, begin + piece)]


def _second_look(each: Unverified, share: int) -> tuple[list[Covered], Covered | None, int]:
    """What of older stretches is looked at, the window among it, and where its lap ends."""
    length = size(each.older)
    if length <= share:
        return list(each.older), None, 0
    at, lap_end = each.lap
    if not at < lap_end or not size(_between(each.older, at, lap_end)):
        at, lap_end = each.older[0].start, each.older[-1].end
    ends = share // _PIECES
    window = _part(_between(each.older, at, lap_end), 0, share - 2 * ends)
    found = [*_part(each.older, 0, ends), *window, *_part(each.older, length - ends, length)]
    return found, Covered(at, window[-1].end) if window else None, lap_end


def _part(ranges: Ranges, start: int, end: int) -> list[Covered]:
    """A part of ranges, counted as if they lay one behind the other from 0 on."""
    found: list[Covered] = []
    passed = 0
    for each in ranges:
        length = each.end - each.start
        first, last = max(start - passed, 0), min(end - passed, length)
        if first < last:
            found.append(Covered(each.start + first, each.start + last))
        passed += length
    return found


def _between(ranges: Ranges, start: int, end: int) -> list[Covered]:
    return [Covered(max(a, start), min(b, end)) for a, b in ranges if max(a, start) < min(b, end)]


def size(ranges: Iterable[tuple[int, int]]) -> int:
    """Offsets in disjoint ranges."""
    return sum(end - start for start, end in ranges)


def joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Ranges that are at most `gap` apart become one: reading on is cheaper than a new start."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start - result[-1][1] <= gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
