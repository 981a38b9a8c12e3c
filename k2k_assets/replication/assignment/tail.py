"""Follows the assignment topic, and knows how long each slot has been silent."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Message

from k2k_assets.deadline import Deadline
from k2k_assets.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment.records import PARTITION
from k2k_assets.replication.assignment.state import Assignments
from k2k_assets.topic_partition import TopicPartition


class AssignmentTail:
    """Follows the assignment topic for one group.

    Records are read uncommitted: instance and stop records are written outside transactions, and an open
    transaction of somebody else must not hide them. `rules.py` says why that is safe for claims.

    Args:
        pipeline: Names topic and group.
        target: The target cluster.
        clock: Seconds that only rise.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._group = pipeline.group
        self._at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
        self._target = target
        self._clock = clock
        self._heard: dict[tuple[int, int], tuple[int, float]] = {}
        self.state = Assignments()
        starts = target.offsets([self._at], "earliest")
        self._reader = LogReader(
            pipeline.client_properties("target", "consumer"), starts, committed_only=False, follow=True
        )

    def catch_up(self, timeout: float = 30.0) -> Assignments:
        """Reads to the end as it is now.

        Raises:
            ClusterUnreachable: Not in time.
        """
        ends = self._target.offsets([self._at], "latest")
        try:
            for batch in self._reader.read_until(ends, Deadline(timeout)):
                self._apply(batch)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {self._target} was not read: {behind}") from None
        return self.state

    def look(self, timeout: float = 0.0) -> Assignments:
        """What came since the last look; waits up to `timeout` seconds only if there is nothing."""
        self._apply(self._reader.poll(timeout))
        return self.state

    def silence(self, owner: tuple[int, int]) -> float:
        """Seconds since a slot's last sign of life was read; clocks of other machines are not trusted.

        Of one that has none any more (another attempt of it said farewell) since it was asked for first.

        Args:
            owner: Generation and slot.
        """
        now = self._clock()
        return now - self._heard.setdefault(owner, (-1, now))[1]

    @property
    def end(self) -> int:
        """Next offset to read."""
        return self._reader.reached[self._at]

    def close(self) -> None:
        """Lets go of the client."""
        self._reader.close()

    def __enter__(self) -> AssignmentTail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _apply(self, batch: list[Message]) -> None:
        for message in batch:
            try:
                self.state.apply(self._group, message.offset(), message.key(), message.value())
            except ValueError as error:
                raise Refused(f"{self._at.topic} on the {self._target} cannot be read: {error}") from None
        now = self._clock()
        for owner, offset in self.state.signs.items():
            if self._heard.get(owner, (-1, 0.0))[0] != offset:
                self._heard[owner] = offset, now
