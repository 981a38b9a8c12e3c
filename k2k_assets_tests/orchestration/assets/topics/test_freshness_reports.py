"""What a run that copies without end says of topics that are late: each turn, once, and soon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import dagster as dg
import pytest

from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.orchestration.assets.topics.freshness_reports import LOOK_SECONDS, FreshnessReports
from k2k_assets.orchestration.checks.evaluations import Evaluations
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.replication.driver.source_looks import SourceLooks
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

    def give_doubts(self, doubts: Evaluations) -> None:
        """As `RunVerdicts` does; what passed is told apart there."""
        self.give_unless_shown(doubts)

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


def test_what_passed_is_in_doubt_where_the_source_does_not_tell_its_ends_for_long() -> None:
    world = World()
    reports = world.reports()
    reports.report_when_due(PROGRESS, 1000.0)
    assert world.told() == dict.fromkeys(TOPICS, True)
    orders = TopicPartition("orders", 0)
    silent = replace(
        PROGRESS, partitions={**PROGRESS.partitions, orders: PartitionProgress(5, END_UNKNOWN, END_UNKNOWN)}
    )
    world.seconds["orders"] = None
    reports.report_when_due(silent, 1030.0)
    reports.report_when_due(silent, 1090.0)
    assert world.told() == {}, "not for longer than the limit yet"
    reports.report_when_due(silent, 1120.0)
    (doubt,) = world.given
    assert (doubt.severity, doubt.asset_key.path[-1]) == (dg.AssetCheckSeverity.WARN, "orders")
    assert "is not known: the source does not tell" in (doubt.description or "")
    assert world.told() == {"orders": False}
    world.seconds["orders"] = 1.0
    reports.report_when_due(PROGRESS, 1150.0)
    assert world.told() == {"orders": True}


def test_a_stopped_partition_has_no_end_to_tell() -> None:
    """The check of the stops tells of it."""
    world = World(dict.fromkeys(TOPICS))
    stopped = PartitionProgress(5, END_UNKNOWN, END_UNKNOWN, stopped=SourceDeleted("orders"))
    reports = world.reports()
    for now in (1000.0, 2000.0):
        reports.report_when_due(Progress({TopicPartition("orders", 0): stopped}, 0.0), now)
    assert world.told() == {}


def test_what_is_late_by_its_timestamp_alone_is_looked_at_again_soon() -> None:
    """A producer gives records old timestamps (events of yesterday), and one is on its way at each look."""
    world = World()
    world.seconds["orders"] = 86_400.0
    reports = world.reports()
    orders, now = TopicPartition("orders", 0), 1000.0
    new = PartitionProgress(5, 9, 9, looks=SourceLooks(now, 9))
    reports.report_when_due(Progress({**PROGRESS.partitions, orders: new}, 0.0), now)
    assert "orders" not in world.told()
    world.seconds["orders"] = 1.0  # the end of the first look is reached
    reports.report_when_due(PROGRESS, now + 2)
    assert world.told() == {"orders": True}
    stands_still = replace(new, looks=SourceLooks(now - 10, 9))
    world.seconds["orders"] = 86_400.0
    reports = world.reports()
    reports.report_when_due(Progress({**PROGRESS.partitions, orders: stands_still}, 0.0), now)
    assert world.told()["orders"] is False
