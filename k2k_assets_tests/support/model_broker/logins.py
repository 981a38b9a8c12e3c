"""Logins of the model broker as Kafka has them (KIP-368): a password, shown again before a session's time ends.

A session is one connection's. Before its login nothing is answered; from a handshake to the end of the login nothing
else may come; and once its time is over the connection is closed with the next request that is no handshake.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from k2k_assets_tests.support.brokers.kafka_frames import Api, Request
from k2k_assets_tests.support.model_broker.wire import VERSIONS

SPOKEN: Mapping[int, tuple[int, int]] = {**VERSIONS, Api.SASL_HANDSHAKE: (0, 1), Api.SASL_AUTHENTICATE: (0, 2)}
"""The versions that a broker with logins says it speaks."""
_REFUSED = 58
_MECHANISM = "PLAIN"
_UNSUPPORTED = 33
_TAGS = b"\0"


@dataclass
class ModelLogins:
    """Who may sign in, and what came of it.

    Attributes:
        user: The only user.
        password: Its password.
        seconds: The lifetime of a session that clients are told; it is over when a test says so.
        shown: How often credentials were taken.
        again: How often of these on a connection that was signed in already.
        refused: How often they were not.
        out_of_turn: How many requests came in the midst of a login.
        closes: So many of the next sessions are over.
    """

    user: str = "me"
    password: str = "secret"
    seconds: float = 0.0
    shown: int = 0
    again: int = 0
    refused: int = 0
    out_of_turn: int = 0
    closes: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def properties(self) -> dict[str, str]:
        """A client's settings, librdkafka names."""
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }


class ModelSession:
    """One connection's.

    Args:
        logins: Who may sign in; None: nobody has to.
    """

    def __init__(self, logins: ModelLogins | None) -> None:
        self._logins = logins
        self._is_signed_in = logins is None
        self._is_signing_in = False

    def takes(self, request: Request) -> bool:
        """Whether a request is one that is answered by others; it raises where the connection has to be closed.

        Raises:
            ConnectionAbortedError: The connection is closed without an answer.
        """
        logins = self._logins
        if logins is None:
            return True
        if request.api in (Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE):
            return False
        with logins._turn:
            if self._is_signing_in:
                logins.out_of_turn += 1
                raise ConnectionAbortedError
            if not self._is_signed_in and request.api != Api.API_VERSIONS:
                raise ConnectionAbortedError
            if self._is_signed_in and logins.closes:
                logins.closes -= 1
                raise ConnectionAbortedError
        return True

    def answer(self, request: Request) -> bytes:
        """The answer to a step of a login."""
        assert self._logins is not None
        with self._logins._turn:
            return self._step(request, self._logins)

    def _step(self, request: Request, logins: ModelLogins) -> bytes:
        if request.api == Api.SASL_HANDSHAKE:
            self._is_signing_in = True
            error = 0 if request.frame.endswith(_MECHANISM.encode()) else _UNSUPPORTED
            known = struct.pack(">ih", 1, len(_MECHANISM)) + _MECHANISM.encode()
            return _framed(request, struct.pack(">h", error) + known)
        shown = b"\0".join((b"", logins.user.encode(), logins.password.encode())) + _TAGS
        if not request.frame.endswith(shown):
            logins.refused += 1
            words = b"Authentication failed: Invalid username or password"
            return _framed(request, _TAGS + _authenticated(_REFUSED, words, 0))
        logins.shown += 1
        logins.again += self._is_signed_in
        self._is_signed_in, self._is_signing_in = True, False
        return _framed(request, _TAGS + _authenticated(0, b"", int(logins.seconds * 1000)))


def _authenticated(error: int, words: bytes, lifetime: int) -> bytes:
    return struct.pack(">hB", error, len(words) + 1) + words + b"\x01" + struct.pack(">q", lifetime) + _TAGS


def _framed(request: Request, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, request.correlation) + body
