"""Connections to brokers that are slow, silent, lie about lengths, or are none."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.transport.record_batch.errors import (
    AnswerTooLarge,
    ConnectionLost,
    LoginRefused,
    NotByBatches,
    ProtocolError,
)
from k2k_assets.transport.record_batch.wire import connection as connection_module
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.resolver import ResolvedNames
from k2k_assets.transport.record_batch.wire.settings import Address, SourceSettings, settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task, Wait
from k2k_assets_tests.support.brokers.black_hole import black_hole, deaf_broker
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import read_frame

Script = Callable[[socket.socket], None]
VERSIONS = {1: (4, 17), 2: (1, 10), 3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
SHORT = 0.3
PLAIN = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


def _frame(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation) + body


def _versions(known: dict[int, tuple[int, int]]) -> bytes:
    ranges = b"".join(struct.pack(">hhh", api, *found) + b"\0" for api, found in known.items())
    return struct.pack(">h", 0) + bytes([len(known) + 1]) + ranges + struct.pack(">i", 0) + b"\0"


def _correlation(sock: socket.socket) -> int:
    request = read_frame(sock)
    assert request is not None
    return int(struct.unpack_from(">i", request, 8)[0])


def _greets(sock: socket.socket, known: dict[int, tuple[int, int]] = VERSIONS) -> None:
    sock.sendall(_frame(_correlation(sock), _versions(known)))


@contextmanager
def _broker(script: Script) -> Iterator[SourceSettings]:
    """Plays a broker for each connection; yields settings by which it is found."""

    def serve(sock: socket.socket) -> None:
        with sock, suppress(OSError, AssertionError):
            script(sock)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        found = settings_of({"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}"})
        yield replace(found, setup_seconds=SECONDS, answer_seconds=SECONDS)
        listener.shutdown(socket.SHUT_RDWR)


def _opened(settings: SourceSettings) -> tuple[Loop, BrokerConnection]:
    loop, connection = Loop(), BrokerConnection(settings.servers[0], settings)
    loop.complete(connection.open())
    return loop, connection


def _address(settings: SourceSettings) -> str:
    host, port = settings.servers[0]
    return f"{host}:{port}: "


def _silent(sock: socket.socket) -> None:
    read_frame(sock)
    read_frame(sock)  # until the client gives up


def _trickles(sock: socket.socket) -> None:
    correlation = _correlation(sock)
    for byte in _frame(correlation, _versions(VERSIONS)):
        sock.sendall(bytes([byte]))
        time.sleep(0.05)


@pytest.mark.parametrize("script", [_silent, _trickles])
def test_a_broker_that_does_not_answer_in_time_is_given_up(script: Script) -> None:
    with _broker(script) as settings:
        started = time.monotonic()
        with pytest.raises(ConnectionLost, match="no answer in time"):
            _opened(replace(settings, setup_seconds=SHORT))
        assert time.monotonic() - started >= SHORT


def _of_one_name(monkeypatch: pytest.MonkeyPatch, *addresses: Address, seconds: float = 2 * SHORT) -> SourceSettings:
    """Settings with one name that stands for all of them."""

    def resolved(address: Address, deadline: float) -> Task[ResolvedNames]:
        yield Wait(0.0)
        return [(socket.AF_INET, each) for each in addresses]

    monkeypatch.setattr(connection_module, "resolved", resolved)
    return replace(settings_of({"bootstrap.servers": "kafka:9092"}), setup_seconds=seconds)


@pytest.mark.parametrize("silent", [black_hole, deaf_broker])
def test_of_a_name_with_several_addresses_the_next_one_is_tried_when_one_is_silent(
    monkeypatch: pytest.MonkeyPatch, silent: Callable[[], AbstractContextManager[Address]]
) -> None:
    with silent() as first, _broker(_greets) as answering:
        _, connection = _opened(_of_one_name(monkeypatch, first, *answering.servers, seconds=4.0))
        assert connection.fetch_version == 16
        connection.close()


def test_a_name_of_which_all_addresses_are_silent_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with black_hole() as one, black_hole() as other:
        settings = _of_one_name(monkeypatch, one, other)
        started = time.monotonic()
        with pytest.raises(ConnectionLost, match="kafka:9092: no answer in time"):
            _opened(settings)
        assert 2 * SHORT <= time.monotonic() - started < SECONDS
    assert settings.traffic.open_connections == 0


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (struct.pack(">i", 2**31 - 1), AnswerTooLarge, "2147483647 bytes"),
        (struct.pack(">i", -5), ProtocolError, "-5 bytes"),
        (struct.pack(">i", 3) + b"abc", ProtocolError, "3 bytes"),
        (_frame(99, _versions(VERSIONS)), ProtocolError, "answer to request 99"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", AnswerTooLarge, "bytes"),
        (b"", ConnectionLost, r"closed the connection at the first request \(does it expect TLS\?"),
        (bytes.fromhex("15030300020250"), ProtocolError, "it answers by TLS, and security.protocol says"),
        (bytes.fromhex("15030100020228"), ProtocolError, "it answers by TLS, and security.protocol says"),
        (_frame(1, b"\0"), ProtocolError, "an answer ends too early"),
    ],
)
def test_what_is_no_answer_ends_the_connection(answer: bytes, error: type[Exception], words: str) -> None:
    def script(sock: socket.socket) -> None:
        read_frame(sock)
        sock.sendall(answer)

    with _broker(script) as settings, pytest.raises(error, match=words) as said:
        _opened(settings)
    assert str(said.value).startswith(_address(settings))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLost, match="cannot be connected to"):
        _opened(settings_of({"bootstrap.servers": f"127.0.0.1:{port}"}))


def test_a_name_that_is_none() -> None:
    settings = settings_of({"bootstrap.servers": "no-such-host.invalid:1"})
    with pytest.raises(ConnectionLost, match=r"no-such-host\.invalid: the name cannot be resolved"):
        _opened(settings)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({**VERSIONS, 1: (4, 11)}, "speaks Fetch in versions 4 to 11, and 12 to 16 are needed"),
        ({**VERSIONS, 3: (0, 11)}, "speaks Metadata in versions 0 to 11, and 12 is needed"),
        ({api: found for api, found in VERSIONS.items() if api != 2}, "speaks ListOffsets not at all"),
    ],
)
def test_a_broker_that_is_too_old_is_left_to_the_other_client(known: dict[int, tuple[int, int]], words: str) -> None:
    with _broker(lambda sock: _greets(sock, known)) as settings, pytest.raises(NotByBatches, match=words):
        _opened(settings)


def test_it_speaks_the_newest_version_that_both_know() -> None:
    for newest, expected in ((12, 12), (14, 14), (18, 16)):
        known = {**VERSIONS, 1: (4, newest)}
        with _broker(lambda sock, known=known: _greets(sock, known)) as settings:  # type: ignore[misc]
            assert _opened(settings)[1].fetch_version == expected


def test_an_answer_may_be_held_back_for_as_long_as_was_agreed() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        correlation = _correlation(sock)
        time.sleep(2 * SHORT)
        sock.sendall(_frame(correlation, b"\0late"))

    with _broker(script) as found:
        loop, connection = _opened(replace(found, answer_seconds=SHORT))
        assert bytes(loop.complete(connection.ask(3, 12, b"", bytes, held_back=SECONDS))) == b"late"


def test_a_refused_login_is_said_without_the_password() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        sock.sendall(_frame(_correlation(sock), struct.pack(">hi", 0, 0)))
        refusal = struct.pack(">h", 58) + b"\x0fwrong password" + b"\x01" + struct.pack(">q", 0) + b"\0"
        sock.sendall(_frame(_correlation(sock), b"\0" + refusal))

    with _broker(script) as plain:
        refused = settings_of({"bootstrap.servers": "x:1", **PLAIN, "sasl.password": "hidden"})
        settings = replace(plain, mechanism=refused.mechanism)
        with pytest.raises(LoginRefused, match="SASL authentication error: wrong password") as said:
            _opened(settings)
    assert "hidden" not in str(said.value)


def test_a_mechanism_that_the_broker_does_not_take_is_said() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        sock.sendall(_frame(_correlation(sock), struct.pack(">hih", 33, 1, 5) + b"OTHER"))

    with _broker(script) as plain:
        settings = replace(plain, mechanism=settings_of({"bootstrap.servers": "x:1", **PLAIN}).mechanism)
        with pytest.raises(LoginRefused, match="it takes OTHER, not PLAIN"):
            _opened(settings)


def test_a_broker_that_expects_no_login_is_said() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        sock.sendall(_frame(_correlation(sock), struct.pack(">hi", 34, 0)))

    with _broker(script) as plain:
        settings = replace(plain, mechanism=settings_of({"bootstrap.servers": "x:1", **PLAIN}).mechanism)
        with pytest.raises(LoginRefused, match=r"ILLEGAL_SASL_STATE.*does it expect a login at this port\?") as said:
            _opened(settings)
        assert str(said.value).startswith(_address(settings))


def test_a_broker_that_expects_a_login_is_said() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        read_frame(sock)

    with _broker(script) as settings:
        loop, connection = _opened(settings)
        with pytest.raises(ConnectionLost, match=r"at the first request \(does it expect a login\?"):
            loop.complete(connection.ask(3, 12, b"", bytes))


def test_a_broker_that_closes_later_on_is_not_suspected() -> None:
    def script(sock: socket.socket) -> None:
        _greets(sock)
        sock.sendall(_frame(_correlation(sock), b"\0answer"))
        read_frame(sock)

    with _broker(script) as settings:
        loop, connection = _opened(settings)
        assert bytes(loop.complete(connection.ask(3, 12, b"", bytes))) == b"answer"
        with pytest.raises(ConnectionLost, match=r"closed the connection$"):
            loop.complete(connection.ask(3, 12, b"", bytes))


def test_credentials_are_shown_again_before_they_end() -> None:
    logins: list[float] = []
    taken = struct.pack(">hi", 0, 0)

    def script(sock: socket.socket) -> None:
        _greets(sock)
        while True:
            request = read_frame(sock)
            assert request is not None
            api, _, correlation = struct.unpack_from(">hhi", request, 4)
            if api == 17:
                sock.sendall(_frame(correlation, taken))
            elif api == 36:
                logins.append(time.monotonic())
                lifetime = struct.pack(">q", int(SHORT * 1000))
                sock.sendall(_frame(correlation, b"\0" + struct.pack(">h", 0) + b"\0\1" + lifetime + b"\0"))
            else:
                sock.sendall(_frame(correlation, b"\0answer"))

    with _broker(script) as plain:
        mechanism = settings_of({"bootstrap.servers": "x:1", **PLAIN}).mechanism
        loop, connection = _opened(replace(plain, mechanism=mechanism))
        deadline = Deadline(SECONDS)
        while len(logins) < 3 and not deadline.expired():
            assert bytes(loop.complete(connection.ask(3, 12, b"", bytes))) == b"answer"
    assert len(logins) == 3


def test_tls_to_a_broker_without_it_is_said() -> None:
    with _broker(lambda sock: sock.sendall(b"plain text") if sock.recv(10) else None) as plain:
        tls = settings_of({"bootstrap.servers": "x:1", "security.protocol": "ssl"}).tls
        with pytest.raises(ConnectionLost, match="SSL routines"):
            _opened(replace(plain, tls=tls))


def test_a_silent_broker_under_tls_is_given_up() -> None:
    with _broker(_silent) as plain:
        tls = settings_of({"bootstrap.servers": "x:1", "security.protocol": "ssl"}).tls
        with pytest.raises(ConnectionLost, match="no answer in time"):
            _opened(replace(plain, tls=tls, setup_seconds=SHORT))
