"""Terminate in the UI, under the real daemon: the run is canceled, commits stay, and no frame of ours is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import WHAT_FOLLOWS, WORDS
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders
from k2k_assets_tests.support.dagster.errors import errors_in, frames_of

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

PATIENCE = 900.0  # Groups wait for the checks, and those for two runs on Spark.


class Copied:
    """A topic that `dagster dev` copies, with a group that it moves.

    Args:
        clusters: Source and target.
        directory: For all files.
    """

    def __init__(self, clusters: KafkaSandbox, directory: Path) -> None:
        self.clusters = clusters
        self.topic = create_topic(clusters.source_servers, unique("terminated"))
        self.group = f"{self.topic}-billing"
        folder, dagster_home = make_folders(directory)
        path = write_pipeline(
            folder,
            clusters.source_servers,
            clusters.target_servers,
            [self.topic],
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            groups={"consumerGroups": self.group},
            index={"interval": "10 seconds"},
        )
        self.pipeline: Pipeline = load_pipeline([path])
        self.names = AssetNames(self.pipeline.name)
        self.dev = DagsterDev(
            directory,
            {
                "DAGSTER_HOME": str(dagster_home),
                "K2K_HOME": str(directory / "home"),
                "K2K_PIPELINES": str(folder),
                "K2K_SENSORS": "running",
            },
            self.names,
        )

    def await_copied(self, count: int) -> None:
        """Waits until so many records are on the target."""
        servers = self.clusters.target_servers
        self.dev.await_that(
            lambda: self.topic in topics(servers) and len(read_all(servers, self.topic)) == count,
            PATIENCE,
            f"{count} copies",
        )

    def run_of(self, job: str) -> str:
        """The newest run of a job; empty if there is none."""
        with self.instance() as instance:
            runs = instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
            return runs[0].run_id if runs else ""

    def instance(self) -> dg.DagsterInstance:
        """Dagster's."""
        return dg.DagsterInstance.from_config(self.dev.home)

    def terminate(self, job: str) -> str:
        """Terminates the newest run of a job as the UI does, and waits for its end."""
        run = self.run_of(job)
        self.dev.terminate(run)
        self.dev.await_that(lambda: self.dev.is_over(run), 120, f"the run of {job} to end")
        return run

    def ensure_canceled_without_our_frames(self, run: str) -> None:
        """What Dagster's UI shows of a run that was terminated."""
        with self.instance() as instance:
            found, logs = instance.get_run_by_id(run), instance.all_logs(run)
        assert found is not None
        assert found.status is dg.DagsterRunStatus.CANCELED
        errors = errors_in(entry.dagster_event for entry in logs if entry.dagster_event)
        assert len(errors) == 2, "of the step, and of the run"
        assert all(WORDS in error.message for error in errors)
        assert frames_of(errors, "k2k_assets") == []
        ended = f"terminated by hand: the run ended after its last commit, and {WHAT_FOLLOWS}"
        assert sum(ended in entry.user_message for entry in logs) == 1

    def await_left_alone(self, sensor: str) -> None:
        """Waits until a sensor has looked twice and says that nobody wants another run."""

        def is_left_alone() -> bool:
            with self.instance() as instance:
                (state,) = (s for s in instance.all_instigator_state() if s.instigator_name == sensor)
                ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
                return sum("was terminated by hand" in (tick.skip_reason or "") for tick in ticks) >= 2

        self.dev.await_that(is_left_alone, 120, f"{sensor} to tick twice")


@pytest.fixture
def copied(clusters: KafkaSandbox, tmp_path: Path) -> Iterator[Copied]:
    made = Copied(clusters, tmp_path)
    yield made
    made.dev.stop()


def test_a_terminated_run_is_canceled_without_a_frame_of_ours(clusters: KafkaSandbox, copied: Copied) -> None:
    dev, names, at = copied.dev, copied.names, TopicPartition(copied.topic, 0)
    produce(clusters.source_servers, copied.topic, [b"%d" % i for i in range(50)])
    commit(clusters.source_servers, copied.group, {at: 7})
    dev.await_answer()
    copied.await_copied(50)
    dev.await_that(lambda: at in held(clusters.target_servers, copied.group), PATIENCE, "the group to be moved")

    terminated = [copied.terminate(job) for job in (names.sync_job, names.offset_sync_job)]
    for run in terminated:
        copied.ensure_canceled_without_our_frames(run)

    with both_clusters(copied.pipeline) as (source, target):
        (record,) = read_commit_log(copied.pipeline, source.cluster_id(), target).positions.values()
    assert (record.kind, record.position) == ("release", 50)
    servers = clusters.target_servers
    whole, committed = end_offsets(servers, copied.topic), end_offsets(servers, copied.topic, "read_committed")
    assert whole == committed, "nothing is left open"
    assert held(servers, copied.group)[at][0] == 7

    produce(clusters.source_servers, copied.topic, [b"later"] * 10)
    for sensor in (names.sensor, names.offset_sensor):
        copied.await_left_alone(sensor)
    assert [copied.run_of(job) for job in (names.sync_job, names.offset_sync_job)] == terminated
    assert len(read_all(servers, copied.topic)) == 50
    dev.launch(names.sync_job)
    copied.await_copied(60)
