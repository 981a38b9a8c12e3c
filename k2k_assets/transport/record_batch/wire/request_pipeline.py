"""Requests to one broker, sent one behind the other without waiting for answers; these come in the same order."""

from __future__ import annotations

import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from k2k_assets.transport.record_batch.errors import AnswerTooLarge, ConnectionLost, ProtocolError
from k2k_assets.transport.record_batch.wire.connection import SMALL_ANSWER, BrokerConnection, body_of
from k2k_assets.transport.record_batch.wire.produce_messages import Piece
from k2k_assets.transport.record_batch.wire.tasks import READ, WRITE, Task, Wait

_LENGTH = struct.Struct(">i")
_RECEIVED_AT_ONCE = 64 * 1024
_PIECES_AT_ONCE = 256
_SENT_AT_ONCE = 512 * 1024
# While more requests than these have no answer, the answers are taken many at once: when most of them have come, and
# after so many seconds in any case, because a slow broker must not look like a silent one.
_FEW_EXPECTED = 8
_LONGEST_LEFT = 0.005
# So many turns of sending and receiving come before other tasks have theirs.
_TURNS = 8
_FOREVER = float("inf")


class BrokerRequest(NamedTuple):
    """A request.

    Attributes:
        api: The API; a flexible version of it.
        version: Its version.
        pieces: Its body; none of them is empty.
        size: Bytes of the body.
        on_answer: Gets the body of the answer; what it raises ends the pipeline.
        least_answer: Fewer bytes no answer has.
    """

    api: int
    version: int
    pieces: list[Piece]
    size: int
    on_answer: Callable[[memoryview], None]
    least_answer: int = 0


class _Expected(NamedTuple):
    """An answer that has to come. Not the request: what is sent is let go while the processor still has it at hand."""

    correlation: int
    on_answer: Callable[[memoryview], None]
    least: int
    since: float


class RequestQueue(Protocol):
    """Where requests come from: they are made only when the connection takes them."""

    @property
    def not_before(self) -> float:
        """When the next one may be sent, monotonic seconds."""
        ...

    def has_request(self) -> bool:
        """Whether there is one."""
        ...

    def next_request(self) -> BrokerRequest:
        """The next one. It counts as sent from now on."""
        ...


class RequestPipeline:
    """Sends requests over one connection until it is lost.

    Args:
        connection: The connection, which is open.
        requests: What is sent.

    Attributes:
        is_used: Whether it has taken any request.
    """

    def __init__(self, connection: BrokerConnection, requests: RequestQueue) -> None:
        self.is_used = False
        self._connection, self._requests = connection, requests
        self._unsent: deque[Piece] = deque()
        self._expected: deque[_Expected] = deque()
        self._expected_bytes = 0
        self._received = bytearray()

    @property
    def is_idle(self) -> bool:
        """Whether every request that it has taken is answered, and no answer was refused."""
        return not self._expected

    def run(self) -> Task[None]:
        """Sends and receives.

        Raises:
            ConnectionLost: The connection is lost; what is not answered may have been executed or not.
        """
        while True:
            if self._connection.has_to_sign_in and self.is_idle:
                yield from self._connection.sign_in_if_due()
            try:
                wait = self._go_on()
            except OSError as error:
                raise ConnectionLost(f"{self._connection}: {error}") from None
            yield wait

    def _go_on(self) -> Wait:
        """Sends and receives what can be for now; returns what is waited for then."""
        for _ in range(_TURNS):
            # Receiving comes first: it tells that an idle connection was closed before anything is sent.
            moved = self._receive()
            moved = self._send() or moved
            if not moved:
                return self._wait()
        return Wait(0.0)

    def _wait(self) -> Wait:
        self._connection.wake_from(self._worth_waking())
        events = READ | WRITE if self._unsent else READ
        now = time.monotonic()
        until = self._requests.not_before if self._requests.has_request() else _FOREVER
        if until <= now:
            until = _FOREVER  # the credentials come first, or the socket is full
        if len(self._expected) > _FEW_EXPECTED:
            until = min(until, now + _LONGEST_LEFT)
        return Wait(until, self._connection.sock, events, ready=self._may_take)

    def _worth_waking(self) -> int:
        """Bytes of answers that are worth going round for, a power of two: half of the least to come, or more."""
        if len(self._expected) <= _FEW_EXPECTED:
            return 1
        to_come = max(0, self._expected_bytes - len(self._received))  # what is there does not come once more
        return 1 << max(0, to_come.bit_length() - 1)

    def _may_take(self) -> bool:
        return not self._unsent and self._is_next_one_due()

    def _is_next_one_due(self) -> bool:
        requests = self._requests
        return (
            requests.has_request()
            and requests.not_before <= time.monotonic()
            and (self.is_idle or not self._connection.has_to_sign_in)
        )

    def _send(self) -> bool:
        """Sends what the socket takes; whether it took anything."""
        moved = False
        while True:
            if not self._unsent:
                size = 0
                while size < _SENT_AT_ONCE and self._is_next_one_due() and not self._connection.has_to_sign_in:
                    size += self._take()
                if not size:
                    return moved
            sock = self._connection.sock
            try:
                if isinstance(sock, ssl.SSLSocket):
                    count = sock.send(self._unsent[0])
                else:
                    count = sock.sendmsg([self._unsent[n] for n in range(min(len(self._unsent), _PIECES_AT_ONCE))])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return moved
            moved = True
            self._sent(count)

    def _take(self) -> int:
        request = self._requests.next_request()
        self.is_used = True
        correlation, header = self._connection.header(request.api, request.version, request.size)
        size = len(header) + request.size
        since = self._connection.traffic.requested(size)
        self._expected.append(_Expected(correlation, request.on_answer, request.least_answer, since))
        self._expected_bytes += request.least_answer
        self._unsent.append(header)
        self._unsent += request.pieces
        return size

    def _sent(self, count: int) -> None:
        unsent = self._unsent
        while count:
            first = unsent.popleft()
            if count < len(first):
                unsent.appendleft(memoryview(first)[count:])
                return
            count -= len(first)

    def _receive(self) -> bool:
        """Takes in the answers that have come; whether anything has."""
        moved = False
        while True:
            try:
                received = self._connection.sock.recv(_RECEIVED_AT_ONCE)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return moved
            if not received:
                raise ConnectionLost(f"{self._connection}: the broker has closed the connection")
            moved = True
            self._received += received
            self._take_answers()

    def _take_answers(self) -> None:
        received = self._received
        while len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if length > SMALL_ANSWER:
                raise AnswerTooLarge(
                    f"{self._connection}: an answer of {length} bytes, and at most {SMALL_ANSWER} are taken"
                )
            if length < _LENGTH.size or not self._expected:
                raise ProtocolError(f"{self._connection}: an answer of {length} bytes that nobody asked for")
            end = _LENGTH.size + length
            if len(received) < end:
                return
            answer = memoryview(received[_LENGTH.size : end])  # of a copy: what is received goes on changing
            del received[:end]
            correlation, on_answer, least, since = self._expected[0]
            self._connection.traffic.answered(end, since)
            try:
                on_answer(body_of(answer, correlation))
            except ProtocolError as error:
                raise self._connection.named(error) from None
            self._expected_bytes -= least
            self._expected.popleft()  # only now: what an answer that is refused was about stays in doubt
