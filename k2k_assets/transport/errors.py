"""What can go wrong in a transport, in the terms of the copy loop."""

from __future__ import annotations

from datetime import timedelta

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Sent


class Restart(Exception):
    """Nothing in memory can be trusted any more: claim the id again and start from what the target holds."""


class RetryAtOnce(Restart):
    """The next sink of the slot does it in another way: there is nothing to wait for."""


class Fatal(Restart):
    """The producer can do nothing any more."""


class Fenced(Restart):
    """A later holder of the transactional id exists: look who it is before anything else."""


class Forbidden(Restart):
    """The target does not let a topic be written.

    Args:
        words: What was said.
        topic: Which one; None where that was not said.
    """

    def __init__(self, words: str, topic: str | None = None) -> None:
        super().__init__(words)
        self.topic = topic


class SourceStopped(Exception):
    """A source partition cannot be read on, and waiting does not help.

    Args:
        partition: Which.
        reason: Why.
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
        sent: The chunk that it is in.
        index: Its place in the chunk; None where only a report per record would tell.
        size: Bytes of its key and value, with `index`.
        why: The target's words.
        final: Whether sending it again would get the same answer.
    """

    def __init__(self, sent: Sent, index: int | None, size: int, why: str, final: bool) -> None:
        super().__init__(why)
        self.sent = sent
        self.index = index
        self.size = size
        self.why = why
        self.final = final


class TimeoutTooLong(Refused):
    """The target's brokers take no transaction time-out as long as this producer's."""


def timeout_too_long(found: timedelta | None, most: int | None) -> str:
    """What to say of a transaction time-out that the target does not take.

    Args:
        found: The time-out; None if that is not known here.
        most: What the target takes, milliseconds; None if it does not say.
    """
    value = "" if found is None else f" is {found // timedelta(milliseconds=1)}, which"
    limit = "its transaction.max.timeout.ms" if most is None else f"{most} (its transaction.max.timeout.ms)"
    return (
        f"target.kafka.producer.'transaction.timeout.ms'{value} is longer than the target cluster allows: at most "
        f"{limit}. Set it to that or less, or raise the brokers' setting"
    )
