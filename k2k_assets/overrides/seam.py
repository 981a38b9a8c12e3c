"""Looks at the seam of an adopted copy: is the last record on the target the copy of the last one below the position?

```
 source   ... a  b  c  d  e        position 3: a, b and c count as copied
 target   ... a  b  c              it fits
 target   ... a  b  c  d           d would be copied twice; position 4 fits
 target   ... a  b                 c would never be copied; position 2 fits
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range

# How far to look for the last record before an end: markers and aborted records may lie there.
_STEPS = (20, 2000, 200_000)
# How far from the position to look for the record that the target ends with.
_AROUND = 5000

Content = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Seam:
    """What was found at one seam.

    Attributes:
        fits: Whether the position fits.
        fitting: The position that would; None if none was found.
        words: What does not fit, in words; empty if all does.
    """

    fits: bool
    fitting: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """One side of a seam.

    Attributes:
        properties: Consumer settings of its cluster.
        at: The partition.
        start: Its log start.
        end: The end of what can be read.
    """

    properties: Mapping[str, Any]
    at: TopicPartition
    start: int
    end: int

    def last_before(self, end: int) -> Message | None:
        """The last record below an offset; None if there is none within reach."""
        for step in _STEPS:
            start = max(self.start, end - step)
            found = self.read(start, end)
            if found or start == self.start:
                return found[-1] if found else None
        return None

    def read(self, start: int, end: int) -> list[Message]:
        """The records between two offsets."""
        wanted = OffsetRange(*self.at, max(start, self.start), min(end, self.end))
        return [message for chunk in read_range(self.properties, wanted) for message in chunk]


def look_at_seam(source: Log, target: Log, position: int) -> Seam:
    """Compares both sides of a seam.

    Args:
        source: The source partition.
        target: Its target partition.
        position: The position that is to be adopted.
    """
    copied, original = target.last_before(target.end), source.last_before(position)
    if copied is None:
        if original is None:
            return Seam(True)
        return Seam(False, source.start, f"{target.at} holds no record, so nothing below {position} is on the target")
    if original is not None and _content(copied) == _content(original):
        return Seam(True)
    for message in source.read(position, position + _AROUND):
        if _content(message) == _content(copied):
            offset = message.offset()
            again = f"{position} to {offset} would be copied a second time"
            return Seam(False, offset + 1, f"the target ends with the source's record {offset}: {again}")
    for message in reversed(source.read(position - _AROUND, position)):
        if _content(message) == _content(copied):
            offset = message.offset()
            lost = f"{offset + 1} to {position - 1} would never be copied"
            return Seam(False, offset + 1, f"the target ends with the source's record {offset}: {lost}")
    return Seam(False, None, f"the last record of {target.at}, at {copied.offset()}, is none of the source's near it")


def _content(message: Message) -> Content:
    return message.key(), message.value()
