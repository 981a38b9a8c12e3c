"""An instance without slots is there all the same: its Spark starts anew, which may take longer than `graceWindow`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination.liveness import Presence, continuous_instances
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running, in_processes, in_threads
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

PATIENCE = 120.0
INSTANCE = -1


def is_higher(read: Callable[[], int], than: int) -> bool:
    return read() > than


class _Spark:
    """Runs slots; those of the first job are killed, and the second one waits for its executors."""

    def __init__(self) -> None:
        self._in_processes, self._kill = in_processes()
        self._jobs = 0
        self.starts, self.has_executors = threading.Event(), threading.Event()

    def run(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        self._jobs += 1
        if self._jobs == 1:
            return self._in_processes(plans)
        self.starts.set()
        assert self.has_executors.wait(60)
        return in_threads(plans)

    def lose(self) -> None:
        self._kill()
        assert self.starts.wait(60), "no second job"


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("restarts"))
    assignment = {"topic": unique("claims"), "graceWindow": "1 second"}
    coordination = {"assignment": assignment}
    return make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], coordination=coordination)


def test_it_beats_until_its_slots_do(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    (topic,) = pipeline.selection.literal or ()
    spark = _Spark()
    running = Running(pipeline, 1, spark.run)
    produce(clusters.source_servers, topic, [b"a"])
    running.await_copied(1)
    with (
        Cluster("target", {"bootstrap.servers": clusters.target_servers}) as target,
        AssignmentTail(pipeline, target) as tail,
    ):

        def state() -> Assignments:
            return tail.catch_up(PATIENCE)

        def presence() -> Presence:
            (instance,) = continuous_instances(state(), pipeline.name, {topic}).values()
            return instance

        def of_slot(number: int) -> int:
            return state().signs.get((state().newest(), number), -1)

        def await_higher(read: Callable[[], int], times: int, what: str) -> None:
            for _ in range(times):
                wait_until(partial(is_higher, read, read()), PATIENCE, what)

        generation = state().newest()
        spark.lose()
        assert state().newest() > generation
        await_higher(lambda: presence().sign, 3, "a sign of life")
        spark.has_executors.set()
        produce(clusters.source_servers, topic, [b"b"])
        running.await_copied(2)
        wait_until(lambda: of_slot(INSTANCE) == -1, PATIENCE, "its slots alone to tell")
        await_higher(lambda: of_slot(0), 3, "a heartbeat of the slot")
        assert of_slot(INSTANCE) == -1
    running.end()
