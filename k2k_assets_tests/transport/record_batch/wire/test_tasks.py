"""Loops of tasks: whichever loop of a thread waits, the tasks of the others go on, and their errors stay with them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.tasks import READ, Loop, Task, Wait
from k2k_assets_tests.support.brokers.kafka import SECONDS

FOREVER = float("inf")


class Line:
    """A task that reads what is sent to it."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.received = b""

    def task(self) -> Task[bytes]:
        yield Wait(FOREVER, self.near, READ)
        self.received = self.near.recv(100)
        return self.received

    def failing(self) -> Task[None]:
        yield Wait(FOREVER, self.near, READ)
        raise ConnectionLost("it is lost")


@pytest.fixture
def lines() -> Iterator[tuple[Line, Line]]:
    both = Line(), Line()
    yield both
    for line in both:
        line.near.close()
        line.far.close()


def _answered(line: Line) -> Task[None]:
    """Answers only when it is resumed for the second time, and then ends."""
    yield Wait(0.0)
    line.far.sendall(b"answer")


def test_while_one_loop_waits_the_tasks_of_the_other_go_on(lines: tuple[Line, Line]) -> None:
    first, second = lines
    loops: list[Loop] = []
    source, sink = Loop(loops), Loop(loops)
    source.start(first.task())
    sink.start(_answered(first))
    sink.run(SECONDS, lambda: first.received != b"")
    assert first.received == b"answer"
    second.far.sendall(b"more")
    source.start(second.task())
    assert sink.complete(_reading(first, second)) == b"more"


def _reading(line: Line, other: Line) -> Task[bytes]:
    """Returns only after the task of another loop has read."""
    yield Wait(FOREVER, ready=lambda: other.received != b"")
    line.far.sendall(b"end")
    yield Wait(FOREVER, line.near, READ)
    return other.received


def test_a_loop_alone_runs_no_other(lines: tuple[Line, Line]) -> None:
    first, second = lines
    alone, other = Loop(), Loop()
    first.far.sendall(b"x")
    second.far.sendall(b"y")
    alone.start(first.task())
    other.start(second.task())
    alone.run(SECONDS, lambda: first.received != b"")
    assert (first.received, second.received) == (b"x", b"")


def test_what_a_task_raises_is_told_to_who_runs_its_own_loop(lines: tuple[Line, Line]) -> None:
    first, second = lines
    loops: list[Loop] = []
    source, sink = Loop(loops), Loop(loops)
    source.start(first.failing())
    first.far.sendall(b"x")
    second.far.sendall(b"y")
    sink.start(second.task())
    sink.run(SECONDS, lambda: second.received != b"" and not source._waiting)
    with pytest.raises(ConnectionLost, match="it is lost"):
        source.run(SECONDS, lambda: True)
    source.run(0, lambda: True)  # it is told once


def test_one_task_to_its_end_lets_the_others_of_its_loop_wait(lines: tuple[Line, Line]) -> None:
    first, second = lines
    loop = Loop()
    second.far.sendall(b"y")
    loop.start(second.task())
    first.far.sendall(b"x")
    assert loop.complete(first.task()) == b"x"
    assert second.received == b""
    loop.run(SECONDS, lambda: second.received != b"")


def test_a_loop_that_is_closed_is_out_of_the_round(lines: tuple[Line, Line]) -> None:
    first, _ = lines
    loops: list[Loop] = []
    source, sink = Loop(loops), Loop(loops)
    source.start(first.task())
    source.close()
    source.close()
    first.far.sendall(b"x")
    sink.run(0, lambda: True)
    assert (loops, first.received) == ([sink], b"")
