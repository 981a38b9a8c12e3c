"""Start positions for a topic that is copied for the first time with `auto.offset.reset: latest`.

Slots commit the start positions of their partitions one after the other. If the driver dies in between, some partitions
have a position and others have none; the latter look like partitions that were added to the topic since, and these
start at their beginning. So the driver notes the start positions of all partitions in the assignment topic before any
slot starts, and removes the note when all partitions have a position. A topic that appeared while an instance ran
begins at its beginning, which is noted too. A partition that has no leader at that time begins at the end of its log
when a slot first sees it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from k2k_assets.control.assignment_records import start_key, start_value
from k2k_assets.control.assignment_writing import write_records
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import END_UNKNOWN, ends_of_each_topic
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.planning import ClusterSnapshot

Noted = Mapping[str, tuple[int, ...]]
"""Start position of each partition, by source topic id."""


def hold_latest_starts(
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
        source: Is asked for the ends.
        noted: The start positions that were noted before.
        committed: Partitions that have a position.
        appeared: Topics that appeared on the source while this instance ran.
        all_is_known: Whether a partition that is not in `committed` certainly has no position. If not (at-least-once
            only), partitions that seem new are copied from their beginning, because any part may have been copied.

    Returns:
        Start positions; `END_UNKNOWN` for a partition that begins at the end of its log when a slot first sees it.
    """
    latest = {topic for topic in snapshot.topics if pipeline.start_from(topic) == "latest"}
    if not latest:
        return {}
    ids = {topic: description.topic_id for topic, description in snapshot.descriptions.items()}
    known = {tp.topic for tp in committed}
    new = [topic for topic in latest if all_is_known and topic not in known and ids[topic] not in noted]
    partitions = [tp for tp in snapshot.partitions if tp.topic in new]
    at_beginning = [tp for tp in partitions if tp.topic in appeared]
    at_end = [tp for tp in partitions if tp.topic not in appeared]
    starts, without_start = ends_of_each_topic(source, at_beginning, "earliest")
    ends, without_end = ends_of_each_topic(source, at_end, pipeline.readable_end)
    first = starts | ends | dict.fromkeys(without_start, 0) | dict.fromkeys(without_end, END_UNKNOWN)
    fresh = {
        topic: tuple(first[TopicPartition(topic, p)] for p in range(snapshot.topics[topic][1]))
        for topic in new
        if all(TopicPartition(topic, p) in first for p in range(snapshot.topics[topic][1]))
    }
    held = {topic: noted[ids[topic]] for topic in latest if ids[topic] in noted}
    begun = [topic for topic, at in held.items() if all(TopicPartition(topic, p) in committed for p in range(len(at)))]
    records = [(start_key(pipeline.group, ids[topic]), start_value(topic, at)) for topic, at in fresh.items()]
    write_records(pipeline, [*records, *((start_key(pipeline.group, ids[topic]), None) for topic in begun)])
    return {
        TopicPartition(topic, p): position
        for topic, positions in (held | fresh).items()
        for p, position in enumerate(positions)
    }
