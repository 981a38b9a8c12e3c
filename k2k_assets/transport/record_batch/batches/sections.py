"""The headers with which records are written: `Chunk.written_headers`, as they lie in a batch.

Names are not decoded: what is no UTF-8 passes as it came.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat

from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.batches.packing import NO_SECTION, packed_headers, packed_pairs
from k2k_assets.transport.record_batch.batches.record_codec import RawHeaders, headers_at
from k2k_assets.transport.record_batch.batches.record_index import RecordIndex
from k2k_assets.transport.record_batch.batches.varints import length, varints
from k2k_assets.transport.record_batch.errors import Unreadable


class HeaderRules:
    """Which headers the records of a chunk get.

    Args:
        chunk: The chunk.

    Attributes:
        keeps_all: Whether each record keeps what it has, and gets no more.
        adds: Whether each record gets some.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._source, self._added = chunk.source, chunk.added
        self._keeps = chunk.keep_headers
        self._carried = b"" if chunk.keep_headers else chunk.carried.encode()
        self._places = sum(header.content == "offset" for header in chunk.added)
        self.adds = bool(chunk.added)
        self.keeps_all = chunk.keep_headers and not chunk.added

    def of_headers(self, headers: Sequence[RawHeaders], offsets: Sequence[int]) -> Sequence[bytes] | bytes:
        """The sections of records whose headers are decoded.

        Args:
            headers: Of each record.
            offsets: The source offset of each.
        """
        if not (self._keeps or self._carried):
            return self._only_added(offsets)
        left = headers if self._keeps else [[each for each in has if each[0] == self._carried] for has in headers]
        if not self.adds:
            return [packed_headers(each) for each in left]
        count, added = len(self._added), self._packed_added(offsets)
        return [length(len(each) + count) + packed_pairs(each) + more for each, more in zip(left, added, strict=False)]

    def of_index(self, index: RecordIndex, offsets: Sequence[int]) -> Sequence[bytes] | bytes:
        """The sections of records of which it is known where their headers begin.

        Args:
            index: The records.
            offsets: The source offset of each.
        """
        if not (self._keeps or self._carried):
            return self._only_added(offsets)
        if self._carried:
            places = zip(index.sections.tolist(), index.ends.tolist(), strict=True)
            return self.of_headers([headers_at(index.content, at, end) for at, end in places], offsets)
        counts, pairs_at = index.numbers_at(index.sections)
        if (counts < 0).any() or (pairs_at > index.ends).any():
            raise Unreadable("headers of a number that they cannot have")
        heads = varints((counts + len(self._added)).tolist())
        columns = zip(heads, index.slices(pairs_at, index.ends), self._packed_added(offsets), strict=False)
        return [head + own + more for head, own, more in columns]

    def _only_added(self, offsets: Sequence[int]) -> Sequence[bytes] | bytes:
        if not self.adds:
            return NO_SECTION
        head = length(len(self._added))
        return head + self._same() if not self._places else self._with_offsets(offsets, head)

    def _packed_added(self, offsets: Sequence[int]) -> Iterable[bytes]:
        return self._with_offsets(offsets, b"") if self._places else repeat(self._same())

    def _same(self) -> bytes:
        return self._template(0) % ()

    def _with_offsets(self, offsets: Sequence[int], head: bytes) -> list[bytes]:
        """The added headers of each record, with something before them."""
        found: list[bytes] = []
        while len(found) < len(offsets):
            digits = len(str(offsets[len(found)]))
            alike = offsets[len(found) : bisect_left(offsets, 10**digits)]
            template = head.replace(b"%", b"%%") + self._template(digits)
            values = alike if self._places == 1 else zip(*[alike] * self._places, strict=True)
            found += map(template.__mod__, values)
        return found

    def _template(self, digits: int) -> bytes:
        """The added headers, with a place for each offset, which has so many digits."""
        pieces = []
        for each in self._added:
            is_offset = each.content == "offset"
            value = bytes(digits) if is_offset else each.value(*self._source, -1)
            packed = packed_pairs([(each.name.encode(), value)])
            kept = packed[:-digits] if is_offset else packed
            pieces.append(kept.replace(b"%", b"%%") + (b"%d" if is_offset else b""))
        return b"".join(pieces)
