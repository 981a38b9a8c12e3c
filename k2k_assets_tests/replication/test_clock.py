"""Clocks that jump: order and progress rest on offsets and generations, never on the time of day."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from k2k_assets.kafka import clients
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import commit_records, copy
from k2k_assets_tests.support.kafka import create_topic, unique
from k2k_assets_tests.support.numbered import NumberedWriter
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.verifying import verify

pytestmark = pytest.mark.integration

DAY = 86_400.0
_TIME = time.time


class Clock:
    """The time of day, so much too late or too early."""

    def __init__(self) -> None:
        self.off = 0.0
        self.steps = 0.0

    def __call__(self) -> float:
        """Each look at it moves it on by `steps`, too."""
        self.off += self.steps
        return _TIME() + self.off


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock that the engine and its clients go by."""
    jumping = Clock()

    class Late(Producer):
        """librdkafka asks the system for the time of a record that has none: the same wrong clock."""

        def produce(self, topic: str, value: Any, key: Any, partition: int = -1, *rest: Any, **more: Any) -> None:
            if len(rest) < 2 and "timestamp" not in more:
                more["timestamp"] = int(jumping() * 1000)
            super().produce(topic, value, key, partition, *rest, **more)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(clients, "Producer", Late)
    return jumping


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Callable[[str, str], Pipeline]:
    def made(topic: str, mode: str) -> Pipeline:
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        )

    return made


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_jumps_between_and_during_runs(
    clusters: KafkaSandbox, make: Callable[[str, str], Pipeline], clock: Clock, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("clock"), 2)
    writer = NumberedWriter(clusters.source_servers, [], 0)
    pipeline = make(topic, mode)
    # A day ahead, a day back, and one that runs backwards by minutes with each look.
    for off, steps in ((DAY, 0.0), (-DAY, 0.0), (0.0, -300.0), (0.0, 300.0)):
        clock.off, clock.steps = off, steps
        for partition in range(2):
            for kind in ("plain", "aborted", "committed"):
                writer.write(30, topic, partition, kind)
        outcome = copy(pipeline)
        assert outcome.topics[topic].lag == 0
        assert outcome.topics[topic].records == 2 * 60
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic])
    assert verdict.problems == []
    times = [record.time for record in commit_records(pipeline, clusters.target_servers)]
    assert times != sorted(times), "the clock did not jump for the engine"
