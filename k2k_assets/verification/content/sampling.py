"""Chooses the stretches of the copied ranges that a content check compares. Pure.

```
  source     oldest ──────────────────────────────────────────── newest copy
             [oldest]        [window ──>]            [newest]│[── fresh ──]
                                                             └ verified position
```

The check compares whole stretches, not single records, because only an ordered comparison shows a missing record or a
swapped pair. It takes ranges first that were found wrong before, then those copied since the verified position: all of
them, or a sample. The rest of the budget is for a second look at older ranges: the oldest, the newest, and a window
that moves from one evaluation to the next, in laps, so that everything is compared in bounded time.
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
    """The ranges to compare in one partition; all are ordered and disjoint.

    Attributes:
        bad: Ranges that were found wrong, and not verified since.
        fresh: Ranges copied since the verified position.
        older: Ranges below the verified position.
        lap: Position of the window over the older ranges, and the end of its lap.
    """

    bad: Ranges = ()
    fresh: Ranges = ()
    older: Ranges = ()
    lap: Covered = NO_LAP


@dataclass(frozen=True, slots=True)
class Look:
    """The chosen ranges of one partition.

    Attributes:
        first: Ranges that were found wrong before, and fresh ones, with ranges of the second look that adjoin them.
        second: The other ranges of the second look.
        window: The window over the older ranges, which is a part of both; None if all older ranges are chosen.
        lap_end: End of the window's lap.
    """

    first: Ranges = ()
    second: Ranges = ()
    window: Covered | None = None
    lap_end: int = 0


@dataclass(slots=True)
class _Shares:
    """Number of offsets to compare for each partition."""

    bad: Sequence[int] = field(default_factory=list)
    fresh: Sequence[int] = field(default_factory=list)
    older: Sequence[int] = field(default_factory=list)


def looks(unverified: Mapping[K, Unverified], budget: int | None, seed: int) -> dict[K, Look]:
    """Chooses the ranges to compare within the budget.

    Args:
        unverified: The ranges that could be compared, by partition.
        budget: Number of offsets, see `next_budget`; None at first.
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
    """Number of offsets for the next evaluation, such that it reaches all planned ranges; else it verifies nothing.

    Args:
        budget: Budget of this evaluation.
        compared: Number of offsets that it has compared.
        ran_out: Whether its time ran out before all planned ranges were compared.
    """
    wanted = compared if ran_out else 2 * (budget or RECORDS_IN_ALL)
    return min(RECORDS_IN_ALL, max(LEAST_PER_PARTITION, wanted))


def _shares(partitions: Sequence[Unverified], budget: int) -> _Shares:
    """Shares of the budget: at most a quarter for ranges found wrong, and at least a quarter for the second look."""
    shares = _Shares()
    shares.bad = fair_shares([size(each.bad) for each in partitions], budget // 4)
    left = budget - sum(shares.bad)
    shares.fresh = fair_shares([size(each.fresh) for each in partitions], left - budget // 4)
    shares.older = fair_shares([size(each.older) for each in partitions], left - sum(shares.fresh))
    return shares


def fair_shares(demands: Sequence[int], budget: int) -> list[int]:
    """Splits a budget fairly: each gets its demand, or the same share as all whose demand is not met."""
    given = [0] * len(demands)
    for place, (demand, who) in enumerate(sorted((demand, who) for who, demand in enumerate(demands))):
        given[who] = min(demand, budget // (len(demands) - place))
        budget -= given[who]
    return given


def _look(each: Unverified, bad: int, fresh: int, older: int, draw: random.Random) -> Look:
    first = [*_part(each.bad, 0, bad), *_sample(each.fresh, fresh, draw)]
    second, window, lap_end = _second_look(each, older)
    both = union([*first, *second])
    has_first = [any(piece.start <= one.start < piece.end for one in first) for piece in both]
    return Look(
        [piece for piece, is_first in zip(both, has_first, strict=True) if is_first],
        [piece for piece, is_first in zip(both, has_first, strict=True) if not is_first],
        window,
        lap_end,
    )


def _sample(ranges: Ranges, share: int, draw: random.Random) -> list[Covered]:
    """All of some ranges; if these are too much, their beginning, their end, and random pieces in between."""
    length = size(ranges)
    if length <= share:
        return list(ranges)
    piece = share // _PIECES
    middle = [draw.randrange(piece, length - piece) for _ in range(_PIECES - 2)]
    begins = [0, *(min(begin, length - piece) for begin in middle), length - piece]
    return [cut for begin in begins for cut in _part(ranges, begin, begin + piece)]


def _second_look(each: Unverified, share: int) -> tuple[list[Covered], Covered | None, int]:
    """The ranges of the second look, the window among them, and the end of its lap."""
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
    """A part of ranges, with start and end counted as if the ranges lay one behind the other from 0 on."""
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
    """Number of offsets in disjoint ranges."""
    return sum(end - start for start, end in ranges)


def union(ranges: Iterable[tuple[int, int]], gap: int = 0) -> list[Covered]:
    """Ranges as covered ones, in order and disjoint; see `joined`."""
    return [Covered(*each) for each in joined(ranges, gap)]


def joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Joins ranges that are at most `gap` apart, because reading on is cheaper than a new seek."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start - result[-1][1] <= gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
