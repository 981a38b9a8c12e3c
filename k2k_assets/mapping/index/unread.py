"""Finds the part of the mapping topic that an index has not read yet, and the part that is lost to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.index.manifest import IndexIdentity, IndexUnusable, Lost, NotedPosition
from k2k_assets.pipeline import Pipeline

# Longest wait for open transactions, longer than any of ours: then the mapping records of all positions are readable.
STABLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Unread:
    """The part of the mapping topic that a build has to read.

    Attributes:
        ranges: Offset ranges of the mapping topic; empty ones are left out.
        offsets: Next offset to read after this build, by partition of the mapping topic.
        positions: Committed positions; their mapping records lie below `offsets`.
        source_cluster: Source cluster id.
        target_cluster: Target cluster id.
        mapping_topic_id: Topic id of the mapping topic.
        lost: Records that retention deleted before they were read, including those that earlier builds noted.
        earlier_topics: Ids of former mapping topics of that name that the index has read.
    """

    ranges: list[OffsetRange]
    offsets: dict[int, int]
    positions: list[NotedPosition]
    source_cluster: str
    target_cluster: str
    mapping_topic_id: str
    lost: list[Lost] = field(default_factory=list)
    earlier_topics: list[str] = field(default_factory=list)


def unread(pipeline: Pipeline, source: Cluster, target: Cluster, before: IndexIdentity | None) -> Unread:
    """Compares the manifest with the mapping topic.

    It reads the commit log before it takes the topic's ends, and waits until the ends are stable. So the index must
    cover all committed positions afterwards; if it does not, mapping records are missing.

    Raises:
        IndexUnusable: The index belongs to another pipeline or cluster, or the mapping topic was cut off.
        Refused: The mapping topic does not exist.
    """
    topic = pipeline.offset_mapping.topic
    ids = source.cluster_id(), target.cluster_id()
    description = target.describe([topic]).get(topic)
    if description is None:
        raise Refused(f"the mapping topic '{topic}' does not exist on the {target}: copy something first")
    if before:
        check_identity(pipeline, before, ids[1])
    positions = _positions(pipeline, target, ids[0])
    partitions = [TopicPartition(topic, p) for p in range(description.partitions)]
    starts = {tp.partition: start for tp, start in target.offsets(partitions, "earliest").items()}
    ends = _stable_ends(target, partitions)
    return compared(topic, description.topic_id, starts, ends, positions, ids, before)


def compared(
    topic: str,
    topic_id: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    positions: list[NotedPosition],
    clusters: tuple[str, str],
    before: IndexIdentity | None,
) -> Unread:
    """Compares an index with the mapping topic. Pure.

    Args:
        topic: The mapping topic.
        topic_id: Its id.
        starts: Log start of each of its partitions.
        ends: Last stable offset of each of its partitions.
        positions: Committed positions, see `Unread`.
        clusters: Ids of source and target.
        before: Identity of the index; None: read everything.

    Raises:
        IndexUnusable: The mapping topic was cut off.
    """
    # A topic that was created anew counts its offsets from zero; the records of the former one are gone.
    known: Mapping[int, int] = {}
    earlier = list(before.earlier_topics) if before else []
    if before and before.mapping_topic_id == topic_id:
        known = before.offsets
    elif before:
        earlier.append(before.mapping_topic_id)
    ranges, lost = [], list(before.lost) if before else []
    for p, end in ends.items():
        start = known.get(p, 0)
        if start > end:
            raise IndexUnusable(
                f"the index has read {topic}-{p} up to {start}, but it ends at {end}: it was cut off. "
                "Delete the index directory to build it from what is there."
            )
        if starts[p] > start:
            lost.append(Lost(partition=p, start=start, end=starts[p], before_first_read=p not in known))
        if end > max(start, starts[p]):
            ranges.append(OffsetRange(topic, p, max(start, starts[p]), end))
    return Unread(ranges, dict(ends), positions, *clusters, topic_id, lost, earlier)


def missing_from(new: Unread, before: IndexIdentity) -> str | None:
    """Text on the records of an index that a build from the start would not find any more; None if it finds all.

    Args:
        new: The part of the mapping topic that a build from the start would read.
        before: Identity of the index.
    """
    if before.earlier_topics or before.mapping_topic_id != new.mapping_topic_id:
        return "the mapping topic was deleted and created anew since"
    first_read = {lost.partition: lost.end for lost in before.lost if lost.before_first_read}
    for lost in new.lost:
        if lost.partition in before.offsets and lost.end > first_read.get(lost.partition, 0):
            return f"partition {lost.partition} of the mapping topic begins at {lost.end} now"
    return None


def _stable_ends(target: Cluster, partitions: list[TopicPartition]) -> dict[int, int]:
    wanted = target.offsets(partitions, "latest")
    stable: dict[TopicPartition, int] = {}

    def reached() -> bool:
        stable.update(target.offsets(partitions, "stable"))
        return all(stable[tp] >= end for tp, end in wanted.items())

    # If a transaction hangs, the index gets all records below it, and the coverage check names the missing ones.
    with suppress(TimeoutError):
        wait_until(reached, STABLE_SECONDS, "the mapping topic to be stable", interval=0.1)
    return {tp.partition: end for tp, end in stable.items()}


def _positions(pipeline: Pipeline, target: Cluster, source_cluster: str) -> list[NotedPosition]:
    log = read_commit_log(pipeline, source_cluster, target)
    return [
        NotedPosition(
            topic=tp.topic,
            partition=tp.partition,
            source_topic_id=record.source_topic_id,
            position=record.position,
            records=record.records,
            began=record.began,
            log_start=record.log_start,
            target_began=record.target_began,
            leader_epoch=record.leader_epoch,
            epoch_end=record.epoch_end,
            generation=record.generation,
            sequence=record.sequence,
        )
        for tp, record in sorted(log.positions.items())
    ]


def check_identity(pipeline: Pipeline, before: IndexIdentity, target_cluster: str) -> None:
    """Makes sure that an index belongs to a pipeline.

    Raises:
        IndexUnusable: It belongs to another pipeline or cluster.
    """
    was = (before.group, before.target_cluster, before.mapping_topic)
    now = (pipeline.group, target_cluster, pipeline.offset_mapping.topic)
    if was != now:
        raise IndexUnusable(
            f"the index was built for group, target cluster and mapping topic {was}, the pipeline has {now}. "
            "Set another index.path, or delete the index directory to build it anew."
        )
