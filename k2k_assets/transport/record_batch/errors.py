"""What goes wrong between this client and a broker."""

from __future__ import annotations

from collections.abc import Sequence

from k2k_assets.transport.errors import Restart


class NotByBatches(Restart):
    """Something here cannot be read batch by batch; librdkafka may be able to read it.

    Args:
        reasons: What it is, a text each.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class ConnectionLost(Exception):
    """A broker closed the connection, did not answer in time, or cannot be reached."""


class LoginRefused(ConnectionLost):
    """A broker refuses the credentials, or cannot show that it is the one that is meant."""


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
