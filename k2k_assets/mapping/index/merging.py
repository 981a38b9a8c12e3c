"""Decides which segments an update merges, so that there are few, and each run is written a few times only. Pure.

Segments have tiers by their number of runs. When `MOST_OF_A_TIER` of the newest segments are in a tier or below, they
are merged into one of the next tier; segments with `SEALED_RUNS` runs together are merged into one that is never
written again. So an update rewrites less than twice `SEALED_RUNS`, a run is written about once for each tier, and an
index of N runs has at most N / `SEALED_RUNS` sealed segments and `MOST_OF_A_TIER` of each tier. If an update adds a
segment that is sealed at once, the small ones before it are merged first, because no later merge could reach them.

```
 before     [sealed 4.2M] [sealed 4.1M] [280k] [36k] [36k] [36k] [36k] [36k] [36k] [36k] [36k]
 after      [sealed 4.2M] [sealed 4.1M] [280k] [288k]
```

With `index.retention` a merged segment spans at most an eighth of it, so that segments expire as a whole.
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
    """How old segments may get; times in milliseconds.

    Attributes:
        expired: Older records are pruned, unless they are the last ones of their partition.
        span: Longest time between the oldest and the newest record of a merged segment.
    """

    expired: int
    span: int

    @classmethod
    def of(cls, now: int, retention: int) -> Ageing:
        """Makes the ages for an `index.retention`."""
        return cls(now - retention, retention // SPANS_OF_RETENTION)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that may be merged; times as in `Segment`.

    Attributes:
        name: Name of the segment.
        runs: Number of its valid runs, and of the ranges that were left out on purpose.
        since: Time of its oldest record.
        until: Time of its newest record.
    """

    name: str
    runs: int
    since: int
    until: int


def candidates(segments: Iterable[Segment], runs: Mapping[str, int]) -> list[Candidate]:
    """Makes candidates of segments, in their order.

    Args:
        segments: Segments, oldest first.
        runs: Number of valid runs, by segment.
    """
    return [Candidate(s.name, runs.get(s.name, 0), s.since, s.until) for s in segments]


def to_merge(segments: Sequence[Candidate], ageing: Ageing | None = None) -> list[str]:
    """Names of neighbouring segments to merge into one; empty if there are none.

    Args:
        segments: Segments, oldest first.
        ageing: Ages by `index.retention`; None without it.
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
    """The unsealed segments before the newest one, if that one is sealed."""
    if segments and segments[-1].runs >= SEALED_RUNS:
        return _newest_below(segments[:-1], SEALED_RUNS)
    return ()


def _newest_below(segments: Sequence[Candidate], runs: int) -> Sequence[Candidate]:
    first = len(segments)
    while first and segments[first - 1].runs < runs:
        first -= 1
    return segments[first:]


def _groups(segments: Sequence[Candidate], ageing: Ageing | None) -> list[list[Candidate]]:
    """Groups neighbours that may become one segment, oldest first."""
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
    # Expired segments are kept only for the last mappings of some partitions: these may be merged whatever their age.
    return until - max(since, ageing.expired) <= ageing.span
