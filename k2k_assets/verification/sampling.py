"""Which stretches of the copied ranges a content check looks at: pure.

Whole stretches are compared, not single records: only in order, record by record, do a missing one and a swapped
pair show. The oldest and the newest that can still be read are always among them, the rest is drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition

# 400 000 records on each side take a few seconds of Spark on two cores.
RECORDS_IN_ALL = 400_000
RECORDS_PER_PARTITION = 20_000
_LEAST_PER_PARTITION = 1_000
_PIECES = 4


class Stretch(NamedTuple):
    """A range of source offsets: start inclusive, end exclusive."""

    topic: str
    partition: int
    start: int
    end: int


def stretches(
    covered: Mapping[TopicPartition, Iterable[tuple[int, int]]], log_starts: Mapping[TopicPartition, int], seed: int
) -> list[Stretch]:
    """Draws the stretches.

    Args:
        covered: Covered source ranges, by partition.
        log_starts: Source offsets below these are gone.
        seed: The same seed draws the same stretches.

    Returns:
        Disjoint stretches within the covered ranges: of one partition after the other, by offset.
    """
    draw = random.Random(seed)
    budget = min(RECORDS_PER_PARTITION, max(_LEAST_PER_PARTITION, RECORDS_IN_ALL // max(1, len(covered))))
    chosen: list[Stretch] = []
    for tp in covered:
        low = log_starts.get(tp, 0)
        for start, end in sorted(covered[tp]):
            chosen.extend(Stretch(*tp, a, b) for a, b in _pieces(max(start, low), end, budget, draw))
    return chosen


def _pieces(start: int, end: int, budget: int, draw: random.Random) -> list[tuple[int, int]]:
    if end <= start:
        return []
    if end - start <= budget:
        return [(start, end)]
    size = budget // _PIECES
    middle = [draw.randrange(start + size, end - size) for _ in range(_PIECES - 2)]
    begins = sorted([start, *middle, end - size])
    merged: list[tuple[int, int]] = []
    for begin in begins:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], min(end, begin + size))
        else:
            merged.append((begin, min(end, begin + size)))
    return merged


def joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Ranges that are at most `gap` apart become one: reading on is cheaper than a new start."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if result and start - result[-1][1] <= gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
