"""Which segments an update merges, so that there are few of them and each run is written a few times only: pure.

Segments have tiers by their number of runs. When the newest ones, none above a tier, are `MOST_OF_A_TIER`, they become
one of the next tier; those that have `SEALED_RUNS` together become one that is never written again. So an update
rewrites less than twice that, a run is written about once for each tier, and an index of N runs has at most
N / `SEALED_RUNS` segments and `MOST_OF_A_TIER` of each tier. An update that is sealed as it comes would cut small ones
off from all that follow: they become one first.

```
 before     [sealed 4.2M] [sealed 4.1M] [280k] [36k] [36k] [36k] [36k] [36k] [36k] [36k] [36k]
 after      [sealed 4.2M] [sealed 4.1M] [280k] [288k]
```

With `index.retention` a merged segment spans an eighth of it at most, so that segments grow old as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from k2k_assets.mapping.index.manifest import Segment

MOST_OF_A_TIER = 8
SEALED_RUNS = 4_000_000
_TIERS = (62_500, 500_000, SEALED_RUNS)
SPANS_OF_RETENTION = 8


@dataclass(frozen=True, slots=True)
class Ageing:
    """How old a segment may get; times in milliseconds.

    Attributes:
        expired: What is older will be pruned as soon as nothing keeps it.
        span: Longest time between the oldest and the newest record of a merged segment.
    """

    expired: int
    span: int

    @classmethod
    def of(cls, now: int, retention: int) -> Ageing:
        """For an `index.retention`."""
        return cls(now - retention, retention // SPANS_OF_RETENTION)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that may be merged; times as in `Segment`.

    Attributes:
        name: Its name.
        runs: Its valid runs.
        since: Time of its oldest record.
        until: Time of its newest.
    """

    name: str
    runs: int
    since: int
    until: int


def candidates(segments: Iterable[Segment], runs: Mapping[str, int]) -> list[Candidate]:
    """The segments with the runs that are still valid, in their order.

    Args:
        segments: Oldest first.
        runs: Valid ones, by segment.
    """
    return [Candidate(s.name, runs.get(s.name, 0), s.since, s.until) for s in segments]


def to_merge(segments: Sequence[Candidate], ageing: Ageing | None = None) -> list[str]:
    """Names of the segments that should become one, neighbours; empty when none should.

    Args:
        segments: Oldest first.
        ageing: With `index.retention`.
    """
    for group in _groups(_cut_off(segments), ageing):
        if len(group) > 1:
            return [segment.name for segment in group]
    for lowest, highest in pairwise((0, *_TIERS)):
        for group in _groups(_newest_below(segments, highest), ageing):
            of_tier = sum(segment.runs >= lowest for segment in group)
            are_many = of_tier >= MOST_OF_A_TIER or len(group) >= MOST_OF_A_TIER * len(_TIERS)
            if are_many or (len(group) > 1 and _runs(group) >= SEALED_RUNS):
                return [segment.name for segment in group]
    return []


def _runs(segments: Sequence[Candidate]) -> int:
    return sum(segment.runs for segment in segments)


def _cut_off(segments: Sequence[Candidate]) -> Sequence[Candidate]:
    """The unsealed ones before a newest one that is sealed."""
    if segments and segments[-1].runs >= SEALED_RUNS:
        return _newest_below(segments[:-1], SEALED_RUNS)
    return ()


def _newest_below(segments: Sequence[Candidate], runs: int) -> Sequence[Candidate]:
    first = len(segments)
    while first and segments[first - 1].runs < runs:
        first -= 1
    return segments[first:]


def _groups(segments: Sequence[Candidate], ageing: Ageing | None) -> list[list[Candidate]]:
    """Neighbours, oldest first, as far as they may become one segment."""
    groups: list[list[Candidate]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, ageing):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: list[Candidate], segment: Candidate, ageing: Ageing | None) -> bool:
    if _runs(group) >= SEALED_RUNS:
        return False
    if ageing is None:
        return True
    since = min(s.since for s in (*group, segment))
    until = max(s.until for s in (*group, segment))
    # What has expired and is still there is kept for its last mapping only: it may lie together however old it is.
    return until - max(since, ageing.expired) <= ageing.span
