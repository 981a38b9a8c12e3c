"""`sync.freshness` on real clusters: where nothing copies, where `k2k start` does, and by a click."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.sensors import lateness, replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation, Positions
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.lag import PartitionLag
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks
from k2k_assets_tests.support.memory.clock import FakeClock

HOUR_MS = 3_600_000
LIMIT = {"freshness": "5 minutes"}


def ticked(ticks: Ticks) -> list[dg.AssetCheckEvaluation]:
    """What a tick says of late topics; Dagster is told as the daemon tells it."""
    answer = ticks.tick()
    assert isinstance(answer, dg.SensorResult)
    for event in answer.asset_events:
        ticks.instance.report_runless_asset_event(event)
    checks = [event for event in answer.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    return [check for check in checks if check.check_name.startswith("keeps_up")]


@pytest.mark.integration
def test_a_topic_is_late_until_it_is_copied(clusters: KafkaSandbox, place: Path) -> None:
    source = clusters.source_servers
    topic, quiet = (create_topic(source, unique(name)) for name in ("late", "quiet"))
    old = int(time.time() * 1000) - HOUR_MS
    produce(source, topic, [Record(value=b"%d" % n, timestamp=old) for n in range(5)])
    ticks = Ticks(place, source, clusters.target_servers, [topic, quiet], sync=LIMIT)

    late, fine = sorted(ticked(ticks), key=lambda check: check.asset_key.path[-1])
    assert (late.asset_key, late.passed) == (ticks.names.topic_key(topic), False)
    assert (late.description or "").startswith(f"records of {topic} wait for longer than sync.freshness, 5 min 0 s")
    assert re.search(r"1 h \d+ min behind, lag 5", str(late.metadata["k2k/offenders"].value))
    assert (fine.asset_key, fine.passed) == (ticks.names.topic_key(quiet), True)
    assert ticked(ticks) == [], "once"

    running = Running(ticks.pipeline, 1)
    running.await_copied(5)
    told = wait_until(lambda: ticked(ticks), 120, "the sensor to say that it is not late any more")
    running.end()
    assert [(check.asset_key, check.passed) for check in told] == [(ticks.names.topic_key(topic), True)]

    produce(source, topic, [Record(value=b"again", timestamp=old)])
    (clicked,) = by_click(ticks, topic)
    assert not clicked.passed
    assert re.search(r"1 h \d+ min behind, lag 1", str(clicked.metadata["k2k/offenders"].value))

    delete_topic(source, topic)
    (of_none,) = by_click(ticks, topic)
    assert not of_none.passed
    assert "is not known: the source does not have the topic" in (of_none.description or "")


def by_click(ticks: Ticks, topic: str) -> Sequence[dg.AssetCheckEvaluation]:
    """What the check itself says of a topic when somebody runs it alone."""
    check = dg.AssetCheckKey(ticks.names.topic_key(topic), "keeps_up")
    repository = build_definitions(ticks.folder).get_repository_def()
    job = next(job for job in repository.get_all_jobs() if job.name.startswith("__ASSET_JOB"))
    result = job.get_subset(asset_selection=frozenset(), asset_check_selection={check}).execute_in_process(
        instance=ticks.instance
    )
    return result.get_asset_check_evaluations()


def _observed(
    monkeypatch: pytest.MonkeyPatch, positions: dict[str, int | None], instances: dict[str, Presence]
) -> None:
    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        at = {topic: [position] for topic, position in positions.items()}
        return Observation(found, {topic: [10] for topic in positions}, at, None, CommitLog(), instances)

    monkeypatch.setattr(replication_sensor, "observe", observe)


def test_without_a_lag_the_source_is_not_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _observed(monkeypatch, {"a": 10}, {})
    monkeypatch.setattr(lateness, "both_clusters", lambda *_: pytest.fail("it is asked"))
    (check,) = ticked(Ticks(place, "s:9092", "t:9092", ["a"], sync=LIMIT))
    assert check.passed


def test_a_source_that_does_not_answer_changes_no_verdict(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "CALL_SECONDS", 0.5)
    _observed(monkeypatch, {"a": 7, "b": 10}, {})
    told = ticked(Ticks(place, "127.0.0.1:1", "127.0.0.1:1", ["a", "b"], sync=LIMIT))
    assert [check.asset_key.path[-1] for check in told] == ["b"]


@pytest.mark.parametrize("position", [10, None])
def test_a_partition_without_a_leader_changes_no_verdict(
    place: Path, monkeypatch: pytest.MonkeyPatch, position: int | None
) -> None:
    """Nobody knows what waits there, also where nothing of it was copied yet."""
    end, offline = position or 0, [TopicPartition("a", 1)]

    def observe(pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        at: dict[str, Positions] = {"a": [10, position], "b": [10]}
        return Observation(found, {"a": [10, end], "b": [10]}, at, None, CommitLog(), {}, offline=offline)

    monkeypatch.setattr(replication_sensor, "observe", observe)
    monkeypatch.setattr(lateness, "both_clusters", lambda *_: pytest.fail("it is asked"))
    ticks = Ticks(place, "s:9092", "t:9092", ["a", "b"], sync=LIMIT)
    assert [check.asset_key.path[-1] for check in ticked(ticks)] == ["b"]
    offline.clear()
    assert [check.asset_key.path[-1] for check in ticked(ticks)] == ["a"]


def test_what_passed_is_in_doubt_where_the_clusters_cannot_be_observed_for_long(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed green for as long as they were away, whatever waited. What is late stays late."""
    answers = [True]

    def observe(pipeline: Pipeline) -> Observation:
        if not answers[0]:
            raise ClusterUnreachable("the target cluster does not answer")
        found = Discovery(pipeline.name, 0, "source", "target", {})
        positions: dict[str, Positions] = {"a": [10], "late": [9]}
        return Observation(found, {"a": [10], "late": [10]}, positions, None, CommitLog(), {})

    def lags(
        _: object, __: object, behind: Mapping[TopicPartition, int | None], **___: object
    ) -> dict[TopicPartition, PartitionLag]:
        return {tp: PartitionLag(9, 10, 3600.0) for tp in behind}

    monkeypatch.setattr(replication_sensor, "observe", observe)
    monkeypatch.setattr(lateness, "read_lags", lags)
    ticks = Ticks(place, "s:9092", "t:9092", ["a", "late"], sync=LIMIT)
    ticks.clock = clock = FakeClock(time.time())

    def told(seconds: float) -> list[tuple[str, bool, dg.AssetCheckSeverity]]:
        clock.advance(seconds)
        return [(check.asset_key.path[-1], check.passed, check.severity) for check in ticked(ticks)]

    error, warn = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    assert sorted(told(0)) == [("a", True, error), ("late", False, error)]
    answers[0] = False
    assert told(299) == []
    assert told(2) == [("a", False, warn)]
    assert told(10) == [], "once"
    answers[0] = True
    assert told(10) == [("a", True, error)]
    answers[0] = False
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    assert told(3600) == [], "the run tells it"


def test_where_a_run_copies_it_tells_itself(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instances: dict[str, Presence] = {}
    _observed(monkeypatch, {"a": 10}, instances)
    ticks = Ticks(place, "s:9092", "t:9092", ["a"], sync=LIMIT)
    run = ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    instances["i"] = Presence(sign=7, who="it", run=run.run_id)
    assert ticked(ticks) == []


def test_without_a_limit_there_is_no_such_check(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _observed(monkeypatch, {"a": 7}, {})
    ticks = Ticks(place, "s:9092", "t:9092", ["a"])
    assert ticked(ticks) == []
    graph = build_definitions(ticks.folder).resolve_asset_graph()
    assert "keeps_up" not in {check.name for check in graph.asset_check_keys}
