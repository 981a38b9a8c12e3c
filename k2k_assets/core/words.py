"""Numbers and lists of names for people, and texts that several messages share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

from k2k_assets.core.topic_partition import TopicPartition

N = TypeVar("N", TopicPartition, str)

# A message lists at most so many names; a broker may have led thousands of partitions.
_MOST_NAMES = 5

ACLS_HINT = "`k2k acls -f FILE` prints the commands that grant what the pipeline needs"
"""Advice for an error that says that the principal lacks a right."""


def size(number: float) -> str:
    """Bytes, decimal units: `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def duration(seconds: float) -> str:
    """A time span in its two largest units: `1 h 3 min`."""
    whole = int(seconds)
    if whole < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"


def utc(milliseconds: int) -> str:
    """A point in time, given in milliseconds since the epoch, as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plural(count: int, one: str, several: str = "") -> str:
    """`1 topic`, `2,000 topics`; `1 copy`, `2 copies`; `1 topic is`, `2 topics are`.

    Args:
        count: How many.
        one: What follows 1.
        several: What follows all other numbers; empty: the same with an s.
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def abbreviate(names: Iterable[N]) -> str:
    """The first few names in order, and how many more there are: `a, b, c, d, e and 3 more`."""
    shown = [str(name) for name in sorted(names)]
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more
