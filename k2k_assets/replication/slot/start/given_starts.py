"""Where partitions begin that were never copied, and whose pipeline file says a time or offsets.

Both are asked for anew by whoever finds a partition without a position, and need no note: the answer is the same as
before, but for a time that no record was as young as. What comes then is younger, and is what was asked for.
"""

from __future__ import annotations

from collections.abc import Collection

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.answers import NoLeader
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import LedOffsets
from k2k_assets.pipeline import Pipeline


def given_starts(pipeline: Pipeline, partitions: Collection[TopicPartition], source: Cluster) -> LedOffsets:
    """Where partitions without a position begin; those of which the file says nothing are left out.

    Args:
        pipeline: Says where.
        partitions: Existing partitions.
        source: Is asked for times.

    Raises:
        ClusterUnreachable: It does not answer.
    """
    start = pipeline.selection.start
    if isinstance(start, dict):
        given = {tp: start[tp.topic][tp.partition] for tp in partitions if tp.partition in start.get(tp.topic, {})}
        return LedOffsets(given, {})
    if not isinstance(start, int) or not partitions:
        return LedOffsets({}, {})
    offline: dict[TopicPartition, str] = {}
    try:
        return LedOffsets(source.offsets_at(partitions, start, offline, 0), offline)
    except NoLeader as error:
        return LedOffsets({}, offline | error.reasons)
