"""A chunk: records of one source partition, on their way to one target topic.

The copy loop needs to know where the records lie, how many they are and how large. A transport may hand them on as the
broker sent them, undecoded: they become columns only when somebody asks for these.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Headers = list[tuple[str, bytes | None]]


class Records(Protocol):
    """Records in source order, as they came: what is known of them without looking into one."""

    def __len__(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int | None:
        """Of the last record; None where the source does not tell."""
        ...

    def offsets(self) -> Sequence[int]: ...

    def size(self) -> int:
        """Bytes: of all values, or of the batches as they came where nothing is decoded."""
        ...

    def columns(self) -> Columns:
        """The records decoded; themselves, if they are.

        Raises:
            SourceStopped: They cannot be decoded.
        """
        ...


class Columns(Records, Protocol):
    """Records decoded: columns of the same length."""

    def keys(self) -> Sequence[bytes | None]: ...

    def values(self) -> Sequence[bytes | None]: ...

    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch, -1 for none."""
        ...

    def headers(self) -> Sequence[Headers | None]:
        """The headers of each record; asked a second time they cost nothing.

        Raises:
            UnreadableRecord: Those of a record cannot be read.
        """
        ...

    def before(self, index: int) -> Columns:
        """The records before that one, of which there is at least one."""
        ...


class UnreadableRecord(Exception):
    """A record of a chunk cannot be read.

    Args:
        index: Its place in the chunk.
        reason: Why not.
    """

    def __init__(self, index: int, reason: StopReason) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return render(self.reason)


@dataclass(slots=True)
class Chunk:
    """Records of one source partition; stages fill in where and how they go.

    Attributes:
        source: Where they come from.
        records: As the source made them, or decoded. A sink of the same transport knows the bytes behind them.
        target_topic: Where they go; empty until routed.
        target_partition: Where they go; None leaves each record to the producer's partitioner.
        keep_headers: Whether the source's headers go along.
        keep_timestamps: Whether the source's timestamps go along.
        rewritten: Whether a stage has made keys or values anew.
        fault: Why the records behind these are not in the chunk, though they came; None if none are missing.
    """

    source: TopicPartition
    records: Records
    target_topic: str = ""
    target_partition: int | None = None
    keep_headers: bool = True
    keep_timestamps: bool = True
    rewritten: bool = False
    fault: StopReason | None = None

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.records)

    @property
    def first_offset(self) -> int:
        """Source offset of the first record."""
        return self.records.first_offset

    @property
    def last_offset(self) -> int:
        """Source offset of the last record."""
        return self.records.last_offset

    @property
    def contiguous(self) -> bool:
        """Whether the source offsets have no gap."""
        return self.records.last_offset - self.records.first_offset + 1 == len(self.records)

    @property
    def unchanged(self) -> bool:
        """Whether no stage has asked for something that changes a record, or that a look into it has to decide."""
        kept = self.keep_headers and self.keep_timestamps and not self.rewritten and self.fault is None
        return kept and self.target_partition is not None

    def columns(self) -> Columns:
        """The records decoded; they stay so."""
        columns = self.records.columns()
        self.records = columns
        return columns

    def readable(self) -> tuple[Chunk | None, StopReason | None]:
        """What of the chunk can be written, decoded: all of it, or what lies before the first unreadable record.

        Returns:
            That, None if it is nothing; and why it ends there, None if nothing is missing.
        """
        if not self.count:
            return None, self.fault
        columns = self.columns()
        if not self.keep_headers:
            return self, self.fault
        try:
            columns.headers()
        except UnreadableRecord as fault:
            return replace(self, records=columns.before(fault.index)) if fault.index else None, fault.reason
        return self, self.fault

    def to_arrow(self) -> pa.RecordBatch:
        """The chunk as Arrow: topic, partition, offset, key, value, timestamp, headers (see `arrow_schema`)."""
        import pyarrow as pa

        n, decoded = self.count, self.columns()
        headers = [None if h is None else [{"key": key, "value": value} for key, value in h] for h in decoded.headers()]
        schema = arrow_schema()
        columns = [
            [self.source.topic] * n,
            [self.source.partition] * n,
            decoded.offsets(),
            decoded.keys(),
            decoded.values(),
            decoded.timestamps(),
            headers,
        ]
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Sent:
    """What is remembered of a chunk once it is queued: where it came from, not what is in it.

    A large transaction would otherwise hold all its records in memory until it is closed.

    Args:
        chunk: The chunk, routed.
    """

    __slots__ = ("_offsets", "count", "first_offset", "last_offset", "source", "target_topic")

    def __init__(self, chunk: Chunk) -> None:
        self.source = chunk.source
        self.target_topic = chunk.target_topic
        self.count = chunk.count
        self.first_offset, self.last_offset = chunk.first_offset, chunk.last_offset
        # Eight bytes an offset, and only where the source has gaps.
        self._offsets = None if chunk.contiguous else array("q", chunk.records.offsets())

    @property
    def contiguous(self) -> bool:
        """Whether the source offsets have no gap."""
        return self._offsets is None

    @property
    def offsets(self) -> Sequence[int]:
        """The source offsets."""
        return range(self.first_offset, self.last_offset + 1) if self._offsets is None else self._offsets


def arrow_schema() -> pa.Schema:
    """The Arrow schema of `Chunk.to_arrow`; `ARROW_DDL` is the same for Spark."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("timestamp", pa.int64()),
            ("headers", pa.list_(header)),
        ]
    )


ARROW_DDL = (
    "topic string, partition int, offset bigint, key binary, value binary, timestamp bigint, "
    "headers array<struct<key: string, value: binary>>"
)
