"""With many topics a tick tells some of them, and a run stays longer."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import discovery
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation, Positions
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, requests
from k2k_assets_tests.support.memory.clock import FakeClock

MANY, PARTITIONS = 120, 20
MOST_TOLD = 25


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
