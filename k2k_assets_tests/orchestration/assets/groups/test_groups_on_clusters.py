"""A continuous run that moves consumer groups, on real clusters, as its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dagster as dg
import psutil
import pytest

from k2k_assets.control.group_versions import Version, next_poll
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import running_mapper
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.groups.group_sync import limited_to, sync_groups
from k2k_assets.orchestration.checks.asset_checks import mappings_of
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.group_observation import observe_groups
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers.groups import commit, delete_group, member, position
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
WRITTEN = int(time.time() * 1000) - 60_000
RECORDS = [Record(b"%d" % n, b"value %d" % n, timestamp=WRITTEN + n) for n in range(10)]
SECONDS = 300.0


@dataclass
class Place:
    """A topic of ten records that is copied one to one, Dagster's home, and the groups that read."""

    clusters: KafkaSandbox
    folder: Path
    pipeline: Pipeline
    topic: str

    @property
    def names(self) -> AssetNames:
        return AssetNames(self.pipeline.name)

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @contextmanager
    def dagster(self) -> Iterator[dg.DagsterInstance]:
        """The instance that runs and test share."""
        with dg.DagsterInstance.from_config(str(self.folder)) as instance:
            yield instance

    @contextmanager
    def run(self) -> Iterator[subprocess.Popen[bytes]]:
        """A run of the offset sync job."""
        environment = {
            "DAGSTER_HOME": str(self.folder),
            "K2K_HOME": str(self.folder / "home"),
            "K2K_PIPELINES": str(self.folder / "pipelines"),
        }
        tool = Path(sys.executable).with_name("dagster")
        job = self.names.offset_sync_job
        with (self.folder / "run.log").open("a") as log:
            run = subprocess.Popen(
                [str(tool), "job", "execute", "-m", "k2k_assets.definitions", "-j", job],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield run
        finally:
            run.kill()
            run.wait(10)

    def judge(self, check: str, passed: bool) -> None:
        """Tells Dagster a verdict on the mappings."""
        with both_clusters(self.pipeline) as (source, target):
            ids = source.cluster_id(), target.cluster_id()
        judged = mappings_of(self.pipeline.group, *ids, self.pipeline.offset_mapping.topic)
        metadata = {keys.MAPPINGS: dg.MetadataValue.text(judged)}
        evaluation = dg.AssetCheckEvaluation(self.names.offset_mappings_key, check, passed, metadata)
        with self.dagster() as instance:
            instance.report_runless_asset_event(evaluation)

    def move(self, group: str, offset: int) -> None:
        """Commits on the source."""
        commit(self.clusters.source_servers, group, {self.at: offset})

    def holds(self, group: str, offset: int | None) -> bool:
        """Whether the group stands there on the target; None: nowhere."""
        return position(self.clusters.target_servers, group, self.at) == offset

    def await_moved(self, group: str, offset: int) -> None:
        """Waits until the group stands there on the target."""
        self.await_that(partial(self.holds, group, offset), f"{group} to stand at {offset} on the target")

    def await_that(self, condition: object, what: str) -> None:
        """Waits; what the runs said is in the error."""
        assert callable(condition)
        try:
            wait_until(condition, SECONDS, what, interval=0.3)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.said()[-6000:]}") from None

    def said(self) -> str:
        """All that the runs printed."""
        return (self.folder / "run.log").read_text()

    def shown(self, group: str) -> dict[str, object]:
        """The metadata of the newest materialization of a group; empty if there is none."""
        with self.dagster() as instance:
            event = instance.get_latest_materialization_event(self.names.consumer_group_key(group))
        found = event.asset_materialization if event else None
        return {name: value.value for name, value in found.metadata.items()} if found else {}

    def check_of(self, group: str) -> bool | None:
        """The last verdict on a group; None if there is none."""
        key = dg.AssetCheckKey(self.names.consumer_group_key(group), self.names.group_checks([group])[group])
        with self.dagster() as instance:
            found = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        return found.evaluation.passed if found and isinstance(found.evaluation, dg.AssetCheckEvaluation) else None

    def status(self) -> list[dg.DagsterRunStatus]:
        """How the runs are, the newest first."""
        with self.dagster() as instance:
            return [run.status for run in instance.get_runs()]


@pytest.fixture
def place(clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(running_mapper, "heartbeat_interval_seconds", lambda _: 30.0)  # as late as a busy run may be
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
        produce(servers, topic, RECORDS, partition=0)
    path = write_pipeline(
        tmp_path / "pipelines",
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"offsetMapping": "enabled"},
        groups={"consumerGroups": f"{topic}-.*", "pollInterval": "200 milliseconds"},
        checks={"interval": "1 second"},
    )
    found = Place(clusters, tmp_path, load_pipeline([path]), topic)
    hand = HandCopy(found.pipeline)
    hand.mapping(topic, (0, 10), [(0, 0, 10)])
    hand.commit(topic, 10)
    return found


@pytest.mark.slow
def test_by_mappings_without_a_good_verdict_no_group_is_moved_until_there_is_one(place: Place) -> None:
    """No verdict, good ones, a bad one, a good one again, all in one run; and what the target lost meanwhile."""
    first, late = f"{place.topic}-first", f"{place.topic}-late"
    place.move(first, 4)
    with place.run() as run:
        place.await_that(lambda: keys.HELD_BACK in place.shown(first), "the group to be shown as held back")
        assert "the offset mappings are not checked" in str(place.shown(first)[keys.HELD_BACK])
        assert place.holds(first, None)
        for check in CHECKS:
            place.judge(check, passed=True)
        place.await_moved(first, 4)
        place.await_that(lambda: keys.HELD_BACK not in place.shown(first), "the group to be shown as it is")
        place.await_that(lambda: place.check_of(first), "the group's check to pass")
        place.move(first, 6)
        place.await_moved(first, 6)

        delete_group(place.clusters.target_servers, first)
        place.await_moved(first, 6)

        place.judge("content", passed=False)
        place.await_that(lambda: keys.HELD_BACK in place.shown(first), "the group to be shown as held back")
        assert "failed their checks (content)" in str(place.shown(first)[keys.HELD_BACK])
        place.move(first, 8)
        place.move(late, 2)
        # The first poll that sees it reports it; that poll has also seen the other one's commit.
        place.await_that(lambda: keys.HELD_BACK in place.shown(late), "a group that appeared to be shown")
        assert place.holds(first, 6)
        assert place.holds(late, None)
        looked = sync_groups(limited_to(place.pipeline, [first]))
        assert "moves the groups, and has not moved this one" in looked.failed[first], "a click takes nothing over"
        assert place.holds(first, 6)
        place.judge("content", passed=True)
        place.await_moved(first, 8)
        place.await_moved(late, 2)
        assert psutil.Process(run.pid).children(recursive=True) != []
        assert not [c for c in psutil.Process(run.pid).children(recursive=True) if "java" in c.name()], "no JVM"
        assert run.poll() is None
    assert place.said().count("no group is moved until the checks on the offset mappings pass") == 2


@pytest.mark.slow
def test_runs_take_over_from_each_other_and_a_terminated_one_ends_as_canceled(place: Place) -> None:
    group = f"{place.topic}-first"
    for check in CHECKS:
        place.judge(check, passed=True)
    place.move(group, 4)
    with place.run() as first:
        place.await_moved(group, 4)
        place.await_that(lambda: place.check_of(group), "the group's check to pass")
        assert [mapper.run is not None for mapper in observe_groups(place.pipeline).mappers.values()] == [True]
        with place.run() as second:
            first.wait(SECONDS)
            assert first.returncode == 0, place.said()[-6000:]
            assert "handed over: a newer offset mapper of pipeline" in place.said()
            place.move(group, 7)
            place.await_moved(group, 7)

            # A click is answered from the continuous run, and does not end that run.
            looked = sync_groups(limited_to(place.pipeline, [group]))
            assert looked.moved_by.startswith("Dagster run ")
            assert (looked.failed, list(looked.decisions), looked.committed) == ({}, [group], frozenset())
            with both_clusters(place.pipeline) as both:
                assert check_groups(place.pipeline, looked, *both)[group].passed

            # As the UI's Terminate does.
            with place.dagster() as instance:
                instance.report_run_canceling(instance.get_runs(limit=1)[0])
            second.send_signal(signal.SIGINT)
            second.wait(SECONDS)
    assert place.status() == [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS], place.said()[-6000:]
    assert "k2k_assets/groups" not in place.said(), "the mapper was not torn out of a call"


@pytest.mark.slow
def test_a_group_that_has_members_on_the_target_fails_its_own_check_alone(place: Place) -> None:
    group, met = f"{place.topic}-first", f"{place.topic}-met"
    for check in CHECKS:
        place.judge(check, passed=True)
    place.move(group, 4)
    with place.run() as run:
        place.await_moved(group, 4)
        with member(place.clusters.target_servers, met, place.topic, "classic"):
            place.move(met, 3)
            place.await_that(lambda: place.check_of(met) is False, "the check of the group with members to fail")
            place.move(group, 9)
            place.await_moved(group, 9)
        place.await_moved(met, 3)
        place.await_that(lambda: place.check_of(met), "its check to pass again")
        assert run.poll() is None


def test_a_look_is_not_misled_by_a_clock_that_is_ahead(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mapper on another machine has committed looks like a later observation than this one."""
    monkeypatch.setattr(running_mapper, "_SHORTEST_PATIENCE", 1.0)
    group, pipeline = f"{place.topic}-first", limited_to(place.pipeline, [f"{place.topic}-first"])
    ahead = Version(7, next_poll(0, time.time() + 3600)).metadata(pipeline.groups.offset_guard_prefix)
    place.move(group, 4)
    commit(place.clusters.target_servers, group, {place.at: 2}, ahead)
    assert running_mapper.await_moved(pipeline, "another").failed.keys() == {group}
    commit(place.clusters.target_servers, group, {place.at: 4}, ahead)
    looked = running_mapper.await_moved(pipeline, "another")
    assert looked.failed == {}
    with both_clusters(pipeline) as both:
        verdict = check_groups(pipeline, looked, *both)[group]
    assert (verdict.passed, verdict.counts["compared"]) == (True, 1), verdict.summary
