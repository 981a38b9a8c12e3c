"""What a replication did, as the commit log tells it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """One source partition.

    Attributes:
        start: Position when the replication began.
        position: Position at its end.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        stable_end: Last stable offset of the source when last looked at.
        records: Records copied.
        bytes: Value bytes copied.
        runs: Runs written to the mapping topic's records.
    """

    start: int
    position: int
    target_end: int | None
    stable_end: int
    records: int
    bytes: int
    runs: int

    @property
    def lag(self) -> int:
        """Source offsets still to be read."""
        return max(0, self.stable_end - self.position)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """One source topic.

    Attributes:
        target_topic: Where it went.
        partitions: By source partition.
        stopped: Why it was stopped; None if it was not.
        seconds: How long the replication took.
    """

    target_topic: str
    partitions: dict[int, PartitionOutcome]
    stopped: str | None
    seconds: float

    @property
    def records(self) -> int:
        """Records copied."""
        return sum(p.records for p in self.partitions.values())

    @property
    def bytes(self) -> int:
        """Value bytes copied."""
        return sum(p.bytes for p in self.partitions.values())

    @property
    def runs(self) -> int:
        """Runs written."""
        return sum(p.runs for p in self.partitions.values())

    @property
    def lag(self) -> int:
        """Source offsets still to be read."""
        return sum(p.lag for p in self.partitions.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replication did.

    Attributes:
        topics: By source topic.
        generation: Of the instance.
        seconds: How long it took, from the claim to the last commit.
    """

    topics: dict[str, TopicOutcome] = field(default_factory=dict)
    generation: int = -1
    seconds: float = 0.0

    @property
    def stopped(self) -> dict[str, str]:
        """Topics that were stopped, with the reason."""
        return {name: topic.stopped for name, topic in self.topics.items() if topic.stopped}
