"""What a run that copies without end says of topics that are late: each turn, once, and soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg
import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.assets.topics.freshness_reports import LOOK_SECONDS, FreshnessReports
from k2k_assets.orchestration.checks.evaluations import Evaluations
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.status.lag import PartitionLag

TOPICS = ("a.b", "a-b", "orders")
PROGRESS = Progress({TopicPartition(topic, 0): PartitionProgress(5, 9, 9) for topic in TOPICS}, 0.0)
INTERVAL = 600


@dataclass
class World:
    """How late topics are, and what was said of them."""

    seconds: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(TOPICS, 1.0))
    given: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    breaks: bool = False

    def lags(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> Mapping[TopicPartition, PartitionLag]:
        """As `lags_of`."""
        return {tp: PartitionLag(5, 9, self.seconds[tp.topic]) for tp in partitions}

    def give_unless_shown(self, verdicts: Evaluations) -> None:
        """As `RunVerdicts` does, but for what is shown already."""
        if self.breaks:
            raise OSError("the database is locked")
        self.given += verdicts

    def reports(self) -> FreshnessReports:
        """Those of a run that begins now."""
        return FreshnessReports(AssetNames("p"), 60.0, INTERVAL, self.lags, self)

    def told(self) -> dict[str, bool]:
        """The verdicts since the last call."""
        verdicts = {evaluation.asset_key.path[-1]: evaluation.passed for evaluation in self.given}
        self.given.clear()
        return verdicts


def test_each_turn_is_told_within_half_a_minute() -> None:
    world = World()
    reports = world.reports()
    now = 1000.0
    reports.report_when_due(PROGRESS, now)
    assert {evaluation.check_name for evaluation in world.given} == {
        "keeps_up_a_dot_b",
        "keeps_up_a_dash_b",
        "keeps_up",
    }
    assert world.told() == dict.fromkeys(TOPICS, True)
    for seconds, told in ((1.0, {}), (61.0, {"orders": False}), (900.0, {}), (None, {}), (60.0, {"orders": True})):
        world.seconds["orders"] = seconds
        reports.report_when_due(PROGRESS, now + LOOK_SECONDS - 1)
        assert world.told() == {}, "not yet"
        now += LOOK_SECONDS
        reports.report_when_due(PROGRESS, now)
        assert world.told() == told


def test_all_are_compared_with_what_is_shown_from_time_to_time() -> None:
    """A click may have given a verdict since."""
    world = World()
    reports = world.reports()
    reports.report_when_due(PROGRESS, 1000)
    world.told()
    reports.report_when_due(PROGRESS, 1000 + INTERVAL)
    assert world.told() == dict.fromkeys(TOPICS, True)


def test_what_could_not_be_told_is_told_at_the_next_look() -> None:
    world = World(breaks=True)
    reports = world.reports()
    with pytest.raises(OSError, match="locked"):
        reports.report_when_due(PROGRESS, 1000)
    world.breaks = False
    reports.report_when_due(PROGRESS, 1000 + LOOK_SECONDS)
    assert world.told() == dict.fromkeys(TOPICS, True)


def test_before_a_topic_is_copied_nothing_is_told() -> None:
    world = World()
    world.reports().report_when_due(Progress({}, 0.0), 1000)
    assert world.told() == {}
