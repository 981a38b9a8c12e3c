"""Source ranges whose records were left out on purpose. Pure.

A range is of one rule. Every record of the source in it was left out by that rule; a range may hold offsets without any
record (markers, aborted and compacted records).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class DroppedRange(NamedTuple):
    """A range that was left out: start inclusive, end exclusive.

    Attributes:
        rule: Name of the rule.
        start: Source offset of the first record.
        end: Source offset after the last record.
    """

    rule: str
    start: int
    end: int


def extend(ranges: list[DroppedRange], more: Iterable[DroppedRange], follow: bool) -> None:
    """Adds the ranges of a chunk to those before it.

    Args:
        ranges: The ranges of the partition up to now, which are changed.
        more: The ranges of the next chunk, in order.
        follow: Whether no kept record lies between the last of the one and the first of the other: then the two are one
            if they are of one rule.
    """
    for each in more:
        if follow and ranges and ranges[-1].rule == each.rule:
            ranges[-1] = ranges[-1]._replace(end=each.end)
        else:
            ranges.append(each)
        follow = False


def by_rule(ranges: Iterable[DroppedRange]) -> dict[str, list[tuple[int, int]]]:
    """Start and end of the ranges of each rule, the rules in the order of their names."""
    grouped: dict[str, list[tuple[int, int]]] = {}
    for rule, start, end in ranges:
        grouped.setdefault(rule, []).append((start, end))
    return dict(sorted(grouped.items()))
