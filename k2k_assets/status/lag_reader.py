"""Reads the lag of partitions from the source."""

from __future__ import annotations

import time
from collections.abc import Mapping

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import ends_of_each_topic
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.lag import PartitionLag, lags
from k2k_assets.status.waiting_records import WaitingRecords


def read_lags(
    pipeline: Pipeline,
    source: Cluster,
    positions: Mapping[TopicPartition, int | None],
    records: WaitingRecords | None = None,
    longest: Mapping[TopicPartition, float] | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """Reads the lag of each partition, in offsets and in seconds.

    It costs two requests for offsets to each broker of the source, and one fetch of 128 kB for each lagging partition
    (at most 500); it takes at most five seconds beyond the requests.

    Args:
        pipeline: Says how the source is read, and where a partition without a position starts.
        source: The source cluster.
        positions: Positions by the commit log; None for a partition without one.
        records: A reader to reuse, for callers that ask repeatedly.
        longest: As of `lags`.

    Raises:
        ClusterUnreachable: The source does not answer.
    """
    if not positions:
        return {}
    there = source.describe_async({tp.topic for tp in positions}, partly=True)()
    existing = [tp for tp in positions if tp.topic in there and tp.partition < there[tp.topic].partitions]
    ends = ends_of_each_topic(source, existing, pipeline.readable_end, patience=0).offsets
    behind = [tp for tp, end in ends.items() if (positions[tp] or 0) < end]
    starts = source.led_offsets(behind, "earliest").offsets
    begun = {tp: _position(pipeline, tp, position, ends, starts) for tp, position in positions.items()}
    waiting = {
        tp: (max(position, starts[tp]), ends[tp])
        for tp, position in begun.items()
        if position is not None and tp in starts and position < ends[tp]
    }
    if records is not None:
        oldest = records.oldest(waiting)
    else:
        with WaitingRecords(pipeline) as records:
            oldest = records.oldest(waiting)
    return lags(begun, ends, oldest, int(time.time() * 1000), longest)


def _position(
    pipeline: Pipeline,
    tp: TopicPartition,
    position: int | None,
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
) -> int | None:
    """The position; for a partition that was never copied, the offset at which copying would begin."""
    if position is not None or pipeline.start_from(tp.topic) != "earliest":
        return position
    return starts.get(tp, ends.get(tp))
