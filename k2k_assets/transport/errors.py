"""The errors of a transport, named by how the copy loop reacts to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Sent


class Restart(Exception):
    """Nothing in memory can be trusted any more: the session ends, and the next one starts from the target's state."""


class RetryAtOnce(Restart):
    """The session ends, and the next one may start without a pause: its sink works in another way."""


class NotByTransport(Restart):
    """A transport cannot go on with something that the one of records may be able to do.

    Args:
        reasons: What it is, a text each.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class Fatal(Restart):
    """The producer has a fatal error and cannot be used any more."""


class Fenced(Restart):
    """Another producer holds the transactional id now: read the assignment topic first to see whose it is."""


class Forbidden(Restart):
    """The principal may not write to a topic of the target.

    Args:
        words: The error text.
        topic: The topic; None if the error does not name it.
    """

    def __init__(self, words: str, topic: str | None = None) -> None:
        super().__init__(words)
        self.topic = topic


class SourceStopped(Exception):
    """A source partition cannot be read any further, and waiting does not help.

    Args:
        partition: The source partition.
        reason: The stop reason.
    """

    def __init__(self, partition: TopicPartition, reason: StopReason) -> None:
        super().__init__(partition, reason)
        self.partition = partition
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.partition}: {render(self.reason)}"


class Undeliverable(Exception):
    """The target refused a record.

    Args:
        sent: The chunk with the record.
        index: Index of the record in the chunk; None if only a report for each record would tell it.
        size: Bytes of its key and value, if `index` is known.
        why: The target's error text.
        final: Whether the target would refuse the record again.
    """

    def __init__(self, sent: Sent, index: int | None, size: int, why: str, final: bool) -> None:
        super().__init__(why)
        self.sent = sent
        self.index = index
        self.size = size
        self.why = why
        self.final = final


class TimeoutTooLong(Refused):
    """The producer's transaction time-out is longer than the target's brokers allow."""


def timeout_too_long(found: timedelta | None, most: int | None) -> str:
    """The message for a transaction time-out that is too long for the target.

    Args:
        found: The time-out; None if the caller does not know it.
        most: The longest that the target allows, in milliseconds; None if it does not tell.
    """
    value = "" if found is None else f" is {found // timedelta(milliseconds=1)}, which"
    limit = "its transaction.max.timeout.ms" if most is None else f"{most} (its transaction.max.timeout.ms)"
    return (
        f"target.kafka.producer.'transaction.timeout.ms'{value} is longer than the target cluster allows: at most "
        f"{limit}. Set it to that or less, or raise the brokers' setting"
    )
