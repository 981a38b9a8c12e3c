"""Reads the positions of a pipeline from the commit log, for `k2k-tool describe`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.pause_records import Pause
from k2k_assets.control.pauses import PauseReader
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import ends_of_each_topic
from k2k_assets.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class CommittedPosition:
    """The position of one source partition.

    Attributes:
        source: The source partition.
        record: Its newest commit record; None if there is none, or it cannot be read.
        last: `Pipeline.readable_end` of the source; None if the partition is gone, or hidden from the principal.
        stopped: Its stop reason; None if it is not stopped.
        paused: The topic's pause; None if it is not paused.
    """

    source: TopicPartition
    record: CommitRecord | None
    last: int | None
    stopped: StopReason | None
    paused: Pause | None = None

    @property
    def lag(self) -> int | None:
        """Source offsets that are not copied yet; None if the position or the end is not known."""
        return None if self.record is None or self.last is None else max(0, self.last - self.record.position)


@dataclass(frozen=True, slots=True)
class CommittedPositions:
    """The positions of a pipeline.

    Attributes:
        source: Source cluster id.
        target: Target cluster id.
        partitions: Positions, in the order of topic and partition.
    """

    source: str
    target: str
    partitions: list[CommittedPosition]


def committed(pipeline: Pipeline, source: Cluster, target: Cluster) -> CommittedPositions:
    """Reads the positions; changes nothing.

    Raises:
        Refused: A commit record cannot be read, and the policy says fail.
        ClusterUnreachable: A cluster does not answer.
    """
    cluster, target_cluster = source.cluster_id(), target.cluster_id()
    log = read_commit_log(pipeline, cluster, target)
    known = sorted({*log.positions, *log.unreadable, *log.noted})
    there = source.describe_async({tp.topic for tp in known}, partly=True)()
    existing = [tp for tp in known if tp.topic in there and tp.partition < there[tp.topic].partitions]
    ends = ends_of_each_topic(source, existing, pipeline.readable_end).offsets
    stopped = log.stopped
    with closing(PauseReader(pipeline, target)) as pauses:
        paused = pauses.read()
    partitions = [
        CommittedPosition(tp, log.positions.get(tp), ends.get(tp), stopped.get(tp), paused.get(tp.topic))
        for tp in known
    ]
    return CommittedPositions(cluster, target_cluster, partitions)
