"""Where the records of batches begin and end, and what their first fields say; nothing else of them is decoded.

```
  record   length  attributes  timestamp delta  offset delta │ key length  key  value length  value  headers
           └───────────────── frame ─────────────────────────┘└──────────────── body ───────────────────────┘
```

The frame of a record depends on the batch in which it lies, its body does not: copies that were put into other batches
have the same bodies. So bodies are compared as bytes, and of the frame the offset and the timestamp that it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.varints import Numbers, Octets, numbers
from k2k_assets.transport.record_batch.errors import Unreadable

# A number of more bytes has more than 63 bits. No client writes one, and nothing is proven of it.
_LONGEST = 9
# Records of one size are found without looking at one after the other, if there are so many of them.
_FEWEST, _LONGEST_RUN = 16, 4096
_NOTHING: Numbers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RecordFrames:
    """Records of one or more neighbouring batches; all arrays have one element for each record, in order.

    Attributes:
        content: The records of all batches, decompressed.
        octets: The same bytes as an array.
        starts: Where each record begins in it.
        bodies: Where the body of each begins.
        ends: Where each ends.
        offsets: The offset of each, rising.
        timestamps: The timestamp of each, in milliseconds since the epoch.
        attributes: The attributes of each.
    """

    content: bytes
    octets: Octets
    starts: Numbers
    bodies: Numbers
    ends: Numbers
    offsets: Numbers
    timestamps: Numbers
    attributes: Octets

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, first: int, end: int) -> RecordFrames:
        """The records from one index up to another."""
        at = slice(first, end)
        return RecordFrames(
            self.content,
            self.octets,
            self.starts[at],
            self.bodies[at],
            self.ends[at],
            self.offsets[at],
            self.timestamps[at],
            self.attributes[at],
        )

    def within(self, start: int, end: int) -> RecordFrames:
        """The records with offsets from `start` up to `end`."""
        first, last = np.searchsorted(self.offsets, (start, end)).tolist()
        return self.part(first, last)


class SizesGuess(NamedTuple):
    """What the first records of some batches are, if they are the same as other ones; nothing relies on it.

    Attributes:
        offsets: The offset of each.
        timestamps: The timestamp of each.
        lengths: The length of the body of each.
    """

    offsets: Numbers
    timestamps: Numbers
    lengths: Numbers


def frames_of(
    batches: Sequence[RecordBatch], contents: Sequence[bytes], guess: SizesGuess | None = None
) -> RecordFrames:
    """The records of neighbouring batches.

    Args:
        batches: At least one; their records have times of their own.
        contents: The records of each, decompressed.
        guess: Saves time where it is right.

    Raises:
        Unreadable: They are damaged, or use numbers that no client writes.
    """
    content = contents[0] if len(contents) == 1 else b"".join(contents)
    octets = np.frombuffer(content, np.uint8)
    counts = np.array([batch.records for batch in batches])
    count = int(counts.sum())
    try:
        known = _right_ends(octets, _guessed_ends(batches, counts, guess)) if guess else _NOTHING
        walked = _ends(content, octets, count - len(known), int(known[-1]) if len(known) else 0)
    except IndexError:
        raise Unreadable("its records end too early", batches[0].base) from None
    ends, last = np.concatenate([known, walked]), np.cumsum(counts) - 1
    if not (counts > 0).all() or not np.array_equal(ends[last], np.cumsum([len(each) for each in contents])):
        raise Unreadable("a batch has more or less records than it says", batches[0].base)
    return _decoded(batches, content, octets, counts, ends)


def _ends(content: bytes, octets: Octets, count: int, at: int) -> Numbers:
    """Where each of `count` records ends, by the lengths alone; `_decoded` looks at all these once more, at once."""
    found = [_NOTHING]
    by_hand = _FEWEST
    while count:
        walked = _walked(content, min(by_hand, count), at)
        count, step, at = count - len(walked), walked[-1] - ([at, *walked])[-2], walked[-1]
        run = _equal_sized(octets, at, step, min(count, _LONGEST_RUN))
        by_hand = _FEWEST if len(run) >= _FEWEST else min(2 * by_hand, _LONGEST_RUN)
        if len(run):
            count, at = count - len(run), int(run[-1])
        found += [np.array(walked, np.int64), run]
    return np.concatenate(found)


def _walked(content: bytes, count: int, at: int) -> list[int]:
    """One length after the other: nothing tells where the next one is but the one before."""
    found: list[int] = []
    add = found.append
    for _ in range(count):
        low = content[at]
        if low < 0x80:
            at += 1 + (low >> 1)
        elif (high := content[at + 1]) < 0x80:
            at += 2 + ((low & 0x7F | high << 7) >> 1)
        else:
            at = _far_end(content, at)
        add(at)
    return found


def _equal_sized(octets: Octets, at: int, step: int, most: int) -> Numbers:
    """The ends of the next records, as long as they have the same length as the one of `step` bytes before them."""
    before = at - step
    starts = at + step * np.arange(min(most, (len(octets) - at) // step))
    is_same = octets[starts] == octets[before]
    if octets[before] >= 0x80:
        if octets[before + 1] >= 0x80:
            return _NOTHING
        is_same &= octets[starts + 1] == octets[before + 1]
    return starts[: len(starts) if is_same.all() else int(np.argmin(is_same))] + step


def _guessed_ends(batches: Sequence[RecordBatch], counts: Numbers, guess: SizesGuess) -> Numbers:
    most = slice(0, min(int(counts.sum()), len(guess.offsets)))
    bases = np.repeat(np.array([batch.base for batch in batches], np.int64), counts)[most]
    times = np.repeat(np.array([batch.base_timestamp for batch in batches], np.int64), counts)[most]
    sizes = guess.lengths[most] + 1 + _widths(guess.offsets[most] - bases) + _widths(guess.timestamps[most] - times)
    return np.cumsum(sizes + _widths(sizes))


def _widths(values: Numbers) -> Numbers:
    """Bytes of each number, signed."""
    left = (values << 1 ^ values >> 63) >> 7
    found = np.ones_like(left)
    while (more := left > 0).any():
        found += more
        left >>= 7
    return found


def _right_ends(octets: Octets, ends: Numbers) -> Numbers:
    """The first of some guessed ends, as far as the lengths that lie between them say the same."""
    if not len(ends):
        return ends
    starts = _starts(ends)
    beyond = int(np.searchsorted(starts, len(octets) - _LONGEST))
    if not beyond:
        return _NOTHING
    try:
        sizes, at = numbers(octets, starts[:beyond], _LONGEST)
    except Unreadable:  # a wrong guess leads to any bytes, which say nothing of the batch
        return _NOTHING
    is_right = at + sizes == ends[:beyond]
    return ends[: beyond if is_right.all() else int(np.argmin(is_right))]


def _starts(ends: Numbers) -> Numbers:
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1]
    return starts


def _far_end(content: bytes, at: int) -> int:
    value = 0
    for index in range(_LONGEST):
        byte = content[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return at + index + 1 + (value >> 1)
    raise Unreadable("a number does not end")


def _decoded(
    batches: Sequence[RecordBatch], content: bytes, octets: Octets, counts: Numbers, ends: Numbers
) -> RecordFrames:
    starts = _starts(ends)
    try:
        sizes, at = numbers(octets, starts, _LONGEST)
        behind = at + sizes
        attributes = octets[at]
        later, at = numbers(octets, at + 1, _LONGEST)
        deltas, bodies = numbers(octets, at, _LONGEST)
    except IndexError:
        raise Unreadable("its records end too early", batches[0].base) from None
    if (behind != ends).any() or (bodies > ends).any() or len(content) != ends[-1]:
        raise Unreadable("a record is not as long as it says", batches[0].base)
    bases = np.repeat(np.array([batch.base for batch in batches], np.int64), counts)
    after = np.repeat(np.array([batch.end for batch in batches], np.int64), counts)
    if (deltas < 0).any() or (deltas >= after - bases).any() or (np.diff(offsets := bases + deltas) <= 0).any():
        raise Unreadable("its records' offsets do not rise within it", batches[0].base)
    times = np.repeat(np.array([batch.base_timestamp for batch in batches], np.int64), counts)
    return RecordFrames(content, octets, starts, bodies, ends, offsets, times + later, attributes)
