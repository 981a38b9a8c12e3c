"""The commit log where a `k2k start` copies: it follows the topics, and Dagster takes it for made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.dagster.fixture import is_synced
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks

END = 10


@dataclass
class Seen:
    """Two topics that `k2k start` copies."""

    ticks: Ticks
    positions: dict[str, int] = field(default_factory=lambda: {"a": END, "b": END})

    def observe(self, pipeline: Pipeline) -> Observation:
        """What the clusters hold."""
        log = CommitLog({tp: commit_record(tp, position=at) for tp, at in self._at().items()})
        return Observation(
            Discovery(pipeline.name, 0, "source", "target", {}),
            {topic: [END] for topic in self.positions},
            {topic: [at] for topic, at in self.positions.items()},
            None,
            log,
            {"i": Presence(sign=7, who="k2k start at work")},
        )

    def _at(self) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, 0): at for topic, at in self.positions.items()}

    def tick(self) -> list[str]:
        """The assets that a tick reports."""
        answer = self.ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        for event in answer.asset_events:
            self.ticks.instance.report_runless_asset_event(event)
        made = [event for event in answer.asset_events if isinstance(event, dg.AssetMaterialization)]
        return [event.asset_key.path[-1] for event in made]

    def is_synced(self) -> bool:
        """What Dagster says of the commit log."""
        key = self.ticks.names.commit_log_key
        return is_synced(self.ticks.instance, build_definitions(self.ticks.folder), key)

    def metadata(self) -> dict[str, object]:
        """Of its newest materialization."""
        event = self.ticks.instance.get_latest_materialization_event(self.ticks.names.commit_log_key)
        assert event is not None
        assert event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    made = Seen(Ticks(tmp_path / "pipelines", "s:9092", "t:9092", ["a", "b"]))
    monkeypatch.setattr(replication_sensor, "observe", made.observe)
    monkeypatch.setattr(replication_sensor, "report_interval", lambda *_: 0.0)
    return made


def test_it_follows_the_topics_by_a_tick_of_its_own(seen: Seen) -> None:
    assert seen.tick() == ["a", "b"]
    assert seen.tick() == ["commit_log"]
    assert seen.is_synced()
    assert seen.tick() == [], "nothing has moved"
    shown = seen.metadata()
    assert (shown[keys.LAG], shown[keys.SECONDS_BEHIND], shown[keys.STOPPED]) == (0, 0.0, 0)
    assert (shown[keys.COPIED_BY], shown[keys.WORST]) == ("k2k start at work", "none")

    seen.positions["b"] = 4
    assert seen.tick() == ["b"]
    assert not seen.is_synced()
    assert seen.tick() == ["commit_log"]
    assert seen.is_synced(), "with the topic that was reported now, and the one that was reported before"
    shown = seen.metadata()
    assert (shown[keys.LAG], shown[keys.WORST]) == (END - 4, "b-0")
    assert keys.SECONDS_BEHIND not in shown, "it is not known without a look at the records"
