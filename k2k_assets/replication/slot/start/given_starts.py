"""Where partitions begin that were never copied, and whose pipeline file says a time or offsets.

Both are asked for anew by whoever finds a partition without a position, and need no note: the answer is the same as
before, but for a time that no record was as young as. What comes then is younger, and is what was asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
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
    starts = {topic: pipeline.start_of(topic) for topic in {tp.topic for tp in partitions}}
    given: dict[TopicPartition, int] = {}
    of_time: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        start = starts[tp.topic]
        if isinstance(start, int):
            of_time[start].append(tp)
        elif isinstance(start, dict) and tp.partition in start.get(tp.topic, {}):
            given[tp] = start[tp.topic][tp.partition]
    offline: dict[TopicPartition, str] = {}
    for at, of_those in of_time.items():
        found = source.led_offsets_at(of_those, at)
        given |= found.offsets
        offline |= found.offline
    return LedOffsets(given, offline)
