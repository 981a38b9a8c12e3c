"""The records of a chunk that was read by batches: undecoded until somebody looks into them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from typing import NamedTuple

from k2k_assets.core.stops.reasons.records import BatchUnreadable, HeaderUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.transport.chunk import NewStart, UndecodedRest, UnreadableRecord, UnreadableRest
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.headers import Headers
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import AT_ONCE, NONE
from k2k_assets.transport.record_batch.batches.prefixes import Partly, with_prefixes
from k2k_assets.transport.record_batch.batches.record_codec import DecodedBatch, RawHeaders, decoded
from k2k_assets.transport.record_batch.errors import Unreadable


class ArrivedBatch(NamedTuple):
    """A batch, and the offsets of those of its records that are wanted: at least one.

    Attributes:
        batch: The batch.
        offsets: The last records' offsets, rising.
    """

    batch: RecordBatch
    offsets: Sequence[int]


def arrived(batch: RecordBatch, position: int) -> ArrivedBatch | None:
    """A batch without its records below a position; None if it has no others.

    Raises:
        Unreadable: It has gaps, so that its header does not tell its offsets, and cannot be decoded.
    """
    if batch.is_whole:
        return ArrivedBatch(batch, range(max(batch.base, position), batch.end))
    found = decoded(batch).offsets
    offsets = found[bisect_left(found, position) :]
    return ArrivedBatch(batch, offsets) if offsets else None


class BatchRecords:
    """Batches of one partition as `Records`.

    Args:
        source: The partition.
        arrived: The batches, in order; at least one.
    """

    __slots__ = ("_offsets", "_size", "arrived", "source")

    def __init__(self, source: TopicPartition, arrived: Sequence[ArrivedBatch]) -> None:
        self.source, self.arrived = source, arrived
        size = count = 0
        for batch, offsets in arrived:
            size += len(batch.payload)
            count += len(offsets)
        self._size = size
        first, end = arrived[0].offsets[0], arrived[-1].offsets[-1] + 1
        self._offsets: Sequence[int] = (
            range(first, end) if end - first == count else list(chain.from_iterable(each.offsets for each in arrived))
        )

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def first_offset(self) -> int:
        return self._offsets[0]

    @property
    def last_offset(self) -> int:
        return self._offsets[-1]

    @property
    def leader_epoch(self) -> int | None:
        return _known(self.arrived[-1].batch.leader_epoch)

    @property
    def first_leader_epoch(self) -> int | None:
        return _known(self.arrived[0].batch.leader_epoch)

    @property
    def first_timestamp(self) -> int:
        return self.arrived[0].batch.first_timestamp

    def offsets(self) -> Sequence[int]:
        return self._offsets

    def size(self) -> int:
        return self._size

    def with_prefixes(self, size: int, new: Mapping[Facet, NewStart]) -> BatchRecords | None:
        try:
            partly = [Partly(batch, batch.records - len(offsets)) for batch, offsets in self.arrived]
            changed = with_prefixes(partly, size, new)
        except Unreadable:
            return None
        if changed is None:
            return None
        arrived = zip(changed, [each.offsets for each in self.arrived], strict=True)
        return BatchRecords(self.source, [ArrivedBatch(*each) for each in arrived])

    def columns(self) -> BatchColumns:
        made: list[DecodedBatch] = []
        size = 0
        for each in self.arrived:
            if size >= AT_ONCE:
                raise UndecodedRest(self._first(made), BatchRecords(self.source, self.arrived[len(made) :]))
            try:
                found = decoded(each.batch)
            except Unreadable as fault:
                reason = BatchUnreadable(self.source, fault.offset, fault.words)
                if not made:
                    raise SourceStopped(self.source, reason) from None
                raise UnreadableRest(self._first(made), reason) from None
            size += found.size
            made.append(_wanted(found, len(each.offsets)))
        return self._of(made)

    def _first(self, made: Sequence[DecodedBatch]) -> BatchColumns:
        """The first batches, which are decoded."""
        return BatchRecords(self.source, self.arrived[: len(made)])._of(made)

    def _of(self, made: Sequence[DecodedBatch]) -> BatchColumns:
        whole = made[0] if len(made) == 1 else _joined(made)
        epochs = self.first_leader_epoch, self.leader_epoch
        return BatchColumns(self.source, epochs, whole, self.arrived[0].batch.codec, self)


def _known(leader_epoch: int) -> int | None:
    return None if leader_epoch < 0 else leader_epoch


def _wanted(made: DecodedBatch, last: int) -> DecodedBatch:
    """The last records of a batch."""
    left_out = len(made.offsets) - last
    return _from(made, left_out) if left_out else made


def _joined(made: Sequence[DecodedBatch]) -> DecodedBatch:
    return DecodedBatch(
        [each for batch in made for each in batch.offsets],
        [each for batch in made for each in batch.timestamps],
        [each for batch in made for each in batch.keys],
        [each for batch in made for each in batch.values],
        [each for batch in made for each in batch.headers],
    )


def _from(made: DecodedBatch, at: int) -> DecodedBatch:
    return DecodedBatch(made.offsets[at:], made.timestamps[at:], made.keys[at:], made.values[at:], made.headers[at:])


class BatchColumns:
    """Decoded records of batches, as `Columns`.

    Args:
        source: Their partition.
        leader_epochs: Of the first and the last one; None for what is not known.
        records: The records.
        codec: Number of the compression that the first of them came with.
        undecoded: Them as they came; None if these were others too.

    Attributes:
        codec: See the argument.
        undecoded: See the argument.
    """

    __slots__ = ("_headers", "_leader_epochs", "_records", "codec", "source", "undecoded")

    def __init__(
        self,
        source: TopicPartition,
        leader_epochs: tuple[int | None, int | None],
        records: DecodedBatch,
        codec: int = NONE,
        undecoded: BatchRecords | None = None,
    ) -> None:
        self.source, self._leader_epochs, self._records = source, leader_epochs, records
        self.codec, self.undecoded = codec, undecoded
        self._headers: list[Headers | None] | None = None

    def __len__(self) -> int:
        return len(self._records.offsets)

    @property
    def first_offset(self) -> int:
        return self._records.offsets[0]

    @property
    def last_offset(self) -> int:
        return self._records.offsets[-1]

    @property
    def leader_epoch(self) -> int | None:
        return self._leader_epochs[1]

    @property
    def first_leader_epoch(self) -> int | None:
        return self._leader_epochs[0]

    @property
    def first_timestamp(self) -> int:
        return self._records.timestamps[0]

    def offsets(self) -> Sequence[int]:
        return self._records.offsets

    def size(self) -> int:
        return sum(len(value) for value in self._records.values if value is not None)

    def columns(self) -> BatchColumns:
        return self

    def keys(self) -> Sequence[bytes | None]:
        return self._records.keys

    def values(self) -> Sequence[bytes | None]:
        return self._records.values

    def timestamps(self) -> Sequence[int]:
        return self._records.timestamps

    def headers(self) -> Sequence[Headers | None]:
        if self._headers is None:
            made = enumerate(self._records.headers)
            self._headers = [self._readable(index, raw) if raw else None for index, raw in made]
        return self._headers

    def raw_headers(self) -> Sequence[RawHeaders]:
        """The headers of each record as they came: their names may be no UTF-8."""
        return self._records.headers

    def _readable(self, index: int, raw: RawHeaders) -> Headers:
        try:
            return [(name.decode(), value) for name, value in raw]
        except UnicodeDecodeError as error:
            offset = self._records.offsets[index]
            name = error.object if len(error.object) <= 40 else error.object[:40] + b"..."
            raise UnreadableRecord(index, HeaderUnreadable(self.source, offset, repr(name))) from None

    def before(self, index: int) -> BatchColumns:
        made = self._records
        kept = DecodedBatch(
            made.offsets[:index], made.timestamps[:index], made.keys[:index], made.values[:index], made.headers[:index]
        )
        return self._some(kept)

    def select(self, kept: Sequence[bool]) -> BatchColumns:
        made = self._records
        left = DecodedBatch(
            list(compress(made.offsets, kept)),
            list(compress(made.timestamps, kept)),
            list(compress(made.keys, kept)),
            list(compress(made.values, kept)),
            list(compress(made.headers, kept)),
        )
        return self._some(left)

    def _some(self, records: DecodedBatch) -> BatchColumns:
        first, last = self._leader_epochs
        epochs = (first, last) if first == last else (None, None)
        return BatchColumns(self.source, epochs, records, self.codec)
