"""What goes wrong between this client and a broker."""

from __future__ import annotations

from confluent_kafka import KafkaError

from k2k_assets.transport.errors import NotByTransport


class NotByBatches(NotByTransport):
    """Something here cannot be read or written batch by batch; librdkafka may be able to."""


class ConnectionLost(Exception):
    """A broker closed the connection, did not answer in time, or cannot be reached."""


class NotReached(ConnectionLost):
    """A broker cannot be connected to, or does not answer in time; perhaps it does at another address of its name."""


def more_telling(before: ConnectionLost | None, now: ConnectionLost) -> ConnectionLost:
    """Which of two troubles says more: of an attempt for which there was no time left, nothing is learned."""
    return before if isinstance(now, NotReached) and before is not None else now


class LoginRefused(ConnectionLost):
    """A broker refuses the credentials, or cannot show that it is the one that is meant."""


MOST_REFUSALS = 3
"""So many refused logins end it. One or two are normal while the brokers have not heard of a new user yet."""


class ProtocolError(ConnectionLost):
    """A broker sent what cannot be an answer: nothing more of this connection is believed."""


class AnswerTooLarge(ProtocolError):
    """An answer is longer than is taken."""


class Unreadable(Exception):
    """A batch is corrupt, or in no format that Kafka has.

    Args:
        words: What is wrong with it.
        offset: Its first offset, or the one after which it lies.
    """

    def __init__(self, words: str, offset: int = -1) -> None:
        super().__init__(words)
        self.words, self.offset = words, offset


def error_text(code: int, words: str = "") -> str:
    """An error code in words.

    Args:
        code: The code.
        words: What the broker says about it, if anything.
    """
    error = KafkaError(code)
    return f"{words or error.str()} ({error.name()})"
