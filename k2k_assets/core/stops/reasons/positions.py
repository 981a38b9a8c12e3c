"""It is not known up to where the partition was copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class PositionsLost(StopReason, code="positions-lost"):
    """No position is known, and the commit topic has lost records.

    Attributes:
        source: The source partition.
        commit_topic: The commit topic.
    """

    title = "positions were lost"
    meaning = "The commit topic has lost records to retention, so the partition may have been copied already."
    advice = "Give the commit topic `cleanup.policy=compact`. The offset in the command is the next one to copy."

    source: TopicPartition
    commit_topic: str

    def found(self) -> str:
        return (
            f"no position is known, and {self.commit_topic} has lost records to retention, so it may have been copied "
            "already"
        )

    def to_do(self) -> str:
        return f"Give that topic cleanup.policy=compact, and say where to go on: {set_command(*self.source, 'OFFSET')}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, "__k2k_consumer-offsets")


@dataclass(frozen=True)
class PositionUnreadable(StopReason, code="position-unreadable"):
    """The newest commit record cannot be decoded.

    Attributes:
        source: The source partition.
        words: Where it lies, and what is wrong with it.
    """

    title = "a commit record cannot be read"
    meaning = "Somebody else wrote into the commit topic, or a newer release did."
    advice = (
        "The offset in the command is the next one to copy. Until the position is set, "
        "`errorHandling.onControlMessageDeserializationError: ignore` is needed, by the command too; the other "
        "partitions go on meanwhile."
    )

    source: TopicPartition
    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return f"To go on without it: {set_command(*self.source, 'OFFSET')}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, "__k2k_consumer-offsets-3@17: is not JSON (Expecting value: line 1 column 1 (char 0))")
