"""Verdicts stay in sight where a `k2k start` copies, whose progress the sensor materializes."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, StepMaterializationData

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.checks.evaluations import RunVerdicts, evaluations
from k2k_assets.orchestration.sensors import replication_sensor
from k2k_assets.orchestration.sensors.observation import Observation, Positions
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.freshness import check_keeps_up
from k2k_assets.status.lag import PartitionLag
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks
from k2k_assets_tests.support.dagster.shown_checks import shown_judgement

TOPICS = [f"t{number:02}" for number in range(26)]  # more than one tick tells of
LIMIT_SECONDS = 300.0
LOG = CommitLog({TopicPartition(topic, 0): commit_record(TopicPartition(topic, 0), position=10) for topic in TOPICS})


class World:
    """A sensor that sees topics that are wholly copied, and Dagster."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instances: dict[str, Presence] = {}
        self.ticks = Ticks(place, "s:9092", "t:9092", TOPICS, sync={"freshness": "5 minutes"})
        monkeypatch.setattr(replication_sensor, "observe", self._observe)
        monkeypatch.setattr(replication_sensor, "report_interval", lambda *_: 0.0)

    def _observe(self, pipeline: Pipeline) -> Observation:
        found = Discovery(pipeline.name, 0, "source", "target", {})
        positions: dict[str, Positions] = {topic: [10] for topic in TOPICS}
        return Observation(found, {topic: [10] for topic in TOPICS}, positions, None, LOG, self.instances)

    def checks(self, name: str) -> dict[str, dg.AssetCheckKey]:
        """One of the checks of each topic."""
        return {topic: dg.AssetCheckKey(self.ticks.names.topic_key(topic), name) for topic in TOPICS}

    def materialized_by_a_run(self, run: dg.DagsterRun, topics: list[str]) -> None:
        """As a step does."""
        for topic in topics:
            data = StepMaterializationData(dg.AssetMaterialization(self.ticks.names.topic_key(topic)))
            event = DagsterEvent(
                dg.DagsterEventType.ASSET_MATERIALIZATION.value, run.job_name, event_specific_data=data
            )
            self.ticks.instance.report_dagster_event(event, run_id=run.run_id)

    def checked_by_a_run(self, run: dg.DagsterRun) -> None:
        """All is well, with the words that the sensor would use."""
        level = {0: PartitionLag(10, 10, 0.0)}
        late = {topic: verdict for topic in TOPICS if (verdict := check_keeps_up(topic, level, LIMIT_SECONDS))}
        stops = {topic: check_copies_on(topic, LOG) for topic in TOPICS}
        for name, verdicts in (("copies_on", stops), ("keeps_up", late)):
            RunVerdicts(self.ticks.instance, run.run_id, run.job_name).give(evaluations(self.checks(name), verdicts))

    def told(self) -> int:
        """Ticks until there is nothing to tell; returns the number of verdicts. Dagster is told as the daemon does."""
        verdicts = 0
        for _ in range(9):
            answer = self.ticks.tick()
            assert isinstance(answer, dg.SensorResult)
            if not answer.asset_events:
                return verdicts
            for event in answer.asset_events:
                self.ticks.instance.report_runless_asset_event(event)
                verdicts += isinstance(event, dg.AssetCheckEvaluation)
        pytest.fail("something is told with each tick")

    def shown(self) -> set[Judgement | None]:
        """What the UI shows of all checks."""
        checks = [*self.checks("copies_on").values(), *self.checks("keeps_up").values()]
        return {shown_judgement(self.ticks.instance, check) for check in checks}


def test_what_a_run_said_last_is_said_again_by_the_sensor(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its materializations hide what the run said: Dagster showed each check as not evaluated from then on."""
    world = World(place, monkeypatch)
    run = world.ticks.run(world.ticks.names.sync_job, world.ticks.names.sync_tags)
    world.materialized_by_a_run(run, TOPICS)
    world.checked_by_a_run(run)
    assert world.shown() == {Judgement.PASSED}
    world.ticks.instance.report_run_canceled(run)
    assert world.told() == 0, "while nothing copies, what the run said holds"
    world.instances["i"] = Presence(sign=7, who="k2k start")
    assert world.told() == 2 * len(TOPICS)
    assert world.shown() == {Judgement.PASSED}
