"""Follows the assignment topic, and knows how long ago each slot wrote a heartbeat."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from k2k_assets.control.assignment_records import PARTITION
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.end_probe import EndProbe
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")

# How long a broker that has just come back has to find what it held.
_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.1


class AssignmentTopicLost(Refused):
    """The assignment topic is not the one any more that an instance began with."""


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
        self._id = self._await_id()
        starts = target.offsets([self._at], "earliest")
        if self._at not in starts:
            raise self._lost()
        self._end_probe = EndProbe(self._end_of_the_same, clock)
        self._reader = LogReader(
            pipeline.client_properties("target", "consumer"), starts, committed_only=False, follow=True
        )

    def catch_up(self, timeout: float = 30.0) -> Assignments:
        """Reads to the end as it is now.

        Raises:
            ClusterUnreachable: Not in time.
            AssignmentTopicLost: It is another one.
        """
        ends = self._end_of_the_same()
        try:
            for batch in self._reader.read_until(ends, Deadline(timeout)):
                self._apply(batch)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {self._target} was not read: {behind}") from None
        return self.state

    def refresh(self, timeout: float = 0.0) -> Assignments:
        """What came since the last look; waits up to `timeout` seconds only if there is nothing.

        Raises:
            ClusterUnreachable: It cannot be read.
            AssignmentTopicLost: It is another one.
        """
        self._look_where_it_ends()
        self._apply(self._reader.poll(timeout))
        return self.state

    def silence(self, owner: tuple[int, int]) -> float:
        """Seconds since a slot's last heartbeat was read; clocks of other machines are not trusted.

        Of one that has none any more (another attempt of it has released all) since it was asked for first.

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

    def _look_where_it_ends(self) -> None:
        """A client may stand still without a word."""
        try:
            if ends := self._end_probe.ends():
                self._reader.doubt_if_behind(ends)
        except AssignmentTopicLost:
            raise
        except K2KError as error:
            log.debug("where %s ends is not known: %s", self._at.topic, error)

    def _end_of_the_same(self) -> Mapping[TopicPartition, int]:
        """Where it ends; a broker that has just come back may still look for that, or not know of the topic."""
        read, settle = self.end, Deadline(_SETTLE_SECONDS)
        while True:
            described = self._target.describe_async([self._at.topic])
            ends = self._target.offsets([self._at], "latest")
            found = described().get(self._at.topic)
            if found and found.topic_id == self._id and ends.get(self._at, -1) >= read:
                return ends
            if settle.expired() or (found and found.topic_id != self._id):
                raise self._lost()
            time.sleep(_POLL_SECONDS)

    def _await_id(self) -> str:
        settle = Deadline(_SETTLE_SECONDS)
        while not (found := self._target.describe([self._at.topic])):
            if settle.expired():
                raise self._lost()
            time.sleep(_POLL_SECONDS)
        return found[self._at.topic].topic_id

    def _lost(self) -> AssignmentTopicLost:
        return AssignmentTopicLost(
            f"the assignment topic {self._at.topic} on the {self._target} was deleted, created anew or cut off while "
            "this instance ran: it no longer tells who copies what. Stop all instances of the pipeline, and start again"
        )

    def _apply(self, batch: list[Message]) -> None:
        if batch:
            self._end_probe.heard()
        for message in batch:
            try:
                self.state.apply(self._group, message.offset(), message.key(), message.value())
            except ValueError as error:
                raise Refused(f"{self._at.topic} on the {self._target} cannot be read: {error}") from None
        now = self._clock()
        for owner, offset in self.state.signs.items():
            if self._heard.get(owner, (-1, 0.0))[0] != offset:
                self._heard[owner] = offset, now
