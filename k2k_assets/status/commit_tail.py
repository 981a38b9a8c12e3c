"""Follows the commit topic of a pipeline, from its latest records on."""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.control.commit_log import notes_of, records_of
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.stop_notes import StopNote
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.topic_follower import TopicFollower
from k2k_assets.pipeline import Pipeline

# The tail begins at most so many records before the end: enough for a history of minutes, read in less than a second.
_MOST_RECORDS = 20_000
_SECONDS = 10.0


class CommitTail:
    """Passes on the commit records of a pipeline, and its notes of stops.

    Args:
        pipeline: Names topic and group.
        cluster_id: Source cluster id.
        topic: Description of the commit topic.
        target: The target cluster.
        take: Called with each record, in the order of the log.
        take_note: Called with each note of a stop without a position, likewise; None: it is stopped no more.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        cluster_id: str,
        topic: TopicDescription,
        target: Cluster,
        take: Callable[[CommitRecord], None],
        take_note: Callable[[TopicPartition, StopNote | None], object],
    ) -> None:
        self._identity = (pipeline.group, cluster_id)
        self._take, self._take_note = take, take_note
        self._target = target
        ends = target.offsets([TopicPartition(topic.name, p) for p in range(topic.partitions)], "stable")
        latest = _MOST_RECORDS // max(1, len(ends))
        self._follower = TopicFollower(
            topic,
            target,
            pipeline.client_properties("target", "consumer"),
            committed_only=True,
            starts={tp.partition: max(0, end - latest) for tp, end in ends.items()},
        )

    def read(self) -> None:
        """Passes on the records up to the present end, before which no transaction is open.

        Raises:
            TopicLost: The commit topic was deleted, created anew, or cut off.
            ClusterUnreachable: The target does not answer, or sends no record for some seconds.
        """
        self._follower.ends()
        for batch in self._follower.read_until(self._target.offsets(self._follower.reached, "stable"), _SECONDS):
            for record in records_of(batch, *self._identity):
                self._take(record)
            for source, note in notes_of(batch, *self._identity):
                self._take_note(source, note)

    def close(self) -> None:
        """Closes the client."""
        self._follower.close()
