"""What happens in a replication, as one stream of typed events.

The driver tells it; slots have no other channel to it than the control topics, so what they do is told as soon as it is
read there. The progress display, the log, and Dagster's steps listen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import Progress


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """The driver has planned a generation, and its slots begin.

    Attributes:
        generation: Its number.
        partitions: How many it is to copy.
        slots: How many slots do so.
    """

    generation: int
    partitions: int
    slots: int


@dataclass(frozen=True, slots=True)
class PartitionClaimed:
    """A slot has claimed a source partition.

    Attributes:
        partition: The source partition.
        generation: Of the slot.
        slot: Its number.
    """

    partition: TopicPartition
    generation: int
    slot: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A slot has committed.

    Attributes:
        partition: The source partition.
        position: Next source offset to copy.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        records: Records of this transaction.
        bytes: Value bytes of this transaction.
        runs: Offset runs of this transaction.
        generation: Of the slot.
        slot: Its number.
        time: When the slot committed, by its clock: milliseconds since the epoch.
    """

    partition: TopicPartition
    position: int
    target_end: int | None
    records: int
    bytes: int
    runs: int
    generation: int
    slot: int
    time: int


@dataclass(frozen=True, slots=True)
class PartitionStopped:
    """A slot cannot go on with a partition; the others are copied on.

    Attributes:
        partition: The source partition.
        reason: Why.
    """

    partition: TopicPartition
    reason: StopReason


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Newer instances copy partitions that this one has copied, or would copy.

    Attributes:
        partitions: Each with who copies it.
        nothing_left: Whether nothing else is left for this instance, so that it stands by.
    """

    partitions: Mapping[TopicPartition, str]
    nothing_left: bool

    @property
    def owners(self) -> list[str]:
        """Who copies them."""
        return sorted(set(self.partitions.values()))


@dataclass(frozen=True, slots=True)
class ProgressRead:
    """The ends of the source were read, about once a second.

    Attributes:
        progress: All partitions.
    """

    progress: Progress


@dataclass(frozen=True, slots=True)
class Ended:
    """The replication has ended.

    Attributes:
        outcome: What it did.
    """

    outcome: Outcome


Event = GenerationStarted | PartitionClaimed | Committed | PartitionStopped | HandedOver | ProgressRead | Ended

Listener = Callable[[Event], None]
"""Told of each event as it happens, by the driver's thread: what it does delays the driver."""


def on_progress(show: Callable[[Progress], None]) -> Listener:
    """A listener that wants the progress only."""

    def listen(event: Event) -> None:
        if isinstance(event, ProgressRead):
            show(event.progress)

    return listen


def to_all(*listeners: Listener) -> Listener:
    """A listener that tells others."""

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return listen
