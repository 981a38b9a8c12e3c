"""The target partition holds less than was copied, or what others wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import abort_command, find_hanging_command, set_command
from k2k_assets.core.stops.reason import COPY, ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural


@dataclass(frozen=True)
class TargetTruncated(StopReason, code="target-truncated"):
    """The target partition ends before the last record that was copied into it.

    Attributes:
        source: The source partition.
        target: The target partition.
        expected_offset: Target offset that the next copy should have got.
        found_offset: Target offset that the next copy got.
    """

    title = "the target was truncated: copies in it are lost"
    meaning = "The target lost records that were committed, for example by an unclean leader election."
    advice = (
        "An earlier offset copies again from there; `current` goes on without what is lost: groups that have not read "
        "it continue behind it. "
        "`k2k-tool translate -f FILE --reverse` tells which source offset a target offset was copied from."
    )

    source: TopicPartition
    target: TopicPartition
    expected_offset: int
    found_offset: int

    def found(self) -> str:
        return (
            f"{self.target} went back from offset {self.expected_offset} to {self.found_offset}: it was truncated, and "
            "copies in it are lost"
        )

    def to_do(self) -> str:
        again = set_command(*self.source, "OFFSET", "--accept-foreign-records")
        on = set_command(*self.source, "current", "--accept-foreign-records")
        return f"To copy from an earlier offset again: {again}; to go on: {on}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, COPY, expected_offset=10, found_offset=4)


@dataclass(frozen=True)
class ForeignRecords(StopReason, code="foreign-records"):
    """Somebody else wrote to the target partition.

    Attributes:
        source: The source partition.
        target: The target partition.
        count: How many records.
        start: Target offset of the first.
        end: Target offset after the last.
    """

    title = "others wrote to the target partition"
    meaning = (
        "Or a run at least once was killed before it committed what it had written, and an exactly-once one goes on."
    )
    advice = "The command accepts what is there now; what others write later stops the topic again."

    source: TopicPartition
    target: TopicPartition
    count: int
    start: int
    end: int

    def found(self) -> str:
        were, are = ("was", "is a copy") if self.count == 1 else ("were", "are copies")
        return (
            f"{plural(self.count, 'record')} at {self.target} offsets {self.start} to {self.end - 1} {were} not "
            f"written by this pipeline, or {are} that a run at least once did not live to commit"
        )

    def to_do(self) -> str:
        accept = set_command(*self.source, "current", "--accept-foreign-records")
        return (
            f"Stop the other writer, if there is one, and accept them: {accept}; or set errorHandling.onForeignWriter: "
            "ignore to go on beside that writer"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, COPY, count=2, start=3, end=5)


@dataclass(frozen=True)
class OpenTransaction(StopReason, code="open-transaction"):
    """A transaction in the target partition does not end: what is copied now could become a part of it.

    Attributes:
        source: The source partition.
        target: The target partition.
        start: Target offset of the transaction's first record.
        end: The high watermark.
        target_end: Up to where the position counts records as copied; None if that is not known.
        seconds: How long it has been waited for.
    """

    title = "a transaction in the target partition does not end"
    meaning = (
        "It is somebody else's, or it hangs: a broker that restarts can lose the marker that ends it. Where others may "
        "write too (`errorHandling.onForeignWriter: ignore`, or several partitions that feed one), it is only named in "
        "the log."
    )
    advice = (
        "`abort` ends it as aborted, after `find-hanging` has shown that it hangs; then start again, or let an "
        "instance that runs go on by the `k2k-tool set` of the message. If the position counted its records as copied, "
        "that names an offset, from which they are copied again."
    )

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    target_end: int | None
    seconds: float

    def found(self) -> str:
        return open_transaction_found(self.target, self.start, self.end, self.seconds)

    def to_do(self) -> str:
        end_it = open_transaction_to_do(self.target, self.start)
        if self.target_end is None or self.target_end <= self.start:
            return (
                f"{end_it}: its records do not count as copied. Then start again, or let an instance that runs go on: "
                f"{set_command(*self.source, 'current')}"
            )
        topic, partition = self.target
        return (
            f"{end_it}. The position counts its records as copied: copy them again then with "
            f"{set_command(*self.source, 'OFFSET')}, with the offset that k2k-tool translate -f FILE --reverse --topic "
            f"{topic} --partition {partition} --offset {self.start} tells"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, COPY, start=40, end=55, target_end=None, seconds=70.0)


def open_transaction_found(target: TopicPartition, start: int, end: int, seconds: float) -> str:
    """Describes an open transaction in a target partition that does not end, whether it stops the partition or not."""
    return (
        f"a transaction has been open at {target} offset {start} for more than {seconds:.0f} s: readers of committed "
        f"records see nothing of {plural(end - start, 'offset')} from there on"
    )


def open_transaction_to_do(target: TopicPartition, start: int) -> str:
    """The command that ends such a transaction."""
    return (
        f"It is somebody else's, or it hangs: a broker that restarts can lose the marker that ends it. Look with "
        f"{find_hanging_command(target)}; if it hangs, end it with {abort_command(target, start)}"
    )
