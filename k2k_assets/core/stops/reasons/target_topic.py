"""The target topic is gone, another one has its name, or none is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import copy_into_the_new_topic
from k2k_assets.core.stops.reason import COPY, StopReason


@dataclass(frozen=True)
class TargetDeleted(StopReason, code="target-deleted"):
    """The target topic does not exist.

    Attributes:
        topic: The source topic.
        target: The target topic.
        position: Up to where the partition was copied; None while it was copied.
    """

    title = "the target topic was deleted"
    meaning = "What was copied is gone. The next start creates the topic anew, and then stops with `target-recreated`."
    advice = "`earliest` copies everything again; `current` goes on into the new topic without what is gone."

    topic: str
    target: str
    position: int | None = None

    def found(self) -> str:
        if self.position is None:
            return f"the target topic {self.target} was deleted while it was copied"
        return f"the target topic {self.target} was deleted, with all that was copied before {self.position}"

    def to_do(self) -> str:
        return copy_into_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", COPY.topic, position=3)


@dataclass(frozen=True)
class TargetRecreated(StopReason, code="target-recreated"):
    """Another target topic has the name now.

    Attributes:
        topic: The source topic.
        target: The target topic.
        expected_id: Topic id of the one that was copied to.
        found_id: Topic id of the one that is there.
        position: Up to where the partition was copied; None while it was copied.
    """

    title = "the target topic was deleted and created anew"
    meaning = "The topic id tells it. What was copied into the old topic is gone."
    advice = "`earliest` copies everything again; `current` goes on into the new topic without what is gone."

    topic: str
    target: str
    expected_id: str
    found_id: str
    position: int | None = None

    def found(self) -> str:
        ids = f"(topic id {self.expected_id} is now {self.found_id})"
        if self.position is None:
            return (
                f"the target topic {self.target} was deleted and created anew while it was copied {ids}; what was in "
                "hand was not committed"
            )
        return (
            f"the target topic {self.target} was deleted and created anew {ids}, so what was copied before "
            f"{self.position} is gone"
        )

    def to_do(self) -> str:
        return copy_into_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", COPY.topic, "hPy2RAetRp2kJHbykQF9XQ", "L8NZy89VRJ+4Hjn/bZudQg", position=3)


@dataclass(frozen=True)
class NoTargetTopic(StopReason, code="no-target-topic"):
    """The routing names no target topic that can be used.

    Attributes:
        words: Why not.
    """

    title = "the routing names no target for the topic"
    meaning = (
        "`staticMapping` has no entry for the topic, the name that the routing makes is no legal topic name, or two "
        "pairs of stages select the topic."
    )
    advice = (
        "Add an entry to `replication.sink.topic.staticMapping`, or select fewer topics: "
        "`replication[].source.exclude` leaves one out of a pair."
    )

    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return ""

    @classmethod
    def example(cls) -> Self:
        return cls(
            "replication.sink.topic.staticMapping has no entry for the selected topic 'orders'; add one, or select "
            "fewer topics"
        )
