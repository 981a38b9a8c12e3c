"""Clocks that jump: order and progress depend on offsets and generations, never on the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import commit_records, copy
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.memory.clock import Clock, going_by
from k2k_assets_tests.support.proof.verifying import verify

pytestmark = pytest.mark.integration

DAY = 86_400.0


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock that the engine and its clients go by."""
    clock = Clock()
    with going_by(clock):
        yield clock


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


@pytest.mark.slow
@MODES
def test_jumps_between_and_during_runs(
    clusters: KafkaSandbox, make: Callable[[str, str], Pipeline], clock: Clock, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("clock"), 2)
    writer = NumberedWriter(clusters.source_servers, [], 0)
    pipeline = make(topic, mode)
    # A day ahead, a day back, and a clock that goes back by minutes at each reading.
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
