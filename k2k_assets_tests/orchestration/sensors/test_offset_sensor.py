"""Ticks of the offset sync sensor on real clusters, without a daemon."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.groups import commit, delete_group, member
from k2k_assets_tests.support.hand_copy import HandCopy
from k2k_assets_tests.support.kafka import create_topic, delete_records, delete_topic, produce, unique
from k2k_assets_tests.support.pipelines import write_pipeline


class Ticks:
    """The sensor, ticked by hand."""

    def __init__(self, folder: Path, source: str, target: str, topic: str, groups: str) -> None:
        folder.mkdir()
        self.folder = folder
        path = write_pipeline(
            folder,
            source,
            target,
            [topic],
            features={"offsetMapping": "enabled"},
            groups={"consumerGroups": groups},
            sync={"window": "20 seconds"},
        )
        self.pipeline = load_pipeline([path])
        self.names = AssetNames(self.pipeline.name)
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        repository = build_definitions(self.folder).get_repository_def()
        sensor = repository.get_sensor_def(self.names.offset_sensor)
        answer = sensor(dg.build_sensor_context(instance=self.instance, cursor=self.cursor, repository_def=repository))
        assert isinstance(answer, dg.SensorResult | dg.SkipReason)
        if isinstance(answer, dg.SensorResult):
            self.cursor = answer.cursor
        return answer

    def request(self) -> dg.RunRequest:
        answer = self.tick()
        assert isinstance(answer, dg.SensorResult)
        (request,) = answer.run_requests or []
        return request

    def last_asset(self) -> dg.AssetKey:
        assets = self.request().asset_selection
        assert assets
        return assets[-1]

    def reason(self) -> str:
        answer = self.tick()
        skip = answer.skip_reason if isinstance(answer, dg.SensorResult) else answer
        assert skip is not None
        return str(skip.skip_message)

    def run(self, status: dg.DagsterRunStatus, job: str, tags: dict[str, str]) -> dg.DagsterRun:
        return self.instance.create_run_for_job(
            build_definitions(self.folder).resolve_job_def(job), status=status, tags=tags
        )

    def settle(self) -> None:
        """The run that was asked for, if one was, ends well; the sensor asks for nothing more."""
        run = self.run(dg.DagsterRunStatus.STARTED, self.names.offset_sync_job, self.names.offset_sync_tags)
        self.instance.handle_new_event(_ended(run, self.names.offset_sync_job))
        answer = self.tick()
        if isinstance(answer, dg.SensorResult) and answer.run_requests:
            self.settle()

    def judge(self, passed: bool) -> None:
        """Records a verdict of each check on the mappings."""
        for name in CHECKS:
            evaluation = dg.AssetCheckEvaluation(
                asset_key=self.names.offset_mappings_key, check_name=name, passed=passed, metadata={}
            )
            self.instance.report_runless_asset_event(evaluation)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "pipelines"


@pytest.mark.integration
def test_it_asks_for_the_groups_that_moved(clusters: KafkaSandbox, place: Path) -> None:
    topic, group = unique("orders"), unique("billing")
    at = TopicPartition(topic, 0)
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
        produce(servers, topic, [b"%d" % n for n in range(10)], partition=0)
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic, f"{group}.*")
    names = ticks.names
    hand = HandCopy(ticks.pipeline)
    assert ticks.reason() == "no selected consumer group of the source has a commit on a topic that is copied"
    commit(clusters.source_servers, group, {at: 4})
    assert ticks.reason() == "nothing is copied yet, so there is nothing to translate by"
    hand.mapping(topic, (0, 10), [(0, 0, 10)])
    hand.commit(topic, 10)

    # The mappings have never been checked: a run in progress that copies does it, else the run that is asked for.
    copying = ticks.run(dg.DagsterRunStatus.STARTED, names.job, names.tags)
    assert "one moves offsets at a time" in ticks.reason(), "it makes everything, the groups too"
    ticks.instance.report_run_canceled(copying)
    first = ticks.request()
    assert first.asset_selection == [names.offset_mappings_key, names.consumer_group_key(group)]
    assert first.tags == names.offset_sync_tags
    config = first.run_config["ops"][names.op("consumer_groups")]["config"]
    assert config == {"window_seconds": 20.0, "also": []}

    moving = ticks.run(dg.DagsterRunStatus.STARTED, names.offset_sync_job, names.offset_sync_tags)
    assert f"run {moving.run_id} is in progress" in ticks.reason()
    ticks.instance.handle_new_event(_ended(moving, names.offset_sync_job))
    assert "all 1 groups stand where they stood" in ticks.reason()

    # Its members on the target, and what it holds there, count too.
    with member(clusters.target_servers, group, topic, "classic"):
        assert ticks.last_asset() == names.consumer_group_key(group)
        ticks.settle()
    assert ticks.last_asset() == names.consumer_group_key(group)
    ticks.settle()
    commit(clusters.target_servers, group, {at: 4}, "k2k_1.1")
    ticks.settle()
    delete_records(clusters.target_servers, topic, 0, 6)
    assert ticks.last_asset() == names.consumer_group_key(group)
    commit(clusters.target_servers, group, {at: 6}, "k2k_1.2")
    ticks.settle()

    # What stood in the way there, and is gone; and a topic that took the commits on it with it.
    commit(clusters.target_servers, group, {at: 7}, "somebody else's")
    ticks.settle()
    delete_group(clusters.target_servers, group)
    assert ticks.last_asset() == names.consumer_group_key(group)
    ticks.settle()
    delete_topic(clusters.target_servers, topic)
    create_topic(clusters.target_servers, topic)
    assert ticks.last_asset() == names.consumer_group_key(group)
    ticks.settle()

    ticks.judge(passed=True)
    commit(clusters.source_servers, group, {at: 2})
    assert ticks.request().asset_selection == [names.consumer_group_key(group)], "without Spark"
    ticks.judge(passed=False)
    ticks.cursor = None
    assert ticks.request().asset_selection == [names.offset_mappings_key, names.consumer_group_key(group)]


def test_an_unreachable_cluster_is_a_reason_to_skip(place: Path) -> None:
    ticks = Ticks(place, "127.0.0.1:1", "127.0.0.1:1", "any", ".*")
    assert "source cluster at 127.0.0.1:1 does not answer" in ticks.reason()


def _ended(run: dg.DagsterRun, job: str) -> dg.EventLogEntry:
    event = dg.DagsterEvent("PIPELINE_SUCCESS", job_name=job)
    return dg.EventLogEntry(
        error_info=None, level="info", user_message="", run_id=run.run_id, timestamp=0.0, dagster_event=event
    )
