"""Interprets errors of the source's client: records deleted, the log truncated or diverged, a batch unreadable."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from confluent_kafka import KafkaError

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import OffsetOutOfRange, RecordsDeleted, SourceDiverged, SourceTruncated
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.messages import Message
from k2k_assets.transport.errors import Restart, SourceStopped

log = logging.getLogger("k2k.transport")

GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
"""Error codes for a topic or a partition that does not exist."""

_OUT_OF_RANGE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}
_CORRUPT = {
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError.INVALID_MSG,
    KafkaError._UNDERFLOW,
}
# librdkafka's text: "Partition log truncation detected at offset 100 (leader epoch 0): broker end offset is 40 ...".
_TRUNCATION = (r"detected at (?:offset )?(\d+)", r"end offset is (\d+)")


def raise_fault(
    error: KafkaError, message: Message, log_ends: Callable[[TopicPartition], tuple[int, int] | None]
) -> None:
    """Raises the error of the copy loop for an error event of librdkafka.

    librdkafka goes on behind a batch that it cannot read, which would lose records silently. So only errors that are
    known to be about connections are left to it.

    Args:
        error: The error of the event.
        message: The event.
        log_ends: Returns log start and end of a partition; None if the source does not answer.

    Raises:
        SourceStopped: The partition cannot be read any further: deleted, forbidden, truncated, diverged, unreadable.
        Restart: The consumer has to be made anew.
    """
    topic, code = message.topic(), error.code()
    if topic is not None and code in GONE | _OUT_OF_RANGE | _CORRUPT | {KafkaError.TOPIC_AUTHORIZATION_FAILED}:
        partition = TopicPartition(topic, message.partition())
        raise SourceStopped(partition, _reason(error, message, partition, log_ends))
    if topic is not None or not clients.is_unreachable(error):
        raise Restart(f"source consumer: {error.str()}")
    log.warning("source consumer: %s (librdkafka goes on by itself)", error.str())


def _reason(
    error: KafkaError,
    message: Message,
    tp: TopicPartition,
    log_ends: Callable[[TopicPartition], tuple[int, int] | None],
) -> StopReason:
    code, words = error.code(), error.str()
    if code in GONE:
        return SourceDeleted(tp.topic)
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return SourceReadDenied(tp.topic, words)
    at = message.offset()
    offset = -1 if at is None else at  # None, although its type says int, if the error is not about one offset
    return BatchUnreadable(tp, offset, words) if code in _CORRUPT else _out_of_range(tp, offset, words, log_ends)


def _out_of_range(
    tp: TopicPartition, offset: int, words: str, log_ends: Callable[[TopicPartition], tuple[int, int] | None]
) -> StopReason:
    """The stop reason for an offset out of range; a truncation error tells where the epoch ends now (KIP-320)."""
    if "truncation" in words:
        position, end = (re.search(pattern, words) for pattern in _TRUNCATION)
        at = int(position[1]) if position else offset
        return SourceDiverged(tp, at, int(end[1]) if end else None, words)
    start, end_of_log = log_ends(tp) or (-1, -1)
    if 0 <= offset < start:
        return RecordsDeleted(tp, offset, start)
    if 0 <= end_of_log < offset:
        return SourceTruncated(tp, offset, end_of_log)
    return OffsetOutOfRange(tp, offset, words)
