"""The source topic is gone, or another one has its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import accept_the_new_topic, copy_the_new_topic
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.words import plural


@dataclass(frozen=True)
class SourceDeleted(StopReason, code="source-deleted"):
    """The source topic does not exist.

    Attributes:
        topic: Its name.
        while_copied: Whether that was found in the middle of the copy.
    """

    title = "the source topic was deleted"
    meaning = "What was copied stays on the target, and the position stays noted."
    advice = (
        "Take the topic out of the pipeline, or create it; the command copies the new topic from its beginning, behind "
        "what was copied of the old one."
    )

    topic: str
    while_copied: bool = False

    def found(self) -> str:
        what = "was deleted while it was copied" if self.while_copied else "is gone"
        return f"the source topic {self.topic} {what}"

    def to_do(self) -> str:
        again = accept_the_new_topic(self.topic, "earliest")
        return f"If it was deleted on purpose, take it out of the pipeline; if it is created anew: {again}"

    @classmethod
    def example(cls) -> Self:
        return cls("orders")


@dataclass(frozen=True)
class SourceRecreated(StopReason, code="source-recreated"):
    """Another source topic has the name now.

    Attributes:
        topic: Its name.
        expected_id: Topic id of the one that was copied.
        found_id: Topic id of the one that is there.
        position: Up to where this partition was copied; None if the other one did not have it, or while it was copied.
        while_copied: Whether that was found in the middle of the copy.
    """

    title = "the source topic was deleted and created anew"
    meaning = "The topic id tells it. The offsets of the new topic mean other records than those that were copied."
    advice = "The command copies the new topic from its beginning, behind what was copied of the old one."

    topic: str
    expected_id: str
    found_id: str
    position: int | None = None
    while_copied: bool = False

    def found(self) -> str:
        ids = f"(topic id {self.expected_id} is now {self.found_id})"
        if self.while_copied:
            return (
                f"the source topic {self.topic} was deleted and created anew while it was copied {ids}; what was in "
                "hand was not committed"
            )
        if self.position is None:
            return f"the source topic was deleted and created anew {ids}, so nothing of it is copied yet"
        return (
            f"the source topic was deleted and created anew {ids}, so offsets before {self.position} mean other records"
        )

    def to_do(self) -> str:
        return copy_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "TBO7reAwRAGpzqIiqsILtQ", "BwGPWE0CQqCQInd82LFX6Q", position=3)


@dataclass(frozen=True)
class FewerPartitions(StopReason, code="fewer-partitions"):
    """The source topic has fewer partitions than it had.

    Attributes:
        topic: Its name.
        partitions: How many it has.
    """

    title = "the source topic has fewer partitions than were copied"
    meaning = "Kafka takes no partition away from a topic, so the topic was deleted and created anew."
    advice = "The command copies the new topic from its beginning, behind what was copied of the old one."

    topic: str
    partitions: int

    def found(self) -> str:
        return f"the source topic has only {plural(self.partitions, 'partition')} left: it was deleted and created anew"

    def to_do(self) -> str:
        return copy_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", partitions=1)


@dataclass(frozen=True)
class TopicNotFound(StopReason, code="topic-not-found"):
    """A topic that has an asset in Dagster is not on the source."""

    title = "the topic of an asset is not on the source"
    meaning = "The definitions were loaded when the source had the topic, and may see it."
    advice = "Reload the definitions. If the topic is there, grant Describe on it (`k2k acls -f FILE`)."

    def found(self) -> str:
        return "it is not on the source any more, or may not be described there"

    def to_do(self) -> str:
        return "Reload the definitions to see the topics of today"

    @classmethod
    def example(cls) -> Self:
        return cls()
