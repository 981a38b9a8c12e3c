"""Follows the assignment topic for one group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from k2k_assets.control.assignment_records import PARTITION
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.foreign_records import foreign_hint
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.topic_follower import TopicFollower, TopicLost, await_topic
from k2k_assets.pipeline import Pipeline


class AssignmentTopicLost(Refused):
    """The assignment topic is missing, or it is not the one any more that an instance began with."""


class AssignmentTail:
    """Follows the assignment topic for one group.

    Records are read uncommitted: instance and stop records are written outside transactions, and an open transaction of
    another writer must not hide them. `coordination/fencing_rules.py` says why that is safe for claims.

    Args:
        pipeline: Names topic and group.
        target: The target cluster.
        clock: Seconds that only rise.

    Raises:
        AssignmentTopicLost: The topic does not exist.
        ClusterUnreachable: The target does not answer.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._group = pipeline.group
        self._at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
        self._target = target
        self.state = Assignments()
        self._is_whole = True
        with self._as_lost():
            self._follower = TopicFollower(
                await_topic(target, self._at.topic),
                target,
                pipeline.client_properties("target", "consumer"),
                committed_only=False,
                only=[PARTITION],
                clock=clock,
            )
        self._follower.take_lost()  # records that were deleted before now are no loss: nothing was read yet

    def catch_up(self, timeout: float = 30.0) -> Assignments:
        """Reads the topic to its present end, and returns the state.

        Args:
            timeout: Give up after so many seconds without a record.

        Raises:
            ClusterUnreachable: No record came for `timeout` seconds.
            AssignmentTopicLost: The topic was deleted or created anew, or records were deleted before they were read.
        """
        if not self._is_whole:
            raise self._lost()
        with self._as_lost():
            for batch in self._follower.catch_up(timeout):
                self._apply(batch)
        self._ensure_nothing_lost()
        return self.state

    def refresh(self, timeout: float = 0.0) -> Assignments:
        """Takes in the records that have arrived, waits up to `timeout` seconds if there are none; returns the state.

        Raises:
            ClusterUnreachable: The topic cannot be read.
            AssignmentTopicLost: The topic was deleted or created anew, or records were deleted before they were read.
        """
        with self._as_lost():
            self._apply(self._follower.refresh(timeout))
        self._ensure_nothing_lost()
        return self.state

    @property
    def end(self) -> int:
        """Next offset to read."""
        return self._follower.reached[self._at]

    def close(self) -> None:
        """Closes the client."""
        self._follower.close()

    def __enter__(self) -> AssignmentTail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _as_lost(self) -> Iterator[None]:
        try:
            yield
        except TopicLost:
            raise self._lost() from None

    def _ensure_nothing_lost(self) -> None:
        """Raises if records were deleted before they were read: there may have been claims among them."""
        if self._follower.take_lost():
            self._is_whole = False
            raise self._lost()

    def _lost(self) -> AssignmentTopicLost:
        return AssignmentTopicLost(
            f"the assignment topic {self._at.topic} on the {self._target} was deleted, created anew or cut off while "
            "this instance ran: it no longer tells who copies what. Stop all instances of the pipeline, and start again"
        )

    def _apply(self, batch: Iterable[Message]) -> None:
        """Takes in all of a batch, even behind an unreadable record, because the reader never returns these again."""
        unreadable: str | None = None
        for message in batch:
            try:
                self.state.apply(self._group, message.offset(), message.key(), message.value())
            except ValueError as error:
                hint = foreign_hint(message.key(), self._at.topic, "coordination.assignment.topic")
                unreadable = unreadable or f"{error}{hint}"
        if unreadable:
            raise Refused(f"{self._at.topic} on the {self._target} cannot be read: {unreadable}") from None
