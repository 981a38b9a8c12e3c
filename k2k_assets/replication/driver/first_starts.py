"""Start positions for a topic that is copied for the first time with `latest`, or from a time on (`start`).

Slots commit the start positions of their partitions one after the other. If the driver dies in between, some partitions
have a position and others have none; the latter look like partitions that were added to the topic since, and these
start at their beginning. So the driver notes the start positions of all partitions in the assignment topic before any
slot starts, and removes the note when all partitions have a position. With `latest`, a topic that appeared while an
instance ran begins at its beginning, which is noted too. A partition that has no leader at that time begins where a
slot that first sees it finds the end of its log, or the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from k2k_assets.control.assignment_records import start_key, start_value
from k2k_assets.control.assignment_writing import write_records
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import END_UNKNOWN, ends_of_each_topic, times_of_each_topic
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.planning import ClusterSnapshot

Noted = Mapping[str, tuple[int, ...]]
"""Start position of each partition, by source topic id."""


def hold_first_starts(
    pipeline: Pipeline,
    snapshot: ClusterSnapshot,
    source: Cluster,
    noted: Noted,
    committed: Collection[TopicPartition],
    appeared: Collection[str],
    all_is_known: bool = True,
) -> dict[TopicPartition, int]:
    """Returns start positions of partitions without a position, and notes those of new topics.

    Args:
        pipeline: Says where to start.
        snapshot: The present clusters.
        source: Is asked for the ends, and for times.
        noted: The start positions that were noted before.
        committed: Partitions that have a position.
        appeared: Topics that appeared on the source while this instance ran.
        all_is_known: Whether a partition that is not in `committed` certainly has no position. If not (at-least-once
            only), partitions that seem new are copied from their beginning, because any part may have been copied.

    Returns:
        Start positions; `END_UNKNOWN` for a partition whose slot finds the end of its log, or the time, when it first
        sees it.
    """
    dated = {topic for topic in snapshot.topics if _depends_on_the_moment(pipeline, topic)}
    if not dated:
        return {}
    ids = {topic: description.topic_id for topic, description in snapshot.descriptions.items()}
    known = {tp.topic for tp in committed}
    # While no partition has a position, the file may still be given another time.
    unsettled = {topic for topic in dated if ids[topic] not in noted or pipeline.start_time_of(topic) is not None}
    new = [topic for topic in unsettled if all_is_known and topic not in known]
    partitions = [tp for tp in snapshot.partitions if tp.topic in new]
    # A topic that appears later has its end behind records that nobody has seen; a time counts for it as for others.
    whole = {topic for topic in appeared if pipeline.start_time_of(topic) is None}
    starts, without_start = ends_of_each_topic(source, [tp for tp in partitions if tp.topic in whole], "earliest")
    given, without_given = _given(pipeline, [tp for tp in partitions if tp.topic not in whole], source)
    first = starts | given | dict.fromkeys(without_start, 0) | dict.fromkeys(without_given, END_UNKNOWN)
    fresh = {
        topic: tuple(first[TopicPartition(topic, p)] for p in range(snapshot.topics[topic][1]))
        for topic in new
        if all(TopicPartition(topic, p) in first for p in range(snapshot.topics[topic][1]))
    }
    held = {topic: noted[ids[topic]] for topic in dated - fresh.keys() if ids[topic] in noted}
    begun = [topic for topic, at in held.items() if all(TopicPartition(topic, p) in committed for p in range(len(at)))]
    records = [(start_key(pipeline.group, ids[topic]), start_value(topic, at)) for topic, at in fresh.items()]
    write_records(pipeline, [*records, *((start_key(pipeline.group, ids[topic]), None) for topic in begun)])
    return {
        TopicPartition(topic, p): position
        for topic, positions in (held | fresh).items()
        for p, position in enumerate(positions)
    }


def _depends_on_the_moment(pipeline: Pipeline, topic: str) -> bool:
    """Whether the start of a partition is another one tomorrow, or for a partition that is added by then."""
    return pipeline.start_from(topic) == "latest" or pipeline.start_time_of(topic) is not None


def _given(pipeline: Pipeline, partitions: Collection[TopicPartition], source: Cluster) -> LedOffsets:
    """The present ends of partitions, or their first records that are not older than the time of their `start`."""
    of_time: defaultdict[int | None, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        of_time[pipeline.start_time_of(tp.topic)].append(tp)
    offsets: dict[TopicPartition, int] = {}
    offline: dict[TopicPartition, str] = {}
    for at, of_those in of_time.items():
        if at is None:
            found = ends_of_each_topic(source, of_those, pipeline.readable_end)
        else:
            found = times_of_each_topic(source, of_those, at)
        offsets |= found.offsets
        offline |= found.offline
    return LedOffsets(offsets, offline)
