"""Reports the check on topics' settings from inside a run that copies without end: only verdicts that are new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import dagster as dg

from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.checks.asset_checks import evaluations
from k2k_assets.orchestration.checks.topic_checks import settings_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.verification.verdict import Verdict


@dataclass(slots=True)
class SettingsReports:
    """Looks at the settings of all topics from time to time.

    Attributes:
        names: The pipeline's names.
        interval: Seconds between two looks.
        check: Gives a verdict for each of some topics; see `verification.topic_settings`.
        shown: What Dagster shows of some checks: the summaries of their last verdicts.
        report: Takes the verdicts.
        log: Takes a line.
    """

    names: AssetNames
    interval: float
    check: Callable[[Collection[str]], Mapping[str, Verdict]]
    shown: Callable[[Collection[dg.AssetCheckKey]], Mapping[dg.AssetCheckKey, str | None]]
    report: Callable[[dg.AssetCheckEvaluation], None]
    log: Callable[[str], None]
    _next: float = field(default=0.0)

    def report_when_due(self, topics: Collection[str], now: float) -> None:
        """Looks if it is time; a cluster that does not answer is asked again next time.

        Args:
            topics: Source topics that are copied.
            now: Seconds that only rise.
        """
        if not topics or now < self._next:
            return
        self._next = now + self.interval
        try:
            verdicts = self.check(sorted(topics))
        except K2KError as error:
            self.log(f"the settings of the topics are looked at later: {error}")
            return
        checks = settings_check_keys(self.names, topics)
        shown = self.shown(list(checks.values()))
        new = {topic: verdict for topic, verdict in verdicts.items() if shown.get(checks[topic]) != verdict.summary}
        for evaluation in evaluations(checks, new):
            self.report(evaluation)


def shown_summaries(
    instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, str | None]:
    """The summaries of the last verdicts of checks, with one question to Dagster; None of those that have none."""
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    found = {key: record.evaluation for key, record in latest.items()}
    return {key: each.description if isinstance(each, dg.AssetCheckEvaluation) else None for key, each in found.items()}
