"""Requests one behind the other on one connection: answers in order, in any pieces; what is no answer ends it."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from k2k_assets.transport.record_batch.errors import AnswerTooLarge, ConnectionLost, LoginRefused, ProtocolError
from k2k_assets.transport.record_batch.wire.connection import SMALL_ANSWER, BrokerConnection
from k2k_assets.transport.record_batch.wire.request_pipeline import BrokerRequest, RequestPipeline
from k2k_assets.transport.record_batch.wire.settings import settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import read_frame

API, VERSION = 0, 12
LEAST_ANSWER = 10


class Requests:
    """Requests in a list.

    Args:
        bodies: Their bodies.
        least_answers: Bytes that the answers to the first ones have at least.

    Attributes:
        answers: What came, in order.
        refuses: Whether what comes is taken for no answer.
    """

    def __init__(self, bodies: list[list[bytes | memoryview]], least_answers: Sequence[int] = ()) -> None:
        self.not_before = 0.0
        self.waiting = deque(bodies)
        self._least_answers = deque(least_answers)
        self.answers: list[bytes] = []
        self.refuses = False

    def has_request(self) -> bool:
        return bool(self.waiting)

    def next_request(self) -> BrokerRequest:
        pieces = self.waiting.popleft()
        least = self._least_answers.popleft() if self._least_answers else LEAST_ANSWER
        return BrokerRequest(API, VERSION, pieces, sum(map(len, pieces)), self._take, least_answer=least)

    def _take(self, answer: memoryview) -> None:
        if self.refuses:
            raise ProtocolError("it is refused")
        self.answers.append(bytes(answer))


class Line:
    """A pipeline, and the broker's end of its connection."""

    def __init__(
        self, requests: Requests, ends: tuple[socket.socket, socket.socket] | None, properties: Mapping[str, str]
    ) -> None:
        settings = settings_of({"bootstrap.servers": "broker:1", **properties})
        self.connection = BrokerConnection(("broker", 1), settings)
        self.connection._sock, self.broker = ends or socket.socketpair()
        self.connection._sock.setblocking(False)
        self.broker.settimeout(SECONDS)
        self.pipeline = RequestPipeline(self.connection, requests)
        self.loop = Loop()

    def start(self) -> None:
        self.loop.start(self.pipeline.run())

    def received(self) -> bytes:
        frame = read_frame(self.broker)
        assert frame is not None
        return frame


@contextmanager
def _line(
    requests: Requests,
    ends: tuple[socket.socket, socket.socket] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Line]:
    line = Line(requests, ends, properties or {})
    try:
        yield line
    finally:
        line.loop.stop()
        line.connection.close()
        line.broker.close()


def _over_tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        return client, server.accept()[0]


def _answer_to(request: bytes, body: bytes) -> bytes:
    (correlation,) = struct.unpack_from(">i", request, 8)
    return struct.pack(">ii", len(body) + 5, correlation) + b"\0" + body


def test_requests_go_without_waiting_and_answers_come_in_order_in_any_pieces() -> None:
    requests = Requests([[b"one", memoryview(b"ONE")], [b"2"], [b"three"]])
    with _line(requests) as line:
        line.start()
        frames = [line.received() for _ in range(3)]
        assert [frame[-6:] for frame in frames[::2]] == [b"oneONE", b"\0three"]
        assert not line.pipeline.is_idle
        content = b"".join(_answer_to(frame, b"to %d" % n) for n, frame in enumerate(frames))
        for byte in content:
            line.broker.sendall(bytes([byte]))
            line.loop.run(0, lambda: False)
        line.loop.run(SECONDS, lambda: len(requests.answers) == 3)
        assert requests.answers == [b"to 0", b"to 1", b"to 2"]
        assert line.pipeline.is_idle


@pytest.mark.parametrize("at_once", [1, 7, 200])
def test_of_many_answers_the_last_one_is_taken_too(at_once: int) -> None:
    """Nobody is woken for each answer while many have to come; none of them may be waited for in vain."""
    requests = Requests([[b"%d" % n] for n in range(200)])
    with _line(requests, _over_tcp()) as line:
        line.start()
        line.loop.run(0, lambda: True)
        answers = [_answer_to(line.received(), b"to %d" % n) for n in range(200)]
        for n in range(0, 200, at_once):
            line.broker.sendall(b"".join(answers[n : n + at_once]))
            line.loop.run(0, lambda: True)
        line.loop.run(SECONDS, lambda: len(requests.answers) == 200)
        assert requests.answers == [b"to %d" % n for n in range(200)]


def test_a_slow_brokers_first_answers_are_taken_while_most_are_still_to_come() -> None:
    """They make room for further requests, and tell that the broker is at work."""
    requests = Requests([[b"%d" % n] for n in range(200)])
    with _line(requests, _over_tcp()) as line:
        line.start()
        line.loop.run(0, lambda: True)
        asked = [line.received() for _ in range(200)]
        line.broker.sendall(b"".join(_answer_to(each, b"done") for each in asked[:3]))
        line.loop.run(SECONDS, lambda: len(requests.answers) == 3)
        assert requests.answers == [b"done"] * 3


def test_behind_a_large_answer_that_has_come_in_part_the_small_ones_are_taken_too() -> None:
    """What is there of it does not come any more, so that nobody may wait for as many bytes."""
    large = b"x" * 500 * 33
    requests = Requests([[b"%d" % n] for n in range(11)], least_answers=[len(large)])
    with _line(requests, _over_tcp()) as line:
        line.start()
        line.loop.run(0, lambda: True)
        first, *others = (line.received() for _ in range(11))
        whole = _answer_to(first, large)
        line.broker.sendall(whole[:-100])
        line.loop.run(SECONDS, lambda: len(line.pipeline._received) == len(whole) - 100)
        line.loop.run(0, lambda: False)
        line.broker.sendall(whole[-100:] + b"".join(_answer_to(each, b"done") for each in others))
        line.loop.run(1.0, lambda: len(requests.answers) == 11)
        assert requests.answers == [large, *[b"done"] * 10]


def test_a_request_that_is_larger_than_the_socket_takes_comes_whole() -> None:
    large = bytes(range(256)) * 40_000
    requests = Requests([[memoryview(large), b"end"]])
    with _line(requests) as line:
        line.start()
        received = bytearray()
        line.broker.setblocking(False)
        while not received.endswith(b"end"):
            line.loop.run(0, lambda: True)
            try:
                received += line.broker.recv(1 << 20)
            except BlockingIOError:
                continue
        assert received.endswith(large + b"end")


def test_an_idle_connection_that_is_closed_leaves_nothing_in_doubt() -> None:
    requests = Requests([])
    with _line(requests) as line:
        line.start()
        line.broker.close()
        requests.waiting.append([b"late"])
        with pytest.raises(ConnectionLost, match="closed the connection"):
            line.loop.run(SECONDS, lambda: False)
        assert line.pipeline.is_idle
        assert requests.waiting, "it was not taken"


def test_a_connection_that_is_closed_before_an_answer_leaves_doubt() -> None:
    requests = Requests([[b"one"], [b"two"]])
    with _line(requests) as line:
        line.start()
        first = line.received()
        line.broker.sendall(_answer_to(first, b"done"))
        line.broker.close()
        with pytest.raises(ConnectionLost):
            line.loop.run(SECONDS, lambda: False)
        assert not line.pipeline.is_idle


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (struct.pack(">i", SMALL_ANSWER + 1), AnswerTooLarge, "at most"),
        (struct.pack(">i", -1), ProtocolError, "-1 bytes"),
        (struct.pack(">ii", 5, 99) + b"\0", ProtocolError, "answer to request 99"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", AnswerTooLarge, "bytes"),
    ],
)
def test_what_is_no_answer_ends_it(answer: bytes, error: type[Exception], words: str) -> None:
    requests = Requests([[b"one"]])
    with _line(requests) as line:
        line.start()
        line.received()
        line.broker.sendall(answer)
        with pytest.raises(error, match=words):
            line.loop.run(SECONDS, lambda: False)
        assert requests.answers == []
        assert not line.pipeline.is_idle, "nobody knows what became of the request"


def test_an_answer_that_is_refused_leaves_doubt() -> None:
    requests = Requests([[b"one"], [b"two"]])
    with _line(requests) as line:
        line.start()
        first, second = line.received(), line.received()
        line.broker.sendall(_answer_to(first, b"done"))
        line.loop.run(SECONDS, lambda: bool(requests.answers))
        requests.refuses = True
        line.broker.sendall(_answer_to(second, b"about something else"))
        with pytest.raises(ProtocolError, match="broker:1: it is refused"):
            line.loop.run(SECONDS, lambda: False)
        assert not line.pipeline.is_idle


def test_an_answer_that_nobody_asked_for_ends_it() -> None:
    with _line(Requests([])) as line:
        line.start()
        line.broker.sendall(struct.pack(">ii", 5, 1) + b"\0")
        with pytest.raises(ProtocolError, match="nobody asked for"):
            line.loop.run(SECONDS, lambda: False)


def test_a_broker_that_wants_to_be_left_alone_is() -> None:
    requests = Requests([[b"later"]])
    requests.not_before = float("inf")
    with _line(requests) as line:
        line.start()
        line.loop.run(0, lambda: False)
        assert requests.waiting
        requests.not_before = 0.0
        line.loop.run(SECONDS, lambda: not requests.waiting)
        assert line.received().endswith(b"later")


SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "pw"}
HANDSHAKE, AUTHENTICATE = 17, 36


def _api_of(request: bytes) -> int:
    return int(struct.unpack_from(">h", request, 4)[0])


def _is_silent(line: Line) -> bool:
    """Whether nothing comes from it, although it may send."""
    line.loop.run(0, lambda: False)
    line.broker.setblocking(False)
    try:
        return not line.broker.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        line.broker.settimeout(SECONDS)


def _next_of(line: Line) -> bytes:
    while _is_silent(line):
        continue
    return line.received()


def _taken(request: bytes, error: int = 0) -> bytes:
    """The answer to a step of a login."""
    (correlation,) = struct.unpack_from(">i", request, 8)
    body = struct.pack(">hi", error, 0)
    if _api_of(request) == AUTHENTICATE:
        body = b"\0" + struct.pack(">hBB", error, 1, 1) + struct.pack(">q", 3_600_000) + b"\0"
    return struct.pack(">ii", len(body) + 4, correlation) + body


@pytest.mark.parametrize("count", [2, 40])
def test_credentials_are_shown_between_requests_once_all_are_answered(count: int) -> None:
    """Whatever waits to be sent waits for that: so the time comes, however much is to be sent."""
    requests = Requests([[b"early"] for _ in range(count)])
    with _line(requests, _over_tcp(), SASL) as line:
        line.start()
        early = [_next_of(line) for _ in range(count)]
        line.connection._sign_in_at = 0.0
        requests.waiting.extend([[b"late"], [b"later"]])
        for frame in early[:-1]:
            line.broker.sendall(_answer_to(frame, b"done"))
            assert _is_silent(line), "an answer is outstanding"
        line.broker.sendall(_answer_to(early[-1], b"done"))
        for api in (HANDSHAKE, AUTHENTICATE):
            step = _next_of(line)
            assert _api_of(step) == api
            assert _is_silent(line), "the login is not at its end"
            line.broker.sendall(_taken(step))
        assert [_next_of(line)[-5:] for _ in range(2)] == [b"\0late", b"later"]
        assert len(requests.answers) == count


def test_a_login_that_is_refused_meanwhile_leaves_nothing_in_doubt() -> None:
    requests = Requests([[b"early"]])
    with _line(requests, properties=SASL) as line:
        line.start()
        early = _next_of(line)
        line.connection._sign_in_at = 0.0
        requests.waiting.append([b"late"])
        line.broker.sendall(_answer_to(early, b"done"))
        line.broker.sendall(_taken(_next_of(line)))
        line.broker.sendall(_taken(_next_of(line), error=58))
        with pytest.raises(LoginRefused, match="broker:1: SASL authentication error"):
            line.loop.run(SECONDS, lambda: False)
        assert line.pipeline.is_idle
        assert requests.waiting, "it was not taken"


def test_a_connection_that_is_closed_because_credentials_come_late_leaves_doubt_only_of_what_was_sent() -> None:
    requests = Requests([[b"early"]])
    with _line(requests, properties=SASL) as line:
        line.start()
        _next_of(line)
        line.connection._sign_in_at = 0.0
        requests.waiting.append([b"late"])
        line.broker.close()
        with pytest.raises(ConnectionLost, match="broker:1"):
            line.loop.run(SECONDS, lambda: False)
        assert not line.pipeline.is_idle
        assert requests.waiting, "it was not taken"
