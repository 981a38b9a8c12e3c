"""Ticks of the sensor on real clusters, without a daemon."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from k2k_assets import discovery
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.presence import Presence
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons import RecordsDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import Running
from k2k_assets_tests.support.hand_copy import HandCopy
from k2k_assets_tests.support.kafka import create_topic, produce, unique
from k2k_assets_tests.support.pipelines import write_pipeline


class Ticks:
    """A sensor that is ticked by hand."""

    def __init__(self, folder: Path, source: str, target: str, topics: str | list[str], **sections: Any) -> None:
        folder.mkdir()
        self.folder = folder
        self.pipeline: Pipeline = load_pipeline([write_pipeline(folder, source, target, topics, **sections)])
        self.names = AssetNames(self.pipeline.name)
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        repository = build_definitions(self.folder).get_repository_def()
        sensor = repository.get_sensor_def("k2k_replication_sensor")
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor, repository_def=repository)
        answer = sensor(context)
        assert isinstance(answer, dg.SensorResult | dg.SkipReason)
        if isinstance(answer, dg.SensorResult):
            self.cursor = answer.cursor
        return answer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "pipelines"


@pytest.mark.integration
def test_it_asks_for_what_lags_until_it_is_copied(clusters: KafkaSandbox, place: Path) -> None:
    prefix = unique("s")
    one, two = f"{prefix}.one", f"{prefix}.two"
    for topic in (one, two):
        create_topic(clusters.source_servers, topic)
        create_topic(clusters.target_servers, topic)
    produce(clusters.source_servers, one, [b"1", b"2"])
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, f"{prefix}[.].*")
    names = ticks.names

    # Before discovery: the definitions have one asset for the pattern, and it stands for all.
    first = ticks.tick()
    assert isinstance(first, dg.SensorResult)
    (request,) = first.run_requests or []
    assert names.undiscovered_key(f"{prefix}[.].*") in (request.asset_selection or [])
    assert request.tags == names.tags
    assert {e.asset_key for e in first.asset_events} == {names.source_key(one), names.source_key(two)}
    found = discovery.load(ticks.pipeline.name)
    assert found is not None
    assert set(found.topics) == {one, two}

    # With the topics known, and one of them copied.
    hand = HandCopy(ticks.pipeline)
    hand.commit(one, 2)
    ticks.cursor = None
    (request,) = ticks.tick().run_requests or []  # type: ignore[union-attr]
    assert request.asset_selection == [names.topic_key(two), names.commit_log_key]
    hand.commit(two, 0)
    idle = ticks.tick()
    assert isinstance(idle, dg.SensorResult)
    assert "all 2 topics are copied" in str(idle.skip_reason and idle.skip_reason.skip_message)
    assert list(idle.asset_events) == [], "no end moved, so nothing is observed"

    produce(clusters.source_servers, two, [b"3"])
    moved = ticks.tick()
    assert isinstance(moved, dg.SensorResult)
    assert [e.asset_key for e in moved.asset_events] == [names.source_key(two)]
    assert json.loads(ticks.cursor or "")["ends"][two] == [1]


@pytest.mark.integration
def test_a_stop_turns_the_topics_check_whoever_stopped_it(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic)
    hand = HandCopy(ticks.pipeline)

    def turned() -> list[tuple[bool, str | None]]:
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        checks = [event for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
        assert {(c.asset_key, c.check_name) for c in checks} <= {(ticks.names.topic_key(topic), "copies_on")}
        return [(check.passed, check.description) for check in checks]

    hand.commit(topic, 0)
    assert turned() == []
    hand.commit(topic, 0, stopped=RecordsDeleted(TopicPartition(topic, 0), 0, 5))
    ((passed, why),) = turned()
    assert not passed
    assert why is not None
    assert why.startswith(f"1 of 1 partitions are stopped: {topic}-0: [records-deleted] records 0 to 4 were deleted")
    assert turned() == [], "told once"
    hand.commit(topic, 5)
    assert turned() == [(True, f"no partition of {topic} is stopped")]


@pytest.mark.integration
def test_it_waits_for_a_run_in_progress(clusters: KafkaSandbox, place: Path) -> None:
    topic = unique("s")
    create_topic(clusters.source_servers, topic)
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic)
    job = build_definitions(place).resolve_job_def(ticks.names.job)
    run = ticks.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=ticks.names.tags)
    waiting = ticks.tick()
    assert isinstance(waiting, dg.SensorResult)
    assert f"run {run.run_id} is in progress" in str(waiting.skip_reason and waiting.skip_reason.skip_message)


@pytest.mark.integration
def test_it_takes_nothing_from_a_continuous_instance(clusters: KafkaSandbox, place: Path) -> None:
    """The instance has not looked for new topics yet, so one lags."""
    name = unique("live")
    one, two = f"{name}.one", f"{name}.two"
    create_topic(clusters.source_servers, one)
    assignment = {"topic": f"{name}-claims", "graceWindow": "8 seconds"}
    ticks = Ticks(
        place,
        clusters.source_servers,
        clusters.target_servers,
        f"{name}[.].*",
        coordination={"commit": {"topic": f"{name}-commits"}, "assignment": assignment},
        sync={"metadataInterval": "10 minutes"},
    )

    def answer() -> tuple[int, str]:
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        return len(told.run_requests or []), str(told.skip_reason and told.skip_reason.skip_message)

    instance = Running(ticks.pipeline, 1)
    produce(clusters.source_servers, one, [b"1"])
    instance.await_copied(1)
    create_topic(clusters.source_servers, two)
    words = f"copied without end by pipeline {ticks.pipeline.name} on "
    began = time.monotonic()
    while time.monotonic() < began + 10:  # longer than somebody may be silent: its heartbeats are seen
        asked, reason = answer()
        assert asked == 0
        assert words in reason
        time.sleep(0.2)  # without it, this would take one of two cores from all others
    instance.end()
    wait_until(lambda: answer()[0] == 1, 60, "the sensor to ask for a run")


def test_a_look_that_stalls_is_not_the_silence_of_an_instance(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stall = [1000.0], [0.0]

    def observe(pipeline: Pipeline) -> Observation:
        clock[0] += stall[0]
        instances = {"i": Presence(sign=7, who="pipeline p on host")}
        found = Discovery(pipeline.name, 0, "source", "target", {})
        return Observation(found, {"a": [10]}, {"a": [9]}, None, CommitLog(), instances)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    monkeypatch.setattr(replication_sensor, "time", SimpleNamespace(time=lambda: clock[0]))
    assignment = {"topic": "claims", "graceWindow": "15 seconds"}
    ticks = Ticks(place, "s:9092", "t:9092", "a", coordination={"assignment": assignment})

    def asked() -> int:
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        return len(told.run_requests or [])

    assert asked() == 0
    clock[0], stall[0] = 1005.0, 60.0
    assert asked() == 0, "it has been looked at for 5 s, whatever the rest of the look took"
    stall[0] = 0.0
    assert asked() == 1


def test_what_is_gone_on_the_source_is_not_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new topic has no asset yet, so those of other topics stand in: of topics that are there."""
    there = {"new": [1], "b": [0]}

    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        positions = {topic: [None if topic == "new" else 0] for topic in there}
        return Observation(found, dict(there), positions, None, CommitLog(), {})

    monkeypatch.setattr(replication_sensor, "observe", observe)
    ticks = Ticks(place, "s:9092", "t:9092", ".*")
    names = ticks.names
    known = {topic: DiscoveredTopic(1, topic) for topic in ("a", "b")}
    discovery.save(Discovery(ticks.pipeline.name, 0, "source", "target", known))

    def asked() -> list[dg.AssetKey]:
        ticks.cursor = None
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        (request,) = told.run_requests or []
        assert request.run_config == {"ops": {names.op("topics"): {"config": {"also": ["new"]}}}}
        return list(request.asset_selection or [])

    assert asked() == [names.topic_key("b"), names.commit_log_key]
    del there["b"]
    everything = [names.topic_key("a"), names.topic_key("b"), names.commit_log_key]
    assert asked() == everything, "nothing else is shown through which the new one could be copied"


def test_a_topic_that_was_never_copied_is_not_stopped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        return Observation(found, {"new": [1]}, {"new": [None]}, None, CommitLog(), {})

    monkeypatch.setattr(replication_sensor, "observe", observe)
    ticks = Ticks(place, "s:9092", "t:9092", ["new"])
    told = ticks.tick()
    assert isinstance(told, dg.SensorResult)
    assert len(told.run_requests or []) == 1
    assert [event for event in told.asset_events if isinstance(event, dg.AssetCheckEvaluation)] == []
    assert json.loads(ticks.cursor or "")["stopped"] == {}


def test_an_unreachable_cluster_is_a_reason_to_skip_in_bounded_time(place: Path) -> None:
    ticks = Ticks(place, "127.0.0.1:1", "127.0.0.1:1", "any")
    began = time.monotonic()
    answer = ticks.tick()
    assert isinstance(answer, dg.SkipReason)
    assert "source cluster at 127.0.0.1:1 does not answer" in str(answer.skip_message)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("value", "running"), [("running", True), ("", False), ("stopped", False)])
def test_it_runs_by_itself_only_where_that_is_wanted(
    place: Path, monkeypatch: pytest.MonkeyPatch, value: str, running: bool
) -> None:
    monkeypatch.setenv("K2K_SENSORS", value)
    place.mkdir()
    write_pipeline(place, "127.0.0.1:1", "127.0.0.1:1", "any")
    (sensor,) = build_definitions(place).get_repository_def().sensor_defs
    assert (sensor.default_status is dg.DefaultSensorStatus.RUNNING) == running
