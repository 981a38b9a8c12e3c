"""Reports the check on topics' settings from inside a run that copies without end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.checks.evaluations import VerdictSink, evaluations
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
        verdicts: Takes the verdicts.
        log: Takes a line.
    """

    names: AssetNames
    interval: float
    check: Callable[[Collection[str]], Mapping[str, Verdict]]
    verdicts: VerdictSink
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
        self.verdicts.give_unless_shown(evaluations(settings_check_keys(self.names, topics), verdicts))
