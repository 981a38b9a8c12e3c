"""The events of a replication, as one stream of typed values.

The driver emits them. Slots have no channel to the driver but the control topics, so the driver emits a slot's event
when it reads the slot's record there. The progress display, the log, and Dagster's steps listen.
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
        generation: Number of the generation.
        partitions: Number of partitions to copy.
        slots: Number of slots.
    """

    generation: int
    partitions: int
    slots: int


@dataclass(frozen=True, slots=True)
class PartitionClaimed:
    """A slot has claimed a source partition.

    Attributes:
        partition: The source partition.
        generation: Generation of the slot.
        slot: Number of the slot.
    """

    partition: TopicPartition
    generation: int
    slot: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A slot has committed a transaction.

    Attributes:
        partition: The source partition.
        position: Next source offset to copy.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        records: Records of this transaction.
        bytes: Value bytes of this transaction.
        runs: Offset runs of this transaction.
        generation: Generation of the slot.
        slot: Number of the slot.
        time: Time of the commit by the slot's clock, in milliseconds since the epoch.
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
    """A slot has stopped a partition; it copies the others on.

    Attributes:
        partition: The source partition.
        reason: The stop reason.
    """

    partition: TopicPartition
    reason: StopReason


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Newer instances copy partitions that this one has copied, or would copy.

    Attributes:
        partitions: The partitions, each with the instance that copies it.
        nothing_left: Whether this instance has no other partitions, so that it stands by.
    """

    partitions: Mapping[TopicPartition, str]
    nothing_left: bool

    @property
    def owners(self) -> list[str]:
        """The instances that copy these partitions."""
        return sorted(set(self.partitions.values()))


@dataclass(frozen=True, slots=True)
class ProgressRead:
    """The driver has asked the source for its ends, as it does about once a second.

    Attributes:
        progress: The progress of all partitions.
    """

    progress: Progress


@dataclass(frozen=True, slots=True)
class Ended:
    """The replication has ended.

    Attributes:
        outcome: The result.
    """

    outcome: Outcome


Event = GenerationStarted | PartitionClaimed | Committed | PartitionStopped | HandedOver | ProgressRead | Ended

Listener = Callable[[Event], None]
"""Called with each event in the driver's thread: a slow listener delays the driver."""


def on_progress(show: Callable[[Progress], None]) -> Listener:
    """Makes a listener that passes on the progress only."""

    def listen(event: Event) -> None:
        if isinstance(event, ProgressRead):
            show(event.progress)

    return listen


def to_all(*listeners: Listener) -> Listener:
    """Makes a listener that calls several listeners."""

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return listen
