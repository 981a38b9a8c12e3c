"""A run that died, however it did, is reported as failed and replaced; one that was terminated is not. Silence is told
from clocks, and from a sensor that stalls itself."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent

from k2k_assets.control.assignment_records import run_heartbeat_key, time_value
from k2k_assets.control.assignment_writing import write_record, write_records
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence, heartbeat_timeout_seconds
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.runs.run_heartbeats import SILENT_SECONDS
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.next_run_decision import LONGEST_BACK_OFF, START_SECONDS
from k2k_assets.orchestration.sensors.observation import Observation
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, reason, requests, seen
from k2k_assets_tests.support.memory.clock import FakeClock


@pytest.mark.integration
def test_a_run_whose_process_was_killed_does_not_keep_the_mappings_back(clusters: KafkaSandbox, place: Path) -> None:
    """Dagster's default launcher does not watch its processes: for Dagster that run is in progress for ever."""
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic, features=features)
    ticks.clock = clock = FakeClock(time.time())
    HandCopy(ticks.pipeline).commit(topic, 0)
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    updating = ticks.run(ticks.names.mappings_job, ticks.names.mappings_tags)
    started = DagsterEvent(dg.DagsterEventType.RUN_START.value, ticks.names.mappings_job)
    ticks.instance.report_dagster_event(started, updating.run_id)

    def asked_after(seconds: float) -> list[str | None]:
        clock.advance(seconds)
        return [each.job_name for each in requests(ticks.tick()) if each.job_name == ticks.names.mappings_job]

    def is_failed() -> bool:
        run = ticks.instance.get_run_by_id(updating.run_id)
        return run is not None and run.status is dg.DagsterRunStatus.FAILURE

    key = run_heartbeat_key(ticks.pipeline.group, updating.run_id)
    for _ in range(4):
        write_record(ticks.pipeline, key, time_value(0))
        assert asked_after(SILENT_SECONDS / 2) == [], "it beats"
    assert asked_after(SILENT_SECONDS / 2) == []
    assert not is_failed()
    assert asked_after(SILENT_SECONDS) == [ticks.names.mappings_job]
    assert is_failed()


@pytest.mark.integration
def test_heartbeats_that_killed_runs_left_do_not_fill_the_cursor(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    assignment, features = {"topic": unique("claims")}, {"offsetMapping": "enabled"}
    ticks = Ticks(
        place,
        clusters.source_servers,
        clusters.target_servers,
        topic,
        features=features,
        coordination={"assignment": assignment},
    )
    create_topic(clusters.target_servers, assignment["topic"])
    ticks.tick()
    before = len(ticks.cursor or "")
    killed = [run_heartbeat_key(ticks.pipeline.group, f"{n:032x}") for n in range(1_000)]
    write_records(ticks.pipeline, [(key, time_value(0)) for key in killed])
    ticks.tick()
    assert len(ticks.cursor or "") - before < 100, "the time of the look has more digits now and then"


@pytest.mark.integration
def test_a_run_that_dies_while_its_spark_starts_is_found_by_its_heartbeats(clusters: KafkaSandbox, place: Path) -> None:
    """Wherever its process was. No slot has claimed anything, so that nothing else tells of it."""
    topic = create_topic(clusters.source_servers, unique("s"))
    assignment = {"topic": unique("claims")}
    ticks = Ticks(
        place, clusters.source_servers, clusters.target_servers, topic, coordination={"assignment": assignment}
    )
    create_topic(clusters.target_servers, assignment["topic"])
    ticks.clock = clock = FakeClock(time.time())
    starting = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    ticks.instance.report_dagster_event(
        DagsterEvent(dg.DagsterEventType.RUN_START.value, ticks.names.sync_job), starting.run_id
    )
    key, timeout = run_heartbeat_key(ticks.pipeline.group, starting.run_id), heartbeat_timeout_seconds(ticks.pipeline)

    def asked_after(seconds: float) -> list[dg.RunRequest]:
        clock.advance(seconds)
        return requests(ticks.tick())

    for _ in range(20):  # for longer than a run without heartbeats may take to start
        write_record(ticks.pipeline, key, time_value(0))
        assert asked_after(2 * timeout / 3) == [], "its Spark starts still"
    assert asked_after(2 * timeout / 3) == []
    (request,) = asked_after(2 * timeout / 3)
    assert request.job_name == ticks.names.sync_job
    run = ticks.instance.get_run_by_id(starting.run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.FAILURE


def test_a_look_that_stalls_is_not_the_silence_of_an_instance(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stall = FakeClock(), [0.0]

    def observe(pipeline: Pipeline) -> Observation:
        clock.advance(stall[0])
        instances = {"i": Presence(sign=7, who="pipeline p on host")}
        found = Discovery(pipeline.name, 0, "source", "target", {})
        return Observation(found, {"a": [10]}, {"a": [9]}, None, CommitLog(), instances)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    assignment = {"topic": "claims", "graceWindow": "15 seconds"}
    ticks = Ticks(place, "s:9092", "t:9092", "a", coordination={"assignment": assignment})
    ticks.clock = clock

    def asked() -> int:
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        return len(told.run_requests or [])

    assert asked() == 0
    clock.now, stall[0] = 1005.0, 60.0
    assert asked() == 0, "it has been looked at for 5 s, whatever the rest of the look took"
    stall[0] = 0.0
    assert asked() == 1


def _behind(pipeline: Pipeline) -> Observation:
    return replace(seen(pipeline, {}), mappings={"a": [0]})


def test_a_run_whose_process_is_gone_is_reported_as_failed_and_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    instances: dict[str, Presence] = {}
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, instances))
    assignment = {"topic": "claims", "graceWindow": "15 seconds"}
    ticks = Ticks(place, "s:9092", "t:9092", "a", coordination={"assignment": assignment})
    ticks.clock = clock
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    instances["i"] = Presence(sign=7, who="it", run=run.run_id)
    for clock.now in (1000.0, 1010.0):
        assert requests(ticks.tick()) == []
    clock.now = 1015.0
    (request,) = requests(ticks.tick())
    assert request.run_key == f"sync-after-{run.run_id}"
    failed = ticks.instance.get_run_by_id(run.run_id)
    assert failed is not None
    assert failed.status is dg.DagsterRunStatus.FAILURE


def test_a_run_of_the_mappings_that_never_began_is_reported_as_failed_and_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was killed before it said a word: no silence tells of it, and Dagster's run monitoring is off."""
    monkeypatch.setattr(replication_sensor, "observe", _behind)
    ticks = Ticks(place, "s:9092", "t:9092", "a", features={"offsetMapping": "enabled"})
    ticks.clock = clock = FakeClock(time.time())
    job, tags = ticks.names.mappings_job, ticks.names.mappings_tags

    def asked() -> list[str | None]:
        return [each.run_key for each in requests(ticks.tick()) if each.job_name == job]

    run = ticks.run(job, tags, dg.DagsterRunStatus.STARTING)
    assert asked() == []
    clock.advance(START_SECONDS + 60)  # so that a busy machine may create the run late
    assert asked() == [f"mappings-after-{run.run_id}"]
    failed = ticks.instance.get_run_by_id(run.run_id)
    assert failed is not None
    assert failed.status is dg.DagsterRunStatus.FAILURE
    ticks.run(job, tags, dg.DagsterRunStatus.STARTING)
    assert asked() == [], "the second in a row: the next one waits a little"


def test_a_run_that_nobody_launched_is_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster's daemon was killed between creation and launch."""
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}))
    ticks = Ticks(place, "s:9092", "t:9092", "a")
    ticks.clock = clock = FakeClock(time.time())
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags, dg.DagsterRunStatus.NOT_STARTED)
    assert requests(ticks.tick()) == []
    clock.advance(START_SECONDS + 60)  # so that a busy machine may create the run late
    (request,) = requests(ticks.tick())
    assert request.run_key == f"sync-after-{run.run_id}"


def test_no_run_key_comes_twice_where_the_clock_of_the_database_is_late(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster drops a request whose key it knows, without a word: nothing would be copied any more."""
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}))
    ticks = Ticks(place, "s:9092", "t:9092", "a")
    job, tags = ticks.names.sync_job, ticks.names.sync_tags
    ticks.clock = clock = FakeClock(time.time())
    keys: list[str | None] = []
    for n in range(3):
        (request,) = requests(ticks.tick())
        (again,) = requests(ticks.tick())
        assert request.run_key == again.run_key, "a tick that is evaluated twice asks for one run"
        keys.append(request.run_key)
        run = ticks.run(job, tags, dg.DagsterRunStatus.STARTING)
        if n == 0:  # its process tells the time of this machine, ten seconds later than the database's
            start = DagsterEvent(dg.DagsterEventType.RUN_START.value, job)
            at = datetime.fromtimestamp(time.time() + 10, UTC)
            ticks.instance.run_storage.handle_run_event(run.run_id, start, at)
        ticks.instance.report_run_failed(run)
        clock.advance(LONGEST_BACK_OFF)
    assert len(set(keys)) == 3


def test_silence_while_nobody_could_write_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = FakeClock(), [True]
    instances: dict[str, Presence] = {}

    def observe(pipeline: Pipeline) -> Observation:
        if not answers[0]:
            raise ClusterUnreachable("the target does not answer")
        return seen(pipeline, instances)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    assignment = {"topic": "claims", "graceWindow": "15 seconds"}
    ticks = Ticks(place, "s:9092", "t:9092", "a", coordination={"assignment": assignment})
    ticks.clock = clock
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    instances["i"] = Presence(sign=7, who="it", run=run.run_id)
    for clock.now, answers[0] in ((1000.0, True), (1010.0, False), (1040.0, True), (1050.0, True)):
        assert requests(ticks.tick()) == []
    clock.now = 1055.0
    assert len(requests(ticks.tick())) == 1


def test_a_run_that_was_terminated_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}))
    ticks = Ticks(place, "s:9092", "t:9092", "a")
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    ticks.instance.report_run_canceled(run)
    answer = ticks.tick()
    assert requests(answer) == []
    assert f"run {run.run_id} was terminated by hand" in reason(answer)
    ticks.switched_on = time.time() + 1
    assert len(requests(ticks.tick())) == 1


def test_a_run_that_dies_while_it_is_terminated_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster does not notice: by its record the run would be being canceled for ever."""
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}))
    ticks = Ticks(place, "s:9092", "t:9092", "a")
    ticks.clock = clock = FakeClock(time.time())
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    ticks.instance.report_run_canceling(run)
    clock.advance(START_SECONDS + 60)  # so that a busy machine may create the run late
    for _ in range(2):
        answer = ticks.tick()
        assert requests(answer) == []
        assert f"run {run.run_id} was terminated by hand" in reason(answer)
    ended = ticks.instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.CANCELED
