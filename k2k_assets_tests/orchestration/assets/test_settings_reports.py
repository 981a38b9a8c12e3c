"""What a run that copies without end says of the settings of topics: what is new, at its pace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.orchestration.assets.settings_reports import SettingsReports, shown_summaries
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.verdict import Judgement, Verdict

TOPICS = ("a.b", "a-b", "orders")
FINE, WRONG = Verdict(Judgement.PASSED, "as it has to be"), Verdict(Judgement.WARNED, "retention.ms differs")


@dataclass
class World:
    """Settings of topics, and a Dagster instance that is told of them."""

    found: dict[str, Verdict] = field(default_factory=lambda: dict.fromkeys(TOPICS, FINE))
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    told: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    looks: int = 0
    answers: bool = True

    def check(self, topics: Collection[str]) -> Mapping[str, Verdict]:
        """As `check_topic_settings`."""
        self.looks += 1
        if not self.answers:
            raise ClusterUnreachable("the target does not answer")
        return {topic: self.found[topic] for topic in topics}

    def report(self, evaluation: dg.AssetCheckEvaluation) -> None:
        """As Dagster's instance does."""
        self.told.append(evaluation)
        self.instance.report_runless_asset_event(evaluation)

    def reports(self) -> SettingsReports:
        """Those of a run that begins now."""
        shown = lambda checks: shown_summaries(self.instance, checks)  # noqa: E731
        return SettingsReports(AssetNames("p"), 600, self.check, shown, self.report, self.lines.append)

    def topics_told(self) -> list[str]:
        """Of which topics something was told since the last call."""
        names = sorted(evaluation.asset_key.path[-1] for evaluation in self.told)
        self.told.clear()
        return names


def test_only_what_is_new_is_told_also_by_the_next_run() -> None:
    world = World()
    reports = world.reports()
    reports.report_when_due(TOPICS, 1000)
    assert world.topics_told() == sorted(TOPICS)
    reports.report_when_due(TOPICS, 1599)
    assert world.looks == 1
    reports.report_when_due(TOPICS, 1600)
    assert (world.looks, world.topics_told()) == (2, [])

    world.found["orders"] = WRONG
    later = world.reports()
    later.report_when_due(TOPICS, 5)
    (told,) = world.told
    assert (told.passed, told.severity, told.check_name) == (False, dg.AssetCheckSeverity.WARN, "as_configured")
    assert world.topics_told() == ["orders"]
    world.found["orders"] = FINE
    later.report_when_due(TOPICS, 605)
    assert world.topics_told() == ["orders"]


def test_a_cluster_that_does_not_answer_is_asked_again_later() -> None:
    world = World(answers=False)
    reports = world.reports()
    reports.report_when_due(TOPICS, 1000)
    assert world.lines == ["the settings of the topics are looked at later: the target does not answer"]
    world.answers = True
    reports.report_when_due(TOPICS, 1300)
    assert world.topics_told() == []
    reports.report_when_due(TOPICS, 1600)
    assert world.topics_told() == sorted(TOPICS)


def test_before_a_topic_is_copied_nobody_is_asked() -> None:
    world = World()
    reports = world.reports()
    reports.report_when_due((), 1000)
    assert world.looks == 0
    reports.report_when_due(TOPICS, 1001)
    assert world.looks == 1
