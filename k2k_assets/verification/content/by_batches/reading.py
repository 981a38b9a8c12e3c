"""Reads the committed batches of one stretch of a partition, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import Polled, Position
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.columns import BatchRecords
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.wire.settings import settings_of
from k2k_assets.verification.content.by_batches.proof import Doubt

_LIMIT = 10_000
_STALL_SECONDS = 5.0
_POLL_SECONDS = 0.2
# One partition is read at a time: each answer should be worth its way.
_FETCH_BYTES = 4 * 1024 * 1024
_BUFFER_BYTES = 4 * _FETCH_BYTES


class TimeIsUp(Exception):
    """The time limit is reached."""


def reading_settings(properties: Mapping[str, object]) -> dict[str, object]:
    """Consumer settings for reading stretches by batches.

    Args:
        properties: The user's, librdkafka names.
    """
    known = {"fetch.message.max.bytes", "max.partition.fetch.bytes"} & properties.keys()
    more = {} if known else {"fetch.message.max.bytes": _FETCH_BYTES}
    return {**properties, **more, "isolation.level": "read_committed"}


def reasons_against(properties: Mapping[str, object]) -> tuple[str, ...]:
    """Why a cluster cannot be read by batches with these settings; empty if it may work."""
    try:
        settings_of(reading_settings(properties))
    except NotByBatches as found:
        return found.reasons
    return ()


class ReadsBatches(Protocol):
    """What is needed of `BatchSource`."""

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Reads these partitions from these positions on, and no others."""
        ...

    def poll(self, limit: int, timeout: float) -> Polled:
        """Returns batches that have arrived."""
        ...

    def topic_id(self, tp: TopicPartition) -> str:
        """The topic id under which an assigned partition is read."""
        ...

    def close(self) -> None:
        """Closes all connections."""
        ...


def batch_source(properties: Mapping[str, object]) -> ReadsBatches:
    """A source for `StretchReader`; `properties` as of `reading_settings`.

    Raises:
        NotByBatches: The settings say something that is not understood.
    """
    return BatchSource(reading_settings(properties), _BUFFER_BYTES)


class StretchReader:
    """The committed batches of a stretch, in order.

    Args:
        source: Reads nothing else meanwhile.
        tp: The partition.
        topic_id: The id that its topic must have.
        start: Its first offset.
        end: The offset after it, which is not above the last stable offset.
        until: The time limit, monotonic seconds.

    Attributes:
        bytes_: Bytes of the batches that were handed out.

    Raises:
        ClusterUnreachable: No broker answers.
    """

    def __init__(
        self, source: ReadsBatches, tp: TopicPartition, topic_id: str, start: int, end: int, until: float
    ) -> None:
        self.bytes_ = 0
        self._source, self._tp, self._topic_id, self._end, self._until = source, tp, topic_id, end, until
        self._is_at_end = False
        source.assign({tp: Position(start)})

    def more(self) -> Sequence[RecordBatch] | None:
        """The next batches; None behind the end of the stretch.

        Raises:
            TimeIsUp: The time limit is reached.
            Doubt: Nothing comes, or the partition is another one, or shorter.
        """
        stalled = time.monotonic() + _STALL_SECONDS
        while not self._is_at_end:
            if time.monotonic() >= self._until:
                raise TimeIsUp
            batches = self._taken(self._source.poll(_LIMIT, _POLL_SECONDS))
            if batches:
                return batches
            if time.monotonic() >= stalled:
                raise Doubt(f"no batch of {self._tp} arrives")
        return None

    def _taken(self, polled: Polled) -> list[RecordBatch]:
        batches = []
        for chunk in polled.chunks:
            records = chunk.records
            assert isinstance(records, BatchRecords)
            batches += [arrived.batch for arrived in records.arrived]
        self._note_end(batches, polled.ends.get(self._tp))
        self.bytes_ += sum(batch.size for batch in batches)
        return batches

    def _note_end(self, batches: Sequence[RecordBatch], seen_end: int | None) -> None:
        if (batches or seen_end is not None) and _plain(self._source.topic_id(self._tp)) != _plain(self._topic_id):
            raise Doubt("the topic was created anew")
        if seen_end is not None and seen_end < self._end:
            raise Doubt("the partition ends earlier now")
        self._is_at_end = seen_end is not None or (bool(batches) and batches[-1].end >= self._end)


def _plain(topic_id: str) -> str:
    """A topic id as Kafka writes it; librdkafka writes some of them with other letters."""
    return topic_id.rstrip("=").translate(str.maketrans("+/", "-_"))
