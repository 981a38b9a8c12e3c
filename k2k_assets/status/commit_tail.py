"""Follows the commit topic of a pipeline, from its latest records on."""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.control.commit_log import records_of
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import Deadline
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline

# The tail begins at most so many records before the end: enough for a history of minutes, read in less than a second.
_MOST_RECORDS = 20_000
_SECONDS = 10.0


class CommitTail:
    """Passes on the commit records of a pipeline.

    Args:
        pipeline: Names topic and group.
        cluster_id: Source cluster id.
        target: The target cluster.
        take: Called with each record, in the order of the log.
    """

    def __init__(
        self, pipeline: Pipeline, cluster_id: str, target: Cluster, take: Callable[[CommitRecord], None]
    ) -> None:
        self._identity = (pipeline.group, cluster_id)
        self._take = take
        self._target = target
        partitions = target.partitions_of([pipeline.coordination.commit.topic])
        first, ends = target.offsets(partitions, "earliest"), target.offsets(partitions, "stable")
        latest = _MOST_RECORDS // max(1, len(partitions))
        starts = {tp: max(first[tp], end - latest) for tp, end in ends.items() if tp in first}
        self._reader = (
            LogReader(pipeline.client_properties("target", "consumer"), starts, committed_only=True, follow=True)
            if starts
            else None
        )

    @property
    def is_there(self) -> bool:
        """Whether the commit topic exists."""
        return self._reader is not None

    def read(self) -> None:
        """Passes on the records up to the present end; waits for them some seconds at most."""
        if self._reader is None:
            return
        ends = self._target.offsets(list(self._reader.reached), "stable")
        try:
            for batch in self._reader.read_until(ends, Deadline(_SECONDS)):
                for record in records_of(batch, *self._identity):
                    self._take(record)
        except NotReadToTheEnd:
            return  # the next call continues there

    def close(self) -> None:
        """Closes the client."""
        if self._reader is not None:
            self._reader.close()
