"""What a run that copies without end says of the settings of topics: what is new, at its pace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.orchestration.assets.topics.settings_reports import SettingsReports
from k2k_assets.orchestration.checks.evaluations import Evaluations
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.verdict import Judgement, Verdict

TOPICS = ("a.b", "a-b", "orders")
FINE, WRONG = Verdict(Judgement.PASSED, "as it has to be"), Verdict(Judgement.WARNED, "retention.ms differs")


@dataclass
class World:
    """Settings of topics, and what Dagster shows of them."""

    found: dict[str, Verdict] = field(default_factory=lambda: dict.fromkeys(TOPICS, FINE))
    shown: dict[dg.AssetCheckKey, dg.AssetCheckEvaluation] = field(default_factory=dict)
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

    def give_unless_shown(self, verdicts: Evaluations) -> None:
        """As `RunVerdicts` does."""
        for verdict in verdicts:
            before = self.shown.get(verdict.asset_check_key)
            if before is None or before.description != verdict.description:
                self.told.append(verdict)
                self.shown[verdict.asset_check_key] = verdict

    def reports(self) -> SettingsReports:
        """Those of a run that begins now."""
        return SettingsReports(AssetNames("p"), 600, self.check, self, self.lines.append)

    def topics_told(self) -> list[str]:
        """Of which topics something was told since the last call."""
        names = sorted(evaluation.asset_key.path[-1] for evaluation in self.told)
        self.told.clear()
        return names


def test_only_what_is_new_is_told() -> None:
    world = World()
    reports = world.reports()
    reports.report_when_due(TOPICS, 1000)
    assert world.topics_told() == sorted(TOPICS)
    reports.report_when_due(TOPICS, 1599)
    assert world.looks == 1
    reports.report_when_due(TOPICS, 1600)
    assert (world.looks, world.topics_told()) == (2, [])

    world.found["orders"] = WRONG
    reports.report_when_due(TOPICS, 2200)
    (told,) = world.told
    assert (told.passed, told.severity, told.check_name) == (False, dg.AssetCheckSeverity.WARN, "as_configured")
    assert world.topics_told() == ["orders"]
    world.found["orders"] = FINE
    reports.report_when_due(TOPICS, 2800)
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
