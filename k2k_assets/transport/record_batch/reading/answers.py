"""What a leader's answer means for a partition: batches, an end, another leader, or a stop."""

from __future__ import annotations

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import OffsetOutOfRange, RecordsDeleted, SourceDiverged, SourceTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, arrived
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable, error_text
from k2k_assets.transport.record_batch.reading.leadership import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from k2k_assets.transport.record_batch.reading.partitions import ReadPartition, SeenEnd, size_of
from k2k_assets.transport.record_batch.reading.walk import Walked, walk
from k2k_assets.transport.record_batch.wire.fetch_messages import EpochEnd, FetchedPartition
from k2k_assets.transport.record_batch.wire.traffic import NOTHING, QueueSize

OFFSET_OUT_OF_RANGE = 1
_CORRUPT = {2: "the broker finds it corrupt", 76: "the broker says that its compression is not supported"}
# The broker does not lead the partition, or is not ready for it; the metadata tell what else may be the matter.
_ELSEWHERE = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,
        5,  # leader not available
        6,  # not leader or follower
        7,  # request timed out
        9,  # replica not available
        56,  # storage error
        74,  # fenced leader epoch
        75,  # unknown leader epoch
        78,  # offset not available
        100,  # unknown topic id
        103,  # inconsistent topic id
    }
)


def take(partition: ReadPartition, fetched: FetchedPartition, most_joined: int = 0) -> QueueSize:
    """Queues what was read; every error but `OFFSET_OUT_OF_RANGE`, which needs a further question.

    Args:
        partition: The partition.
        fetched: The answer to the question for its position.
        most_joined: Small batches with so many records at most are handed out as one; 0: none are.

    Returns:
        The size of what was queued.

    Raises:
        Restart: An error that is not known here.
    """
    if fetched.error in _ELSEWHERE:
        partition.seek_leader()
        return NOTHING
    if fetched.error:
        partition.stop(_reason(partition, fetched.error))
        return NOTHING
    if fetched.diverging is not None:
        _diverge(partition, fetched.diverging)
        return NOTHING
    stable = fetched.stable if fetched.stable >= 0 else fetched.high_watermark
    walked = walk(fetched.records, partition.position, stable, fetched.aborted, most_joined)
    return _queue(partition, walked, stable)


def _diverge(partition: ReadPartition, log: EpochEnd) -> None:
    """Stops a partition whose log was cut off below the position; else takes over the epoch that the log has there.

    The epoch of the question need not be that of a record: where none was copied, it is the one that the log had when
    copying began, and a leader forgets epochs in which nothing was written. After a cut the next epoch begins at it, so
    that all earlier ones end below the position. Each answer names an earlier epoch than the question: they end.
    """
    if log.end < partition.position:
        partition.stop(SourceDiverged(partition.tp, partition.position, log.end))
    elif log.epoch < partition.epoch:
        partition.epoch = log.epoch
        partition.queue.append(Position(partition.position, log.epoch))
    else:
        asked = f"{partition.tp}: asked for {partition.position}, read up to there under leader epoch {partition.epoch}"
        partition.fail(NotByBatches([f"{asked}, the leader says that epoch {log.epoch} ends at {log.end}"]))


def _queue(partition: ReadPartition, walked: Walked, stable: int) -> QueueSize:
    position, fault = partition.position, walked.fault
    wanted: list[ArrivedBatch] = []
    try:
        for batch in walked.batches:
            found = arrived(batch, position)
            if found is not None:
                wanted.append(found)
    except Unreadable as unreadable:
        fault = unreadable
    partition.queue += wanted
    size = size_of(wanted)
    if isinstance(fault, Unreadable):
        at = fault.offset if fault.offset >= 0 else walked.position
        partition.stop(BatchUnreadable(partition.tp, at, fault.words))
        return size
    partition.position, partition.stable = walked.position, stable
    if walked.last_epoch >= 0:
        partition.epoch = walked.last_epoch
    if fault is not None:
        partition.fail(fault)
    elif walked.position >= stable and partition.told_end != walked.position:
        partition.told_end = walked.position
        partition.queue.append(SeenEnd(walked.position))
    return size


def _reason(partition: ReadPartition, error: int) -> StopReason:
    if error == TOPIC_AUTHORIZATION_FAILED:
        return SourceReadDenied(partition.tp.topic, "the broker does not allow it to be read")
    if error in _CORRUPT:
        return BatchUnreadable(partition.tp, partition.position, _CORRUPT[error])
    raise Restart(f"source: {partition.tp}: the broker answers a fetch from {partition.position}: {error_text(error)}")


def take_out_of_range(partition: ReadPartition, log: tuple[int, int] | None) -> None:
    """Stops a partition whose position the broker does not have, unless only markers are gone.

    Args:
        partition: The partition.
        log: Where its log begins and ends; None if the broker does not tell.
    """
    if log is None or not partition.pass_deleted(log[0]):
        partition.stop(_out_of_range(partition.tp, partition.position, log))


def _out_of_range(tp: TopicPartition, position: int, log: tuple[int, int] | None) -> StopReason:
    if log is not None and position < log[0]:
        return RecordsDeleted(tp, position, log[0])
    if log is not None and position > log[1]:
        return SourceTruncated(tp, position, log[1])
    return OffsetOutOfRange(tp, position, "the broker says that it is out of range")
