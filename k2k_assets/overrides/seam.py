"""Looks at the seam of an adopted copy: is the last record on the target the copy of the last one below the position?

```
 source   ... a  b  c  d  e        position 3: a, b and c count as copied
 target   ... a  b  c              it fits
 target   ... a  b  c  d           d would be copied twice; position 4 fits
 target   ... a  b                 c would never be copied; position 2 fits
```

Records may be alike, such as heartbeats. They are told apart by their timestamps, which most tools keep, else by the
records before them; where neither helps, the position is doubtful.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message, timestamp_of
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

    def last_before(self, end: int) -> Sequence[Message]:
        """The last records below an offset, at most so many as tell alike ones apart; none if none are within reach."""
        for step in _STEPS:
            start = max(self.start, end - step)
            found = self.read(start, end)
            if found or start == self.start:
                return found[-_STEPS[0] :]
        return []

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
    copies = target.last_before(target.end)
    if not copies:
        if not source.last_before(position):
            return Seam(True)
        return Seam(False, source.start, f"{target.at} holds no record, so nothing below {position} is on the target")
    close = source.read(position - _STEPS[0], position + _STEPS[0])
    same = [message for message in close if _is_same(message, copies[-1])]
    if len(same) == 1 and same[0] is _last_below(close, position):
        return Seam(True)
    near = source.read(position - _AROUND, position + _AROUND)
    if _last_below(near, position) is None:
        near = [*source.last_before(position), *near]
    return _placed(near, copies, position, target.at)


def _placed(near: Sequence[Message], copies: Sequence[Message], position: int, at: TopicPartition) -> Seam:
    """What follows from where the last copy lies among the source's records near a position."""
    found = _originals(near, copies)
    if not found:
        return Seam(False, None, f"the last record of {at}, at {copies[-1].offset()}, is none of the source's near it")
    if len(found) > 1:
        first, last = found[0].offset(), found[-1].offset()
        return Seam(
            False,
            None,
            f"{len(found)} of the source's records from {first} to {last} are alike, and the last record of {at}, at "
            f"{copies[-1].offset()}, may be the copy of any of them",
        )
    offset = found[0].offset()
    if found[0] is _last_below(near, position):
        return Seam(True)
    if offset >= position:
        what = f"{position} to {offset} would be copied a second time"
    else:
        what = f"{offset + 1} to {position - 1} would never be copied"
    return Seam(False, offset + 1, f"the target ends with the source's record {offset}: {what}")


def _originals(near: Sequence[Message], copies: Sequence[Message]) -> list[Message]:
    """The source's records of which the last copy may be one: by content, then by time, then by those before them."""
    alike = [index for index, message in enumerate(near) if _content(message) == _content(copies[-1])]
    alike = [index for index in alike if _is_same(near[index], copies[-1])] or alike
    if len(alike) > 1:
        before = {index: _alike_before(near, index, copies) for index in alike}
        longest = max(before.values())
        alike = [index for index in alike if before[index] == longest]
    return [near[index] for index in alike]


def _alike_before(near: Sequence[Message], index: int, copies: Sequence[Message]) -> int:
    """How many records up to one of the source have, one by one, the content of the last copies."""
    pairs = zip(reversed(near[: index + 1]), reversed(copies), strict=False)
    return sum(1 for _ in takewhile(lambda pair: _content(pair[0]) == _content(pair[1]), pairs))


def _last_below(messages: Sequence[Message], position: int) -> Message | None:
    return next((message for message in reversed(messages) if message.offset() < position), None)


def _is_same(one: Message, other: Message) -> bool:
    """Whether two records are alike in content and time; whose time the broker set is like none."""
    (time, by_broker), (other_time, other_by_broker) = timestamp_of(one), timestamp_of(other)
    return _content(one) == _content(other) and time == other_time and not (by_broker or other_by_broker)


def _content(message: Message) -> Content:
    return message.key(), message.value()
