"""Ticks of the sensor on real clusters, without a daemon."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent

from k2k_assets import discovery
from k2k_assets.control.assignment_records import run_heartbeat_key, time_value
from k2k_assets.control.assignment_writing import write_record, write_records
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence, heartbeat_timeout_seconds
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.assets.data_versions import version_of, version_tags
from k2k_assets.orchestration.runs.run_heartbeats import SILENT_SECONDS
from k2k_assets.orchestration.sensors import observation, replication_sensor
from k2k_assets.orchestration.sensors.next_run_decision import LONGEST_BACK_OFF, START_SECONDS
from k2k_assets.orchestration.sensors.observation import Observation, Positions
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.fixture import is_synced
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, reason, requests
from k2k_assets_tests.support.memory.clock import FakeClock

MANY, PARTITIONS = 120, 20
MOST_TOLD = 25


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "pipelines"


@pytest.mark.integration
def test_it_asks_for_one_run_that_copies_and_discovers(clusters: KafkaSandbox, place: Path) -> None:
    prefix = unique("s")
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, f"{prefix}[.].*")
    nothing = ticks.tick()
    assert (requests(nothing), reason(nothing)) == ([], "no topic of the source is selected")
    topic = create_topic(clusters.source_servers, f"{prefix}.one")
    (request,) = requests(ticks.tick())
    assert (request.job_name, request.tags) == (ticks.names.sync_job, ticks.names.sync_tags)
    found = discovery.load(ticks.pipeline.name)
    assert found is not None
    assert set(found.topics) == {topic}
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    waiting = ticks.tick()
    assert requests(waiting) == []
    assert "copies" in reason(waiting)


@pytest.mark.integration
def test_mappings_are_brought_up_to_date_beside_the_copy(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic, features=features)
    HandCopy(ticks.pipeline).commit(topic, 0)
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    (request,) = requests(ticks.tick())
    assert (request.job_name, request.tags) == (ticks.names.mappings_job, ticks.names.mappings_tags)
    ticks.run(ticks.names.mappings_job, ticks.names.mappings_tags)
    assert requests(ticks.tick()) == []


@pytest.mark.integration
def test_mappings_are_brought_up_to_date_each_interval_of_the_file(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    ticks = Ticks(
        place,
        clusters.source_servers,
        clusters.target_servers,
        topic,
        features=features,
        index={"interval": "1 minute"},
    )
    ticks.clock = clock = FakeClock(time.time())
    HandCopy(ticks.pipeline).commit(topic, 0)
    job = ticks.names.mappings_job
    run = ticks.run(job, ticks.names.mappings_tags)
    ticks.instance.report_dagster_event(DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, job), run.run_id)
    for seconds, asked in ((50, False), (60, True)):
        clock.advance(seconds)
        assert (job in {each.job_name for each in requests(ticks.tick())}) is asked


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
    assert why.startswith(f"1 of 1 partition is stopped: {topic}-0: [records-deleted] records 0 to 4 were deleted")
    assert turned() == [], "told once"
    hand.commit(topic, 5)
    assert turned() == [(True, f"no partition of {topic} is stopped")]


@pytest.mark.slow
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

    reported: list[dg.AssetMaterialization] = []

    def answer() -> tuple[int, str]:
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        reported.extend(event for event in told.asset_events if isinstance(event, dg.AssetMaterialization))
        return len(requests(told)), reason(told)

    instance = Running(ticks.pipeline, 1)
    produce(clusters.source_servers, one, [b"1"])
    instance.await_copied(1)
    create_topic(clusters.source_servers, two)
    words = f"copied without end by pipeline {ticks.pipeline.name} on "
    began = time.monotonic()
    while time.monotonic() < began + 10:  # longer than the heartbeat timeout, so its heartbeats are seen
        asked, why = answer()
        assert asked == 0
        assert words in why
        time.sleep(0.2)  # without it, this loop would use one of two cores
    of_one = [event for event in reported if event.asset_key == ticks.names.topic_key(one)]
    assert of_one[0].metadata["k2k/lag"].value == 0, "it is told as a run of our own is"
    assert words.removeprefix("copied without end by ") in str(of_one[0].metadata["k2k/copied_by"].value)
    assert len(of_one) == 1, "nothing has moved since"
    instance.end()
    wait_until(lambda: answer()[0] == 1, 60, "the sensor to ask for a run")


@pytest.mark.slow
@pytest.mark.integration
def test_a_topic_that_is_deleted_while_k2k_start_copies_it_fails_its_check(clusters: KafkaSandbox, place: Path) -> None:
    source, name = clusters.source_servers, unique("deleted")
    gone, stays = (create_topic(source, f"{name}.{each}") for each in ("gone", "stays"))
    control = {"commit": {"topic": f"{name}-commits"}, "assignment": {"topic": f"{name}-claims"}}
    ticks = Ticks(place, source, clusters.target_servers, [gone, stays], coordination=control)
    key = ticks.names.topic_key(gone)

    def told() -> list[dg.AssetCheckEvaluation]:
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        for event in answer.asset_events:
            ticks.instance.report_runless_asset_event(event)
        return [event for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)]

    def is_gone_synced() -> bool:
        told()
        return is_synced(ticks.instance, build_definitions(ticks.folder), key)

    instance = Running(ticks.pipeline, 1)
    produce(source, gone, [b"1"])
    instance.await_copied(1)
    wait_until(is_gone_synced, 60, "the sensor to report what is copied")
    delete_topic(source, gone)
    (failed,) = wait_until(lambda: [check for check in told() if not check.passed], 60, "the topic's check to fail")
    assert failed.asset_key == key
    assert "[source-deleted]" in (failed.description or "")
    ticks.clock = FakeClock(time.time() + 86_400)  # whatever the budget of reports
    assert not is_gone_synced()
    instance.end()


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


def _seen(pipeline: Pipeline, instances: dict[str, Presence], log: CommitLog | None = None) -> Observation:
    found = Discovery(pipeline.name, 0, "source", "target", {})
    return Observation(found, {"a": [10]}, {"a": [9]}, None, log or CommitLog(), instances)


def _behind(pipeline: Pipeline) -> Observation:
    return replace(_seen(pipeline, {}), mappings={"a": [0]})


def test_a_run_whose_process_is_gone_is_reported_as_failed_and_replaced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    instances: dict[str, Presence] = {}
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, instances))
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
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}))
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
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}))
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
        return _seen(pipeline, instances)

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
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}))
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
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}))
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


def test_a_stop_is_told_by_the_sensor_where_no_run_does(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of a run that was ended before it could tell it."""
    log = CommitLog(unreadable={TopicPartition("a", 0): "no JSON"})
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}, log))
    ticks = Ticks(place, "s:9092", "t:9092", ["a"])
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)

    def told() -> list[bool]:
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        assert requests(answer) == []
        return [event.passed for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)]

    assert told() == [], "the run tells it"
    ticks.instance.report_run_canceled(run)
    assert told() == [False]
    assert told() == []


def test_a_stop_of_a_topic_that_is_not_shown_is_told_once_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CommitLog(unreadable={TopicPartition("a", 0): "no JSON"})
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: _seen(pipeline, {}, log))
    ticks = Ticks(place, "s:9092", "t:9092", ".*")

    def told() -> int:
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        return len([event for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)])

    assert told() == 0
    known = {"a": DiscoveredTopic(1, "a")}
    discovery.save(Discovery(ticks.pipeline.name, 0, "source", "target", known))
    assert told() == 1


def test_what_k2k_start_copies_of_a_topic_that_is_stopped_is_not_synced(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands behind the end of its source, which was created anew."""
    others: list[int] = []

    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        instances = {"i": Presence(sign=7, who="k2k start")}
        return Observation(found, {"a": [10]}, {"a": [500]}, None, CommitLog(), instances, {"a": others})

    monkeypatch.setattr(replication_sensor, "observe", observe)
    ticks = Ticks(place, "s:9092", "t:9092", ["a"])

    def synced() -> bool:
        for _ in ("the commit log's", "the topic's"):
            answer = ticks.tick()
            assert isinstance(answer, dg.SensorResult)
            for event in answer.asset_events:
                ticks.instance.report_runless_asset_event(event)
        return is_synced(ticks.instance, build_definitions(ticks.folder), ticks.names.topic_key("a"))

    assert synced()
    others.append(0)
    monkeypatch.setattr(replication_sensor, "report_interval", lambda *_: 0.0)
    assert not synced()


def test_a_topic_that_is_gone_from_the_source_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slot in `k2k start` has stopped it. What else the commit log knows is another pipeline's."""
    tp = TopicPartition("a", 0)
    log = CommitLog({tp: commit_record(tp, position=10), TopicPartition("other", 0): commit_record(tp)})
    ends: dict[str, list[int]] = {"a": [10], "b": [10]}

    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        positions: dict[str, Positions] = {topic: [10] for topic in ends}
        others = {} if "a" in ends else {"a": {0}}
        return Observation(found, ends, positions, None, log, {"i": Presence(sign=7, who="k2k start")}, others)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    monkeypatch.setattr(replication_sensor, "report_interval", lambda *_: 0.0)
    ticks = Ticks(place, "s:9092", "t:9092", ["a", "b"])
    key = ticks.names.topic_key("a")

    def told() -> list[tuple[dg.AssetKey, bool]]:
        checks: list[tuple[dg.AssetKey, bool]] = []
        for _ in ("the topics", "the commit log"):
            answer = ticks.tick()
            assert isinstance(answer, dg.SensorResult)
            for event in answer.asset_events:
                ticks.instance.report_runless_asset_event(event)
                if isinstance(event, dg.AssetCheckEvaluation):
                    checks.append((event.asset_key, event.passed))
        return checks

    assert (key, True) in told()
    assert is_synced(ticks.instance, build_definitions(ticks.folder), key)
    del ends["a"]
    log.positions[tp] = commit_record(tp, position=10, reason=SourceDeleted("a"))
    assert told() == [(key, False)]
    assert not is_synced(ticks.instance, build_definitions(ticks.folder), key)
    assert is_synced(ticks.instance, build_definitions(ticks.folder), ticks.names.commit_log_key)
    assert told() == []
    ends["a"] = [10]
    log.positions[tp] = commit_record(tp, position=10)
    assert told() == [(key, True)], "somebody has put it right"


def test_a_topic_that_is_quiet_is_told_once_more_when_its_id_gets_known(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade: what was told before has versions without ids, and an observation has one."""
    ids: dict[str, str] = {}

    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        instances = {"i": Presence(sign=7, who="k2k start")}
        return Observation(found, {"a": [10]}, {"a": [10]}, None, CommitLog(), instances, topic_ids=ids)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    monkeypatch.setattr(replication_sensor, "report_interval", lambda *_: 0.0)
    ticks = Ticks(place, "s:9092", "t:9092", ["a"])
    key, source = ticks.names.topic_key("a"), ticks.names.source_key("a")

    def told() -> int:
        events: list[object] = []
        for _ in ("the commit log's", "the topic's"):
            answer = ticks.tick()
            assert isinstance(answer, dg.SensorResult)
            for event in answer.asset_events:
                ticks.instance.report_runless_asset_event(event)
            events += [event for event in answer.asset_events if event.asset_key in (key, source)]
        return len(events)

    def looked_at(topic_id: str) -> bool:
        tags = version_tags(version_of([(0, 10)], topic_id))
        ticks.instance.report_runless_asset_event(dg.AssetObservation(source, tags=tags))
        return is_synced(ticks.instance, build_definitions(ticks.folder), key)

    assert told() == 2
    assert not looked_at("one")
    ids["a"] = "one"
    assert told() == 2
    assert looked_at("one")
    assert told() == 0
    assert not looked_at("two"), "created anew, at the same end"


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
    assert json.loads(ticks.cursor or "")["stopped"] == ""


def _many(place: Path, monkeypatch: pytest.MonkeyPatch, log: CommitLog, instances: dict[str, Presence]) -> Ticks:
    """A sensor on `MANY` topics of `PARTITIONS` partitions, all of which are shown."""
    _observed(monkeypatch, log, instances)
    ticks = Ticks(place, "s:9092", "t:9092", ".*")
    discovery.save(Discovery(ticks.pipeline.name, 0, "source", "target", _many_topics()))
    return ticks


def _many_topics() -> dict[str, DiscoveredTopic]:
    return {name: DiscoveredTopic(PARTITIONS, name) for name in (f"t{number:04}" for number in range(MANY))}


def _observed(monkeypatch: pytest.MonkeyPatch, log: CommitLog, instances: dict[str, Presence]) -> None:
    """Lets the sensor see the many topics, all of which have moved since it looked last."""

    def observe(pipeline: Pipeline) -> Observation:
        topics = _many_topics()
        positions: dict[str, Positions] = {topic: [time.time_ns()] * PARTITIONS for topic in topics}
        ends = {topic: [100] * PARTITIONS for topic in topics}
        found = Discovery(pipeline.name, 0, "source", "target", topics)
        return Observation(found, ends, positions, None, log, instances)

    monkeypatch.setattr(replication_sensor, "observe", observe)


def test_of_many_topics_a_run_stays_longer(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reports all of them at its start. Dagster takes its config, and the sensor leaves it alone so long."""
    ticks = _many(place, monkeypatch, CommitLog(), {})
    request = next(each for each in requests(ticks.tick()) if each.job_name == ticks.names.sync_job)
    op = ticks.names.op("topics")
    config = request.run_config["ops"][op]["config"]
    events = MANY * 3 + 1 + MANY // 30 + MANY * PARTITIONS / 8
    assert config == {"extent": "continuous", "window_seconds": round(86_400 * events / 1800)}
    job = build_definitions(ticks.folder).resolve_job_def(ticks.names.sync_job)
    assert dg.validate_run_config(job, request.run_config)["ops"][op]["config"]["extent"] == "continuous"

    clock = ticks.clock = FakeClock()
    run = ticks.run(ticks.names.sync_job, dict(request.tags))
    started = ticks.instance.get_run_records()[0].create_timestamp.timestamp()
    for seconds, asked in ((config["window_seconds"] - 1, 0), (config["window_seconds"] + 1, 1)):
        clock.now = started + seconds
        alive = {"i": Presence(sign=int(clock.now), who="it", run=run.run_id)}
        _observed(monkeypatch, CommitLog(), alive)
        assert len([each for each in requests(ticks.tick()) if each.job_name == ticks.names.sync_job]) == asked


def test_of_many_topics_that_are_stopped_a_tick_tells_some(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once."""
    partitions = [TopicPartition(f"t{topic:04}", n) for topic in range(MANY) for n in range(PARTITIONS)]
    log = CommitLog({tp: commit_record(tp, reason=SourceDeleted(tp.topic)) for tp in partitions})
    ticks = _many(place, monkeypatch, log, {})
    told: list[str] = []
    for _ in range(100):
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        checks = [event for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
        told += [check.asset_key.path[-1] for check in checks]
        if not checks:
            break
        assert len(checks) <= MOST_TOLD
    assert told == sorted({tp.topic for tp in partitions})


def test_of_many_topics_that_k2k_start_copies_a_tick_tells_some(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are new come first, then all take turns at the pace of the budget."""
    ticks = _many(place, monkeypatch, CommitLog(), {"i": Presence(sign=7, who="k2k start")})
    clock = ticks.clock = FakeClock()

    def told() -> list[str]:
        answer = ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        made = [event for event in answer.asset_events if isinstance(event, dg.AssetMaterialization)]
        return [event.asset_key.path[-1] for event in made if event.asset_key != ticks.names.commit_log_key]

    everything = [f"t{number:04}" for number in range(MANY)]
    assert [topic for _ in range(-(-MANY // MOST_TOLD)) for topic in told()] == everything
    assert told() == [], "it is not time"
    in_turn = []
    for _ in range(4):
        clock.advance(86_400.0)
        in_turn += told()
    assert in_turn == everything[: len(in_turn)], "from the beginning again"
    assert 4 <= len(in_turn) <= 4 * MOST_TOLD


def test_an_unreachable_cluster_is_a_reason_to_skip_in_bounded_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "CALL_SECONDS", 1.0)
    ticks = Ticks(place, "127.0.0.1:1", "127.0.0.1:1", "any")
    began = time.monotonic()
    answer = ticks.tick()
    assert requests(answer) == []
    assert "source cluster at 127.0.0.1:1 does not answer" in reason(answer)
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
