"""Where partitions begin that were never copied, and whose pipeline file says offsets, or a time that is not noted yet.

Offsets need no note. The offset of a time is noted by the driver when a topic is first seen
(`replication/driver/first_starts.py`), but for partitions that have no leader then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import PartitionPlan


def given_starts(pipeline: Pipeline, plans: Collection[PartitionPlan], source: Cluster) -> LedOffsets:
    """Where partitions without a position begin; those of which file and plan say nothing are left out.

    Args:
        pipeline: Says where.
        plans: Of existing partitions.
        source: Is asked for times.

    Raises:
        ClusterUnreachable: It does not answer.
    """
    starts = {topic: pipeline.start_of(topic) for topic in {plan.source.topic for plan in plans}}
    given: dict[TopicPartition, int] = {}
    of_time: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for plan in plans:
        tp, start = plan.source, starts[plan.source.topic]
        if isinstance(start, int) and plan.begins_at == END_UNKNOWN:
            of_time[start].append(tp)
        elif isinstance(start, dict) and tp.partition in start.get(tp.topic, {}):
            given[tp] = start[tp.topic][tp.partition]
    offline: dict[TopicPartition, str] = {}
    for at, of_those in of_time.items():
        found = source.led_offsets_at(of_those, at)
        given |= found.offsets
        offline |= found.offline
    return LedOffsets(given, offline)
