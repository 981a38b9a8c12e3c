"""Records that the target refuses, outside transactions."""

from __future__ import annotations

import pytest

from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.librdkafka import data_producer as module
from k2k_assets.transport.librdkafka.data_producer import DataProducer
from k2k_assets_tests.support.memory.clock import FakeClock


class StuckProducer:
    """Its queue gets shorter only when a test says so, or when it is purged."""

    def __init__(self) -> None:
        self.queued = 0
        self.steps: list[str] = []

    def flush(self, timeout: float) -> int:
        return self.queued

    def purge(self, in_queue: bool = True, in_flight: bool = True) -> None:
        self.steps.append(f"purge {in_queue} {in_flight}")
        self.queued = 0

    def __len__(self) -> int:
        return self.queued


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[StuckProducer]:
    """All producers, the newest last."""
    producers: list[StuckProducer] = []

    def new(*_: object) -> StuckProducer:
        producers.append(StuckProducer())
        return producers[-1]

    monkeypatch.setattr(clients, "producer", new)
    monkeypatch.setattr(module, "_PIECE_SECONDS", 0.0)
    return producers


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_what_the_target_takes_nothing_of_for_long_is_given_up(made: list[StuckProducer], clock: FakeClock) -> None:
    data = DataProducer({}, clock)
    made[0].queued = 7
    with pytest.raises(Restart):  # the session that sent it
        data.drain(0)
    for _ in range(5):  # the next sessions, which receive the stop between two of them
        clock.advance(5)
        with pytest.raises(Restart):
            data.clear(30)
    assert made[0].steps == []
    clock.advance(5)
    data.clear(30)
    assert made[0].steps == ["purge True True"], "late copies of what was on its way would break the order"
    assert len(made) == 2, "what a purged producer sends next would have a gap before it"
    made[1].queued = 3
    with pytest.raises(Restart):  # it begins with a new deadline
        data.clear(30)


def test_what_it_takes_slowly_is_waited_for(made: list[StuckProducer], clock: FakeClock) -> None:
    data = DataProducer({}, clock)
    for made[0].queued in range(9, 0, -1):
        clock.advance(29)
        with pytest.raises(Restart):
            data.clear(30)
    made[0].queued = 0
    data.clear(30)
    assert (len(made), made[0].steps) == (1, [])
