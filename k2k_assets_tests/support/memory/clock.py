"""Clocks: one that only a test moves, and one that is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from k2k_assets.kafka import clients

_TIME = time.time


class FakeClock:
    """Seconds pass only when somebody says so.

    Attributes:
        now: The time, also the time of day.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float, /) -> None:
        """Lets time pass."""
        self.now += seconds

    sleep = advance


class Clock:
    """The time of day, so much too late or too early.

    Attributes:
        off: Seconds that it is fast; less than 0: slow.
        steps: Seconds that each look at it moves it on.
    """

    def __init__(self, off: float = 0.0) -> None:
        self.off = off
        self.steps = 0.0

    def __call__(self) -> float:
        self.off += self.steps
        return _TIME() + self.off


@contextmanager
def going_by(clock: Clock) -> Iterator[None]:
    """Lets this process go by a clock, with the records that its clients write."""

    class Late(Producer):
        """librdkafka asks the system for the time of a record that has none: the same wrong clock."""

        def produce(  # type: ignore[override]  # what our clients hand over
            self, topic: str, value: Any, key: Any, partition: int = -1, *rest: Any, **more: Any
        ) -> None:
            if len(rest) < 2 and "timestamp" not in more:
                more["timestamp"] = int(clock() * 1000)
            super().produce(topic, value, key, partition, *rest, **more)

    time.time, clients.Producer = clock, Late  # type: ignore[attr-defined]
    try:
        yield
    finally:
        time.time, clients.Producer = _TIME, Producer  # type: ignore[attr-defined]
