"""Two dozen pipelines in one `dagster dev`, with one assignment topic: each finds its own runs, and none has two.

So many Java processes do not fit into the memory of a test machine. So a quarter of the pipelines really copy. The runs
of the others are records in Dagster with living instances on the target, as Dagster and its sensors see any run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent
from dagster._core.scheduler.instigation import InstigatorType

from k2k_assets.control.assignment_records import heartbeat_key, time_value
from k2k_assets.control.assignment_writing import AssignmentWriter, new_instance, write_instance
from k2k_assets.control.commit_log import now_ms
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.coordination.liveness import heartbeat_timeout_seconds
from k2k_assets.definitions import build_definitions
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders
from k2k_assets_tests.support.suite.background import Background

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.storm]

COPYING, RESTING = 6, 18
TICKS = 4
PATIENCE = 400.0


class RestingRuns(Background):
    """Runs of pipelines that nobody executes: their instances live as long as their heartbeats are written.

    Args:
        pipelines: The pipelines; all have the same assignment topic.
        jobs: The jobs of the runs.
        dagster_home: Of the instance.
    """

    def __init__(self, pipelines: list[Pipeline], jobs: dict[str, dg.JobDefinition], dagster_home: Path) -> None:
        super().__init__("heartbeats")
        self._living: dict[str, bytes] = {}
        self._writer = AssignmentWriter(pipelines[0])
        with (
            dg.DagsterInstance.from_config(str(dagster_home)) as instance,
            Cluster("target", pipelines[0].client_properties("target", "admin")) as target,
        ):
            ensure_control_topics(pipelines[0], target)
            commits = pipelines[0].coordination.commit.topic
            topic_id = target.describe([commits])[commits].topic_id
            for pipeline in pipelines:
                names = AssetNames(pipeline.name)
                status = dg.DagsterRunStatus.STARTING
                run = instance.create_run_for_job(jobs[pipeline.name], status=status, tags=names.sync_tags)
                began = DagsterEvent(dg.DagsterEventType.RUN_START.value, names.sync_job)
                instance.report_dagster_event(began, run.run_id)
                record = new_instance(pipeline, 1, topic_id, continuous=True, run=run.run_id)
                generation = write_instance(pipeline, record)
                self._living[pipeline.name] = heartbeat_key(pipeline.group, generation, 0)

    def die(self, name: str) -> None:
        """One of them has no heartbeats any more."""
        del self._living[name]

    def _run(self) -> None:
        while not self._end.wait(1.0):
            with suppress(Exception):  # a look of the sensor that finds none of them tells
                self._writer.write([(key, time_value(now_ms())) for key in list(self._living.values())])


def test_each_of_two_dozen_pipelines_finds_its_own_runs(clusters: KafkaSandbox, tmp_path: Path) -> None:
    folder, dagster_home = make_folders(tmp_path)
    prefix = unique("dozen")
    coordination = {"commit": {"topic": f"{prefix}-commits"}, "assignment": {"topic": f"{prefix}-claims"}}
    pipelines = []
    for number in range(COPYING + RESTING):
        topic = create_topic(clusters.source_servers, f"{prefix}.{number}")
        path = write_pipeline(
            folder, clusters.source_servers, clusters.target_servers, [topic], coordination=coordination,
            features={"exactlyOnce": "enabled"}, spark={"master": "local[1]"},
        )  # fmt: skip
        pipelines.append(load_pipeline([path]))
    topic_of = {each.name: f"{prefix}.{number}" for number, each in enumerate(pipelines)}
    jobs = build_definitions(folder)
    resting = pipelines[COPYING:]
    others = RestingRuns(
        resting, {p.name: jobs.resolve_job_def(AssetNames(p.name).sync_job) for p in resting}, dagster_home
    )

    def copied(pipeline: Pipeline, *values: bytes) -> Callable[[], bool]:
        def check() -> bool:
            topic = topic_of[pipeline.name]
            there = topic in topics(clusters.target_servers)
            return there and [r.value for r in read_all(clusters.target_servers, topic)] == list(values)

        return check

    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(tmp_path / "home"),
        "K2K_PIPELINES": str(folder),
        "K2K_SENSORS": "running",
    }
    for topic in topic_of.values():
        produce(clusters.source_servers, topic, [b"one"])
    with others.going_on():
        dev = DagsterDev(tmp_path, environment, AssetNames(pipelines[0].name))
        try:
            for pipeline in pipelines[:COPYING]:
                dev.await_that(copied(pipeline, b"one"), PATIENCE, f"{pipeline.name} to copy")
            before = _ticks(dagster_home)
            dev.await_that(lambda: _more(dagster_home, before), PATIENCE, f"{TICKS} ticks of each sensor")
            runs = {pipeline.name: _runs(dagster_home, pipeline) for pipeline in pipelines}
            assert {name: len(found) for name, found in runs.items()} == dict.fromkeys(topic_of, 1)

            killed, died = pipelines[0], resting[0]
            dev.copying_worker()[1].kill()
            others.die(died.name)
            began = time.monotonic()
            for topic in (topic_of[killed.name], topic_of[died.name]):
                produce(clusters.source_servers, topic, [b"two"])
            for pipeline in (killed, died):
                dev.await_that(copied(pipeline, b"one", b"two"), PATIENCE, f"another run of {pipeline.name}")
                print(f"{pipeline.name}: copied again after {time.monotonic() - began:.1f} s")
            assert time.monotonic() - began > heartbeat_timeout_seconds(died)
            before = _ticks(dagster_home)
            dev.await_that(lambda: _more(dagster_home, before), PATIENCE, f"{TICKS} ticks of each sensor")
            twice = {killed.name: 2, died.name: 2}
            runs = {pipeline.name: _runs(dagster_home, pipeline) for pipeline in pipelines}
            assert {name: len(found) for name, found in runs.items()} == {**dict.fromkeys(topic_of, 1), **twice}
            assert [runs[name][-1].status for name in twice] == [dg.DagsterRunStatus.FAILURE] * 2, "the older ones"
        finally:
            dev.stop()


def _runs(dagster_home: Path, pipeline: Pipeline) -> list[dg.DagsterRun]:
    """The runs of a pipeline's sync job, the newest first."""
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        return list(instance.get_runs(dg.RunsFilter(job_name=AssetNames(pipeline.name).sync_job)))


def _ticks(dagster_home: Path) -> dict[str, int]:
    """How many ticks of each sensor have ended."""
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        sensors = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
        return {
            each.instigator_name: sum(
                tick.end_timestamp is not None
                for tick in instance.get_ticks(each.instigator_origin_id, each.selector_id, limit=1000)
            )
            for each in sensors
        }


def _more(dagster_home: Path, before: dict[str, int]) -> bool:
    now = _ticks(dagster_home)
    return len(now) == COPYING + RESTING and all(count >= before.get(name, 0) + TICKS for name, count in now.items())
