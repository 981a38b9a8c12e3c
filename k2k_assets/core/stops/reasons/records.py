"""A record that cannot be read, transformed or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import COPY, ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class BatchUnreadable(StopReason, code="batch-unreadable"):
    """A batch of the source is corrupt, or in an unknown format.

    Attributes:
        source: The source partition.
        offset: At or after which offset.
        words: What the client said.
    """

    title = "a batch of the source cannot be read"
    meaning = (
        "It is corrupt on the broker's disk, or in a format that the client does not know. What lies before it is "
        "copied."
    )
    advice = (
        "If another replica holds a good copy, make it the leader and start again. Else give the offset behind the "
        "batch: the range is noted as skipped."
    )

    source: TopicPartition
    offset: int
    words: str

    def found(self) -> str:
        return (
            f"the batch at or after offset {self.offset} of the source cannot be read ({self.words}): it is corrupt on "
            "the broker, or in a format that the client does not know"
        )

    def to_do(self) -> str:
        return (
            f"To go on behind it: {set_command(*self.source, 'OFFSET')} with the offset at which the next batch begins"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, offset=100, words="Local: Bad message format")


@dataclass(frozen=True)
class HeaderUnreadable(StopReason, code="header-key-not-utf8"):
    """A record has a header that the client cannot read.

    Attributes:
        source: The source partition.
        offset: Of the record.
        key: Of the header, as Python writes bytes, cut off where it is long.
    """

    title = "a record has a header whose key is not UTF-8"
    meaning = (
        "It cannot be read as text. Rules of `transform` about headers, functions, dead letters and the marker of a "
        "bidirectional pipeline need that, and so do copies one by one (`transport.form: records`). By whole batches, "
        "without these, it passes. All before the record is copied."
    )
    advice = (
        "The next offset goes on behind the record, without it. Where none of these reads headers, the topic can be "
        "copied by whole batches, or without headers (`headerReplication: disabled`), in a pipeline of its own if "
        "other topics are to keep theirs."
    )

    source: TopicPartition
    offset: int
    key: str

    def found(self) -> str:
        return (
            f"the record at {self.source} offset {self.offset} has a header whose key is not UTF-8 ({self.key}): it "
            "cannot be read as text"
        )

    def to_do(self) -> str:
        return (
            "Where no rule of transform, function, dead letter or marker of both ways reads headers, it passes by "
            "whole batches (transport.form: auto), and the topic can be copied without headers: "
            "features.headerReplication: disabled, in a pipeline of its own if other topics are to keep theirs. All "
            f"before the record is copied; to go on behind it: {set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, offset=17, key=repr(b"caf\xe9"))


@dataclass(frozen=True)
class RecordRefused(StopReason, code="record-refused"):
    """The target refuses a record.

    Attributes:
        source: The source partition.
        offset: Source offset of the record.
        size: Bytes of its key and value.
        target_topic: Where it was to go.
        words: What the target said.
    """

    title = "the target refuses a record"
    meaning = (
        "Most often it is larger than the target topic takes. Nothing was skipped. What was read with it since the "
        "last commit is not copied yet: `k2k status` shows the position."
    )
    advice = (
        "Raise `max.message.bytes` of the target topic and start again; copying goes on from that position, with the "
        "record. An offset behind the record would skip what lies between the position and it."
    )

    source: TopicPartition
    offset: int
    size: int
    target_topic: str
    words: str

    def found(self) -> str:
        return (
            f"the target refuses the record at {self.source} offset {self.offset} ({self.size} bytes of key and value) "
            f"for topic {self.target_topic}: {self.words}"
        )

    def to_do(self) -> str:
        return (
            f"If it is too large, raise max.message.bytes of {self.target_topic}; nothing was skipped, copying goes on "
            "from the committed position, which may lie before this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 7, 50_003, COPY.topic, "Broker: Message size too large")


@dataclass(frozen=True)
class TransformFailed(StopReason, code="transform-failed"):
    """A rule of `transform` fails for a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        rule: Name of the rule: its place in the pipeline file.
        words: What failed.
    """

    title = "a rule of `transform` fails for a record"
    meaning = (
        "The rule names a field of a key or value that is not JSON, or the function of the rule has raised an error. "
        "All before the record is copied."
    )
    advice = (
        "Correct the rule or its function and start again: copying goes on from that record. `onError` of the rule "
        "says what to do about such records from now on. The next offset goes on behind this one, without it."
    )

    source: TopicPartition
    offset: int
    rule: str
    words: str

    def found(self) -> str:
        return f"{self.rule} fails for the record at {self.source} offset {self.offset}: {self.words}"

    def to_do(self) -> str:
        return (
            f"Correct {self.rule} in the pipeline file, or its function, or give it an onError (deadLetter, drop), and "
            "start again. All before the record is copied; to go on behind it: "
            f"{set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "transform[0]", "KeyError: 'country'")


@dataclass(frozen=True)
class DeadLettersDeleted(StopReason, code="dead-letters-deleted"):
    """The topic for records for which a rule of `transform` fails does not exist.

    Attributes:
        cluster: The cluster, in words.
        topic: The source topic.
        dead_letters: The topic that is gone.
    """

    title = "the topic for dead letters was deleted"
    meaning = (
        "A rule with `onError: deadLetter` has nowhere to send records for which it fails. What was in the topic is "
        "gone; nothing was skipped."
    )
    advice = (
        "Start again: with `features.autoCreateTopics: enabled` the topic is created anew, else create it first. Or "
        "give the rule another `deadLetters` or `onError`. Copying goes on where it stopped."
    )

    cluster: str
    topic: str
    dead_letters: str

    def found(self) -> str:
        return (
            f"the topic {self.dead_letters} was deleted on the {self.cluster}, to which records of {self.topic} go for "
            "which a rule of transform fails (deadLetters)"
        )

    def to_do(self) -> str:
        return (
            f"Create {self.dead_letters} (a start does, with features.autoCreateTopics enabled), or give the rule "
            "another deadLetters or onError, and start again. Nothing was skipped, the next start copies on from here"
        )

    @classmethod
    def example(cls) -> Self:
        return cls("target cluster at kafka-b:9092", "orders", "orders.dead")
