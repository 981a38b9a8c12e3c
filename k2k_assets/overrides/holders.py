"""Who copies the partitions now, as the assignment topic tells it: an override waits for nobody, it asks first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from k2k_assets.control.assignment_records import PARTITION
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.commit_log import now_ms
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.pipeline import Pipeline

_TIMEOUT = 30.0


@dataclass(slots=True)
class Holders:
    """Claims that were not released, and heartbeats.

    Attributes:
        state: Claims and instances.
        heartbeats: Time of the last heartbeat of a generation that writes some, milliseconds since the epoch.
    """

    state: Assignments = field(default_factory=Assignments)
    heartbeats: dict[int, int] = field(default_factory=dict)

    def apply(self, group: str, message: Message) -> None:
        """Takes in one record of the assignment topic; what cannot be read is for the slots to report."""
        with suppress(ValueError):
            self.state.apply(group, message.offset(), message.key(), message.value())
        for (generation, _), offset in self.state.signs.items():
            if offset == message.offset():
                self._hear(generation, message)

    def _hear(self, generation: int, message: Message) -> None:
        """A claim counts as a heartbeat too, but only of an instance that has begun to write some."""
        is_claim = any(claim.offset == message.offset() for claim in self.state.claims.values())
        if not is_claim or generation in self.heartbeats:
            self.heartbeats[generation] = message.timestamp()[1]

    def of(
        self, wanted: Mapping[tuple[str, int], TopicPartition], heartbeat_timeout: float
    ) -> dict[str, list[TopicPartition]]:
        """The partitions that each live instance holds.

        Args:
            wanted: By topic id and partition.
            heartbeat_timeout: Seconds after which an instance that wrote heartbeats counts as dead.
        """
        now = now_ms()
        held: dict[str, list[TopicPartition]] = {}
        for claim in self.state.claims.values():
            tp = wanted.get(claim.what)
            last = self.heartbeats.get(claim.generation, now)
            if tp is not None and now - last <= heartbeat_timeout * 1000:
                held.setdefault(self._words_for(claim.generation), []).append(tp)
        return {words: sorted(partitions) for words, partitions in held.items()}

    def _words_for(self, generation: int) -> str:
        instance = self.state.instances.get(generation)
        return str(instance) if instance else self.state.describe(generation)


def read_holders(pipeline: Pipeline, target: Cluster) -> Holders:
    """Reads the assignment topic to its end, uncommitted: a dead owner's open transaction hides nothing.

    Raises:
        ClusterUnreachable: Not in time.
    """
    at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
    starts, ends = target.offsets([at], "earliest"), target.offsets([at], "latest")
    holders = Holders()
    with LogReader(pipeline.client_properties("target", "consumer"), starts, committed_only=False) as reader:
        try:
            for batch in reader.read_until(ends, Deadline(_TIMEOUT)):
                for message in batch:
                    holders.apply(pipeline.group, message)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {target} was not read: {behind}") from None
    return holders
