"""Heartbeats of runs that have no slots: while Spark starts, and of those that work on the offset mappings."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration.hooks import Copy, CopyResults, Hooks
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.orchestration.runs.run_heartbeats import heartbeats_until_copying, run_heartbeats
from k2k_assets.orchestration.runs.run_process import PROCESS_TAG, is_gone
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Event, PartitionClaimed
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, topics, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

PATIENCE = 30.0


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    assignment = {"topic": unique("claims"), "graceWindow": "1 second"}
    topic, servers = create_topic(clusters.source_servers, unique("beats")), clusters.target_servers
    return make_pipeline(tmp_path, clusters.source_servers, servers, topic, coordination={"assignment": assignment})


def _heard(clusters: KafkaSandbox, pipeline: Pipeline) -> list[str]:
    with (
        Cluster("target", {"bootstrap.servers": clusters.target_servers}) as target,
        AssignmentTail(pipeline, target) as tail,
    ):
        return list(tail.catch_up(10).runs)


def test_a_run_that_ends_leaves_no_heartbeat(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    create_topic(clusters.target_servers, pipeline.coordination.assignment.topic)
    with run_heartbeats(pipeline, "some-run"):
        wait_until(lambda: _heard(clusters, pipeline) == ["some-run"], PATIENCE, "a heartbeat")
    wait_until(lambda: _heard(clusters, pipeline) == [], PATIENCE, "its end")


def test_the_heartbeats_of_a_start_end_with_the_first_claim(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    create_topic(clusters.target_servers, pipeline.coordination.assignment.topic)
    listened: list[Event] = []
    with heartbeats_until_copying(pipeline, "some-run") as alive:
        wait_until(lambda: _heard(clusters, pipeline) == ["some-run"], PATIENCE, "a heartbeat")
        claimed = PartitionClaimed(TopicPartition("t", 0), 1, 0)
        alive(listened.append)(claimed)
        wait_until(lambda: _heard(clusters, pipeline) == [], PATIENCE, "its end, while the run goes on")
    assert listened == [claimed]


def test_heartbeats_wait_for_the_assignment_topic(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """A producer that writes to a topic that is missing lets some brokers create it, with settings of their own."""
    topic = pipeline.coordination.assignment.topic
    with run_heartbeats(pipeline, "some-run"):
        assert topic not in topics(clusters.target_servers)
        create_topic(clusters.target_servers, topic)
        wait_until(lambda: _heard(clusters, pipeline) == ["some-run"], PATIENCE, "a heartbeat")


@pytest.mark.parametrize("extent", ["continuous", "window", "caught_up"])
def test_a_run_of_the_sync_job_tells_that_it_lives_before_anything_else(
    clusters: KafkaSandbox, pipeline: Pipeline, extent: str
) -> None:
    """Also one that somebody has launched with an end: without a heartbeat the sensor takes it for dead."""
    create_topic(clusters.target_servers, pipeline.coordination.assignment.topic)
    names, instance = AssetNames(pipeline.name), dg.DagsterInstance.ephemeral()
    seen: list[str] = []

    def execute(context: dg.AssetExecutionContext, copy: Copy) -> CopyResults:
        wait_until(
            lambda: _heard(clusters, pipeline) == [context.run_id], PATIENCE, "a heartbeat before the hook's end"
        )
        seen.append(context.run_id)
        yield dg.MaterializeResult()

    definitions = pipeline_definitions(pipeline, None, Hooks(execute=execute))
    config = {"ops": {names.op("topics"): {"config": {"extent": extent}}}}
    result = definitions.resolve_job_def(names.sync_job).execute_in_process(instance=instance, run_config=config)
    assert seen == [result.run_id]
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert PROCESS_TAG in run.tags
    assert not is_gone(run)
    wait_until(lambda: _heard(clusters, pipeline) == [], PATIENCE, "its end")
