"""A topic that may not be seen, read or written any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.reason import COPY, StopReason
from k2k_assets.core.words import ACLS_HINT


@dataclass(frozen=True)
class SourceHidden(StopReason, code="source-hidden"):
    """The principal may not see the source topic any more.

    Attributes:
        topic: Its name.
        cluster: The cluster, in words.
    """

    title = "the source does not let the topic be seen"
    meaning = "The principal has lost Describe and Read on the topic."
    advice = "Grant them again; the next start copies on from the position."

    topic: str
    cluster: str

    def found(self) -> str:
        return f"the {self.cluster} does not let the topic {self.topic} be seen"

    def to_do(self) -> str:
        return ACLS_HINT

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "source cluster at kafka-a:9092")


@dataclass(frozen=True)
class SourceReadDenied(StopReason, code="source-read-denied"):
    """The principal may not read the source topic any more.

    Attributes:
        topic: Its name.
        words: What the source said.
    """

    title = "the source does not let the topic be read"
    meaning = "The principal has lost Read on the topic."
    advice = "Grant Read on it again; the next start copies on from the position."

    topic: str
    words: str

    def found(self) -> str:
        return f"the source does not let the topic {self.topic} be read ({self.words})"

    def to_do(self) -> str:
        return f"Grant Read on the topic; {ACLS_HINT}"

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "Broker: Topic authorization failed")


@dataclass(frozen=True)
class TargetWriteDenied(StopReason, code="target-write-denied"):
    """The principal may not write the target topic any more.

    Attributes:
        cluster: The cluster, in words.
        principal: The principal, in words.
        topic: The target topic.
    """

    title = "the target topic may not be written any more"
    meaning = "The principal has lost Write on the topic."
    advice = "Grant Write on it again (`k2k acls -f FILE`); the next start copies on."

    cluster: str
    principal: str
    topic: str

    def found(self) -> str:
        return f"the {self.cluster} does not allow {self.principal} to Write the topic {self.topic} any more"

    def to_do(self) -> str:
        return f"{ACLS_HINT}. Nothing was skipped, the next start copies on from here"

    @classmethod
    def example(cls) -> Self:
        return cls("target cluster at kafka-b:9092", "User:replicator", COPY.topic)
