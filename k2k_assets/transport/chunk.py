"""A chunk: records of one source partition on their way to one target topic.

The copy loop needs the offsets, the number and the size of the records. A transport may pass them on as the broker sent
them, undecoded: they are decoded into columns only on demand.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeaders
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.transport.dropped import DroppedRecords
from k2k_assets.transport.headers import Headers, of_name, with_added


class Records(Protocol):
    """Records in source order, decoded or not, with the properties that need no decoding."""

    def __len__(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch of the last record; None if it is not known."""
        ...

    @property
    def first_leader_epoch(self) -> int | None:
        """Leader epoch of the first record; None if it is not known. If it is that of the last, all have it."""
        ...

    @property
    def first_timestamp(self) -> int:
        """Timestamp of the first record, in milliseconds since the epoch; -1 for none.

        Undecoded it is as the header of the first batch tells it: compaction may have removed the record that had it.
        """
        ...

    def offsets(self) -> Sequence[int]: ...

    def size(self) -> int:
        """Bytes of all values; for undecoded records, bytes of their batches."""
        ...

    def columns(self) -> Columns:
        """The decoded records.

        Raises:
            SourceStopped: The records cannot be decoded.
            UnreadableRest: They can be decoded up to one of them.
            UndecodedRest: They are decoded up to one of them.
        """
        ...


class Columns(Records, Protocol):
    """Decoded records: columns of the same length."""

    def keys(self) -> Sequence[bytes | None]: ...

    def values(self) -> Sequence[bytes | None]: ...

    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch, -1 for none."""
        ...

    def headers(self) -> Sequence[Headers | None]:
        """The headers of each record; the first call keeps them for later calls.

        Raises:
            UnreadableRecord: The headers of a record cannot be read.
        """
        ...

    def before(self, index: int) -> Columns:
        """The records before the one at `index`; none if that is the first."""
        ...

    def select(self, kept: Sequence[bool]) -> Columns:
        """The records that stay, maybe none.

        Args:
            kept: Whether a record stays, for each of them.
        """
        ...


NewStart = Callable[[bytes | None], bytes | None]
"""Tells what the first bytes of a key or value, or all of a shorter one, become; the number of bytes stays."""


@runtime_checkable
class WithPlaces(Protocol):
    """Records that can be changed where they lie, undecoded."""

    def with_prefixes(self, size: int, new: Mapping[Facet, NewStart]) -> Records | None:
        """The records with other first bytes of keys and values; None if they have to be decoded.

        That is where they are damaged, and where all of them together take too much memory.

        Args:
            size: How many bytes are replaced at most.
            new: Tells those of keys, and of values. What it raises goes to the caller.
        """
        ...


class UnreadableRecord(Exception):
    """A record of a chunk cannot be read.

    Args:
        index: Index of the record in the chunk.
        reason: The stop reason for its partition.
    """

    def __init__(self, index: int, reason: StopReason) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return render(self.reason)


class UndecodedRest(Exception):
    """The records of a chunk from one of them on are not decoded yet: together they might take too much memory.

    Args:
        before: The decoded records before it; at least one.
        rest: It, and those behind it.
    """

    def __init__(self, before: Columns, rest: Records) -> None:
        super().__init__(f"{len(rest)} records")
        self.before, self.rest = before, rest


class UnreadableRest(Exception):
    """The records of a chunk cannot be decoded from one of them on.

    Args:
        before: The decoded records before it; at least one.
        reason: The stop reason for their partition.
    """

    def __init__(self, before: Columns, reason: StopReason) -> None:
        super().__init__(reason)
        self.before = before
        self.reason = reason

    def __str__(self) -> str:
        return render(self.reason)


@dataclass(slots=True)
class Chunk:
    """Records of one source partition; the stages set how and to which target they are written.

    Attributes:
        source: Source partition.
        records: The records as the source made them, or decoded. A sink of the same transport can use their raw bytes.
        target_topic: Target topic; empty until the routing stage sets it.
        target_partition: Target partition; None leaves each record to the producer's partitioner.
        keep_headers: Whether the source's headers are copied.
        keep_timestamps: Whether the source's timestamps are copied.
        fault: Why the records behind these were left out of the chunk; None if none were.
        awaited: What does not answer, so that the records behind these were left out for now; None if none were.
        rest: The records behind these, which come as a chunk of their own; None if there are none.
        carried: Name of headers that are copied even if the others are not; empty if there is none.
        added: Headers that each record gets behind its own. Each stage puts its headers at the end.
        dropped: The records that stages have left out; None if there are none. Then `records` may be empty.
        aside: Records that are written with the chunk, and are no copies: each has its topic, headers and all else.
    """

    source: TopicPartition
    records: Records
    target_topic: str = ""
    target_partition: int | None = None
    keep_headers: bool = True
    keep_timestamps: bool = True
    fault: StopReason | None = None
    awaited: ClusterUnreachable | None = None
    rest: Records | None = None
    carried: str = ""
    added: AddedHeaders = ()
    dropped: DroppedRecords | None = None
    aside: tuple[Chunk, ...] = ()

    @property
    def count(self) -> int:
        """Number of records."""
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
    def end(self) -> int:
        """Source offset after the last record, also if it was dropped."""
        return self.last_offset + 1 if self.dropped is None else self.dropped.end

    @property
    def contiguous(self) -> bool:
        """Whether the source offsets have no gap."""
        return self.records.last_offset - self.records.first_offset + 1 == len(self.records)

    def columns(self) -> Columns:
        """Decodes the records, once; those from one on that cannot be decoded, or not beside these, are taken out.

        Raises:
            SourceStopped: The first one cannot be decoded.
        """
        try:
            columns = self.records.columns()
        except UnreadableRest as found:
            columns, self.fault = found.before, found.reason
        except UndecodedRest as found:
            columns, self.rest = found.before, found.rest
        self.records = columns
        return columns

    def drop(self, kept: Sequence[bool], rule: str) -> None:
        """Leaves records out on purpose.

        Args:
            kept: Whether a record stays, for each of them.
            rule: Name of the rule by which the others are left out.
        """
        if all(kept):
            return
        columns = self.columns()
        if self.dropped is None:
            self.dropped = DroppedRecords(columns.offsets(), columns.first_leader_epoch, columns.leader_epoch)
        self.dropped.add(kept, rule)
        self.records = columns.select(kept)

    def cut(self, index: int, fault: StopReason | None, awaited: ClusterUnreachable | None = None) -> None:
        """Takes a record and all behind it out of the chunk, because it cannot be copied.

        Args:
            index: Index of the record.
            fault: The stop reason for its partition; None: it can be copied later.
            awaited: What has to answer before.
        """
        columns = self.columns()
        end = columns.offsets()[index]
        if self.dropped is not None:
            self.dropped = self.dropped.below(end)
        self.aside = tuple(below for chunk in self.aside if (below := chunk._below(end)))
        self.records, self.fault, self.awaited, self.rest = columns.before(index), fault, awaited, None

    def _below(self, offset: int) -> Chunk | None:
        """The records below a source offset; None if there are none."""
        count = bisect_left(self.records.offsets(), offset)
        return replace(self, records=self.columns().before(count)) if count else None

    def only(self, kept: Sequence[bool]) -> Chunk:
        """A chunk of some of its records, with all else as it is.

        Args:
            kept: Whether a record is in it, for each of them; at least one is.
        """
        return replace(self, records=self.columns().select(kept))

    def readable(self) -> tuple[Chunk | None, StopReason | None]:
        """Decodes the chunk up to the first unreadable record.

        Returns:
            The chunk with the readable records, None if there are none and none were dropped; and the stop reason of
            the first unreadable record, None if all are readable.
        """
        if self.count:
            columns = self.columns()
            try:
                if self.keep_headers:
                    columns.headers()
            except UnreadableRecord as found:
                self.cut(found.index, found.reason)
        return self.unless_empty(), self.fault

    def unless_empty(self) -> Chunk | None:
        """The chunk; None if it has no records, and none were dropped."""
        return self if self.count or self.dropped is not None else None

    def written_headers(self) -> Sequence[Headers | None] | None:
        """The headers with which each record is written; None if no record has any."""
        columns = self.columns()
        own = columns.headers() if self.keep_headers else None
        if self.carried and not self.keep_headers:
            own = of_name(columns.headers(), self.carried)
        return with_added(own, self.added, self.source, columns.offsets()) if self.added else own


class Sent:
    """The source offsets of a chunk that was queued, without its records.

    If the transaction kept the chunks, it would hold all its records in memory until it is closed.

    Args:
        chunk: The chunk, routed.

    Attributes:
        batches: In so many batches it was sent, where the sink knows that: records of others may come between two.
    """

    __slots__ = ("_offsets", "batches", "count", "first_offset", "last_offset", "source", "target_topic")

    def __init__(self, chunk: Chunk) -> None:
        self.source = chunk.source
        self.target_topic = chunk.target_topic
        self.count = chunk.count
        self.batches = 1
        self.first_offset, self.last_offset = chunk.first_offset, chunk.last_offset
        # Eight bytes for each offset, and only if the source has gaps.
        self._offsets = None if chunk.contiguous else array("q", chunk.records.offsets())

    @property
    def contiguous(self) -> bool:
        """Whether the source offsets have no gap."""
        return self._offsets is None

    @property
    def offsets(self) -> Sequence[int]:
        """The source offset of each record; without gaps they are a `range`, which takes no memory."""
        return range(self.first_offset, self.last_offset + 1) if self._offsets is None else self._offsets
