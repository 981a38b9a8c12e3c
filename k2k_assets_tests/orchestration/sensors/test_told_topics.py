"""What the sensor tells of topics: those that are stopped, gone from the source, or copied by `k2k start`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import discovery
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.assets.data_versions import version_of, version_tags
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation, Positions
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.dagster.fixture import is_synced
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, requests, seen
from k2k_assets_tests.support.memory.clock import FakeClock


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
    wait_until(is_gone_synced, 120, "the sensor to report what is copied")
    delete_topic(source, gone)
    (failed,) = wait_until(lambda: [check for check in told() if not check.passed], 120, "the topic's check to fail")
    assert failed.asset_key == key
    assert "[source-deleted]" in (failed.description or "")
    ticks.clock = FakeClock(time.time() + 86_400)  # whatever the budget of reports
    assert not is_gone_synced()
    instance.end()


def test_a_stop_is_told_by_the_sensor_where_no_run_does(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of a run that was ended before it could tell it."""
    log = CommitLog(unreadable={TopicPartition("a", 0): "no JSON"})
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}, log))
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
    monkeypatch.setattr(replication_sensor, "observe", lambda pipeline: seen(pipeline, {}, log))
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
