"""A connection to one broker: opened, signed in, one request at a time, everything with a deadline and a size limit."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from k2k_assets.transport.record_batch.errors import (
    AnswerTooLarge,
    ConnectionLost,
    LoginRefused,
    NotByBatches,
    NotReached,
    ProtocolError,
    error_text,
)
from k2k_assets.transport.record_batch.wire import control_messages as messages
from k2k_assets.transport.record_batch.wire import fetch_messages
from k2k_assets.transport.record_batch.wire.control_messages import ASKED_VERSIONS, SpokenVersions
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS, Reader, old_text
from k2k_assets.transport.record_batch.wire.resolver import resolved
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import READ, WRITE, T, Task, Wait

_HEADER: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">i")
# How a flexible answer begins: the number of the request, and how many tagged fields there are.
_FLEXIBLE: Final = struct.Struct(">ib")
# The other requests' answers are small, unless a cluster has thousands of brokers or a topic as many partitions.
SMALL_ANSWER = 16 * 1024 * 1024
"""Size limit for answers that hold no records, in bytes."""
# Credentials are shown again after this share of the time for which they are good.
_REAUTHENTICATE_AFTER = 0.85
# A long answer over a slow line may take longer than a short one: it comes with so many bytes a second at least.
_SLOWEST = 50_000
# Of a long answer so much has to be there before somebody is woken to take it.
_WORTH_WAKING = 512 * 1024
# How a record of TLS begins, read as a length: a broker that expects TLS may answer by an alert.
_TLS_ALERT: Final = range(0x15030000, 0x15030400)
_UNSUPPORTED_MECHANISM: Final = 33
_FOREVER = float("inf")
_UNDER_WAY, _CONNECTED = (errno.EINPROGRESS, errno.EALREADY), (0, errno.EISCONN)


class BrokerConnection:
    """A connection to one broker.

    Args:
        address: Host and port.
        settings: How it is opened.

    Attributes:
        spoken: What the broker speaks, once it is open.
        traffic: Counts what goes over it.
    """

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self.address = address
        self.spoken = SpokenVersions()
        self._settings = settings
        self._sock: socket.socket | None = None
        self._correlation = 0
        self._client = old_text(settings.client_id)
        self.traffic = settings.traffic
        self._sign_in_at = _FOREVER
        self._wakes_from = 1
        self._answers = 0

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def open(self, within: float = _FOREVER) -> Task[None]:
        """Connects and signs in. Of the addresses of a name each has its share of the time.

        Args:
            within: For how many seconds at most, if the settings allow more.

        Raises:
            ConnectionLost: It does not work, or not in time.
            NotByBatches: The broker speaks no version of an API that is spoken here.
        """
        try:
            yield from self._open_anywhere(time.monotonic() + min(within, self._settings.setup_seconds))
        except NotReached:
            self._settings.silent.add(self.address)
            raise
        self._settings.silent.discard(self.address)

    def _open_anywhere(self, deadline: float) -> Task[None]:
        found = yield from resolved(self.address, deadline)
        for place, left in zip(found, range(len(found), 0, -1), strict=True):
            now = time.monotonic()
            try:
                yield from self._open_at(*place, now + (deadline - now) / left)
                return
            except NotReached:
                self.close()
                if left == 1:
                    raise
            except BaseException:
                self.close()
                raise

    def _open_at(self, family: int, place: tuple[object, ...], deadline: float) -> Task[None]:
        try:
            yield from self._connect(family, place, deadline)
        except OSError as error:
            raise NotReached(f"{self}: cannot be connected to: {error}") from None
        if self._settings.tls is not None:
            yield from self._encrypt(deadline)
        yield from self._learn_versions(deadline)
        if self._settings.mechanism is not None:
            yield from self._sign_in(deadline)

    def ask(
        self,
        api: int,
        version: int,
        body: bytes,
        read: Callable[[memoryview], T],
        limit: int = SMALL_ANSWER,
        held_back: float = 0,
        within: float = _FOREVER,
    ) -> Task[T]:
        """Sends a request, and returns its answer.

        Args:
            api: The API.
            version: Its version.
            body: The request behind its header.
            read: Reads the body of the answer; a `ProtocolError` of it gets the broker's name.
            limit: Size limit of the answer, in bytes.
            held_back: For how many seconds the broker may hold the answer back.
            within: For how many seconds it is waited for at most, if the settings allow more.

        Raises:
            ConnectionLost: No answer, or none that can be one. The connection is closed.
        """
        yield from self.sign_in_if_due(within)
        deadline = time.monotonic() + min(within, self._settings.answer_seconds + held_back)
        return (yield from self._ask(api, version, body, read, limit, deadline))

    @property
    def has_to_sign_in(self) -> bool:
        """Whether its credentials have to be shown again before the next request."""
        return time.monotonic() >= self._sign_in_at

    def sign_in_if_due(self, within: float = _FOREVER) -> Task[None]:
        """Shows the credentials again if their time ends; no answer may be under way."""
        if self.has_to_sign_in:
            yield from self._sign_in(time.monotonic() + min(within, self._settings.answer_seconds))

    def header(self, api: int, version: int, size: int) -> tuple[int, bytes]:
        """What comes before the body of a request that somebody else sends.

        Args:
            api: The API; a flexible version of it.
            version: Its version.
            size: Bytes of the body.

        Returns:
            The number that the answer bears, and the header with the length of all.
        """
        correlation, header = self._header(api, version, flexible=True)
        return correlation, _LENGTH.pack(len(header) + size) + header

    @property
    def sock(self) -> socket.socket:
        """Its socket.

        Raises:
            ConnectionLost: It is closed.
        """
        return self._opened()

    def wake_from(self, count: int) -> None:
        """Lets `poll` tell of the socket when so many bytes are there, or its buffer is full, or no more will come.

        It changes nothing where the connection is encrypted: bytes of answers are not those of the socket then.
        """
        sock = self._opened()
        if count != self._wakes_from and not isinstance(sock, ssl.SSLSocket):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._wakes_from = count

    def is_open(self) -> bool:
        """Whether an idle connection is open: the broker may have closed it meanwhile. A request finds out too late."""
        if self._sock is None:
            return False
        try:
            self._sock.recv(1)  # no answer is under way, so that whatever comes is the end
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Closes it at once."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
            self.traffic.disconnected()

    def _connect(self, family: int, place: tuple[object, ...], deadline: float) -> Task[None]:
        sock = self._sock = socket.socket(family, socket.SOCK_STREAM)
        self.traffic.connected()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._settings.keep_alive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Asked again, it tells what became of the attempt. The wait may have ended because the time is over.
        while (code := sock.connect_ex(place)) in _UNDER_WAY:
            yield from self._wait(WRITE, deadline)
        if code not in _CONNECTED:
            raise OSError(code, os.strerror(code))

    def _encrypt(self, deadline: float) -> Task[None]:
        tls, sock = self._settings.tls, self._sock
        assert tls is not None
        assert sock is not None
        try:
            secured = tls.context.wrap_socket(sock, server_hostname=self.address[0], do_handshake_on_connect=False)
            self._sock = secured
            yield from self._shake_hands(secured, deadline)
        except ssl.SSLCertVerificationError as error:
            raise LoginRefused(f"{self}: SSL routines: {error}") from None
        except (OSError, ValueError) as error:  # also a name that can be in no certificate
            raise ConnectionLost(f"{self}: SSL routines: {error}") from None

    def _shake_hands(self, secured: ssl.SSLSocket, deadline: float) -> Task[None]:
        while True:
            try:
                secured.do_handshake()
                return
            except ssl.SSLWantReadError:
                yield from self._wait(READ, deadline)
            except ssl.SSLWantWriteError:
                yield from self._wait(WRITE, deadline)

    def _learn_versions(self, deadline: float) -> Task[None]:
        api = messages.API_VERSIONS
        self.spoken = yield from self._step(api, messages.api_versions(), messages.read_api_versions, deadline)
        if self.spoken.error:
            why = error_text(self.spoken.error)
            raise NotByBatches([f"the broker {self} does not say which versions it speaks: {why}"])
        for api, version in ASKED_VERSIONS.items():
            if "Sasl" not in messages.NAMES[api] or self._settings.mechanism is not None:
                self.version_of(api, version, version)
        self.version_of(messages.FETCH, fetch_messages.OLDEST, fetch_messages.NEWEST)

    @property
    def fetch_version(self) -> int:
        """Version of Fetch that both sides speak."""
        return self.version_of(messages.FETCH, fetch_messages.OLDEST, fetch_messages.NEWEST)

    def version_of(self, api: int, oldest: int, newest: int) -> int:
        """The newest version of an API that both sides speak, once it is open.

        Args:
            api: The API.
            oldest: The oldest version that is spoken here.
            newest: The newest one.

        Raises:
            NotByBatches: There is none.
        """
        found = self.spoken.by_api.get(api)
        if found is None or found.newest < oldest or found.oldest > newest:
            has = "not at all" if found is None else f"in versions {found.oldest} to {found.newest}"
            needed = f"{oldest} to {newest} are" if newest > oldest else f"{newest} is"
            raise NotByBatches([f"the broker {self} speaks {messages.NAMES[api]} {has}, and {needed} needed"])
        return min(found.newest, newest)

    def _sign_in(self, deadline: float) -> Task[None]:
        """Shows the credentials, for the first time or again on the same connection (KIP-368)."""
        try:
            yield from self._authenticate(deadline)
        except LoginRefused as refused:
            self.close()
            raise LoginRefused(f"{self}: SASL authentication error: {refused}") from None

    def _authenticate(self, deadline: float) -> Task[None]:
        mechanism = self._settings.mechanism
        assert mechanism is not None
        self._sign_in_at = _FOREVER
        error, known = yield from self._step(
            messages.SASL_HANDSHAKE, messages.sasl_handshake(mechanism.name), messages.read_sasl_handshake, deadline
        )
        if error == _UNSUPPORTED_MECHANISM:
            raise LoginRefused(f"it takes {', '.join(known) or 'no mechanism'}, not {mechanism.name}")
        if error:
            raise LoginRefused(f"{error_text(error)} (does it expect a login at this port?)")
        exchange = mechanism.exchange()
        token = next(exchange)
        while True:
            body = messages.sasl_authenticate(token)
            said = yield from self._step(messages.SASL_AUTHENTICATE, body, messages.read_sasl_authenticate, deadline)
            if said.error:
                raise LoginRefused(said.words or error_text(said.error))
            if said.lifetime > 0:
                self._sign_in_at = time.monotonic() + said.lifetime * _REAUTHENTICATE_AFTER
            try:
                token = exchange.send(said.token)
            except StopIteration:
                return

    def _step(self, api: int, body: bytes, read: Callable[[memoryview], T], deadline: float) -> Task[T]:
        return (yield from self._ask(api, ASKED_VERSIONS[api], body, read, SMALL_ANSWER, deadline))

    def _ask(
        self, api: int, version: int, body: bytes, read: Callable[[memoryview], T], limit: int, deadline: float
    ) -> Task[T]:
        flexible = api != messages.SASL_HANDSHAKE
        correlation, header = self._header(api, version, flexible)
        request = header + body
        sent_at = self.traffic.requested(len(request) + _LENGTH.size)
        try:
            yield from self._send(_LENGTH.pack(len(request)) + request, deadline)
            answer = yield from self._receive(limit, deadline)
            self.traffic.answered(len(answer) + _LENGTH.size, sent_at)
            self._answers += 1
            # The answer about versions is one that old clients can read, too.
            try:
                return read(body_of(answer, correlation, flexible and api != messages.API_VERSIONS))
            except ProtocolError as error:
                raise self.named(error) from None
        except OSError as error:
            self.traffic.errors += 1
            self.close()
            raise ConnectionLost(f"{self}: {error}{self._why_closed()}") from None
        except BaseException as error:  # also when the task ends here: half an answer cannot be read on
            self.traffic.errors += isinstance(error, ConnectionLost)
            self.close()
            raise

    def _header(self, api: int, version: int, flexible: bool) -> tuple[int, bytes]:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        header = _HEADER.pack(api, version, self._correlation) + self._client
        return self._correlation, header + (NO_TAGS if flexible else b"")

    def _send(self, content: bytes, deadline: float) -> Task[None]:
        left = memoryview(content)
        while left:
            sock = self._opened()
            try:
                left = left[sock.send(left) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                yield from self._wait(WRITE, deadline)
            except ssl.SSLWantReadError:
                yield from self._wait(READ, deadline)

    def _receive(self, limit: int, deadline: float) -> Task[memoryview]:
        head = bytearray(_LENGTH.size)
        yield from self._fill(memoryview(head), deadline)
        (length,) = _LENGTH.unpack(head)
        if length in _TLS_ALERT and self._settings.tls is None:
            raise ProtocolError(f"{self}: it answers by TLS, and security.protocol says that it does not speak it")
        if length > limit:
            raise AnswerTooLarge(f"{self}: an answer of {length} bytes, and at most {limit} are taken")
        if length < _LENGTH.size:
            raise ProtocolError(f"{self}: an answer of {length} bytes")
        # Not zeroed, so that pages are taken only as they are filled: a mere claim costs no memory.
        frame = np.empty(length, np.uint8).data
        yield from self._fill(frame, deadline)
        self.wake_from(1)
        return frame

    def _fill(self, space: memoryview, deadline: float) -> Task[None]:
        while space:
            sock = self._opened()
            try:
                count = sock.recv_into(space)
                if count == 0:
                    raise ConnectionLost(f"{self}: the broker has closed the connection{self._why_closed()}")
                space = space[count:]
                deadline += count / _SLOWEST
            except BlockingIOError:
                if len(space) >= _WORTH_WAKING:
                    self.wake_from(_WORTH_WAKING)
                elif self._wakes_from > 1:
                    self.wake_from(len(space))
                yield from self._wait(READ, deadline)
            except ssl.SSLWantReadError:
                yield from self._wait(READ, deadline)
            except ssl.SSLWantWriteError:
                yield from self._wait(WRITE, deadline)
            if space and time.monotonic() >= deadline:
                raise self._late()

    def _why_closed(self) -> str:
        """What a broker may expect that closes the connection with one of the first requests."""
        if not self._answers and self._settings.tls is None:
            return " at the first request (does it expect TLS? security.protocol says that it does not)"
        if self._answers == 1 and self._settings.mechanism is None:
            return " at the first request (does it expect a login? security.protocol says that it does not)"
        return ""

    def named(self, error: ProtocolError) -> ProtocolError:
        """What is wrong with an answer, with the address before it."""
        return type(error)(f"{self}: {error}")

    def _opened(self) -> socket.socket:
        if self._sock is None:
            raise ConnectionLost(f"{self}: the connection is closed")
        return self._sock

    def _late(self) -> NotReached:
        self.traffic.timeouts += 1
        return NotReached(f"{self}: no answer in time")

    def _wait(self, events: int, deadline: float) -> Task[None]:
        if time.monotonic() >= deadline:
            raise self._late()
        yield Wait(deadline, self._opened(), events)


def body_of(answer: memoryview, correlation: int, flexible: bool = True) -> memoryview:
    """The body of an answer.

    Args:
        answer: All of it, behind its length.
        correlation: The number of the request.
        flexible: Whether its header has tagged fields.

    Raises:
        ProtocolError: It answers another request.
    """
    if flexible and len(answer) >= _FLEXIBLE.size and _FLEXIBLE.unpack_from(answer) == (correlation, 0):
        return answer[_FLEXIBLE.size :]
    reader = Reader(answer)
    found = reader.int32()
    if found != correlation:
        raise ProtocolError(f"an answer to request {found}, and {correlation} was asked")
    if flexible:
        reader.tags()
    return reader.view(reader.left)
