"""A run that moves consumer groups until the next one takes over, and reports to Dagster meanwhile.

Each group is reported once at the start, so that a quiet one does not look as if it were being made for an hour, then
those that moved, at the pace of `ReportSchedule`; with them how many of all are exact, ahead or unknown. A group is
checked each `checks.interval`, and in doubt if it could not be for so long; one that cannot be read or committed fails
its check, and the others are moved on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import dagster as dg

from k2k_assets.core.errors import K2KError
from k2k_assets.groups.report import PollFailed, PollResult
from k2k_assets.orchestration.assets.data_versions import provenance_tags
from k2k_assets.orchestration.assets.groups.check_pace import CheckPace
from k2k_assets.orchestration.assets.groups.failing_groups import FailingGroups
from k2k_assets.orchestration.assets.groups.group_results import (
    group_materialization,
    positions_metadata,
    positions_version,
)
from k2k_assets.orchestration.assets.groups.group_sync import describe, with_active_failed
from k2k_assets.orchestration.checks.evaluations import Evaluations, evaluations
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.event_sink import EventSink
from k2k_assets.orchestration.runs.report_schedule import ReportSchedule, group_report_interval
from k2k_assets.orchestration.runs.run_window import RunWindow
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.verdict import Judgement, Verdict

LOG_SECONDS = 300.0
# In the place of a data version of the mappings, which no mappings have.
_HELD_BACK = "held back"


class GroupVerdictSink(Protocol):
    """What of `RunVerdicts` is used here."""

    def give(self, verdicts: Evaluations) -> None:
        """Stores verdicts; see `RunVerdicts.give`."""

    def give_doubts(self, doubts: Evaluations) -> None:
        """Stores doubts about what passed; see `RunVerdicts.give_doubts`."""

    def superseded(self, checks: Collection[dg.AssetCheckKey]) -> set[dg.AssetCheckKey]:
        """Those of some checks whose newest verdict was not given as one of this run."""


@dataclass(slots=True)
class GroupRun:
    """Watches one run that moves groups.

    Attributes:
        pipeline: Whose groups.
        names: Its names.
        window: Seconds after which the next run is to take over.
        shown: Groups that have an asset.
        sink: Takes the materializations of this run.
        verdicts: Takes the verdicts on groups.
        verify: Compares some groups of a poll by content.
        mappings_version: Dagster's data version of the offset mappings; None where there is none.
        log: Takes a line.
        warn: Takes a line that needs attention.
        works: Called once: the run has read and translated the groups.
        clock: Seconds that only rise.
    """

    pipeline: Pipeline
    names: AssetNames
    window: float
    shown: Collection[str]
    sink: EventSink
    verdicts: GroupVerdictSink
    verify: Callable[[PollResult, Collection[str]], Mapping[str, Verdict]]
    mappings_version: Callable[[], str | None]
    log: Callable[[str], None]
    warn: Callable[[str], None]
    works: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _window: RunWindow = field(init=False)
    _schedule: ReportSchedule[Hashable] = field(init=False)
    _pace: CheckPace = field(init=False)
    _failing: FailingGroups = field(default_factory=FailingGroups)
    _untold: dict[str, Verdict] = field(default_factory=dict)
    _held_back: str = ""
    _in_trouble_since: float | None = None
    _has_worked: bool = False
    _not_compared_since: float | None = None
    _doubted: set[str] = field(default_factory=set)
    _failed: set[str] = field(default_factory=set)
    _committed: frozenset[str] = frozenset()
    _told: tuple[float, int, frozenset[str]] | None = None

    def __post_init__(self) -> None:
        """Begins the window."""
        self._window = RunWindow(self.window, self.clock)
        self._schedule = ReportSchedule(partial(group_report_interval, self.pipeline.groups.reports_per_day))
        self._pace = CheckPace(self.pipeline.checks.interval.total_seconds())

    def see(self, event: PollResult | PollFailed) -> None:
        """Reports what is to be reported."""
        match event:
            case PollFailed():
                self._note_trouble(event.reason, self.clock())
            case PollResult():
                self._note_no_trouble()
                self._take(with_active_failed(event, self.pipeline.error_handling.on_active_consumer_group_commit))
                if not self._has_worked:
                    self.works()
                    self._has_worked = True

    def is_over(self) -> bool:
        """Whether nobody has taken over for long after the window."""
        return self._window.is_long_over()

    def ending(self, superseded: str) -> str:
        """Why the run ended, in words.

        Args:
            superseded: What is said of who has taken over; empty if nobody has.
        """
        return self._window.ending(superseded)

    def _take(self, result: PollResult) -> None:
        now = self.clock()
        self._committed |= result.committed
        self._note_held_back(result.held_back)
        self._note_failing(result, now)
        states = self._states(result)
        self._report_when_due(result, states, now)
        if not result.held_back:
            # What is held back is not on the target, by intent.
            self._verify_when_due(result, states, now)
        self._log_when_due(result, now)

    def _states(self, result: PollResult) -> dict[str, Hashable]:
        """Where each group stands; one without a commit on a mapped topic of the source stands nowhere."""
        states: dict[str, Hashable] = dict.fromkeys(self.shown, ())
        for group, decision in result.decisions.items():
            late = group in result.active
            states[group] = tuple((row.target, row.offset, row.decision, late) for row in decision.rows)
        return {group: state for group, state in states.items() if group not in result.failed}

    # -- what is told when it happens ---------------------------------------------------------------------------

    def _note_trouble(self, why: str, now: float) -> None:
        """Tells once that polls fail; and if they do for long, that nobody knows whether what passed still holds."""
        if self._in_trouble_since is None:
            self._in_trouble_since = now
            self.warn(f"groups cannot be moved now, which is tried again and again: {why}")
        if now < self._in_trouble_since + self.pipeline.checks.interval.total_seconds():
            return
        if groups := set(self.shown) - self._doubted:
            doubts = dict.fromkeys(sorted(groups), Verdict(Judgement.WARNED, f"could not be moved for long: {why}"))
            self.verdicts.give_doubts(evaluations(self._checks(doubts), doubts, self.pipeline.files))
            self._doubted |= groups

    def _note_no_trouble(self) -> None:
        if self._in_trouble_since is not None:
            self._in_trouble_since = None
            self.log("groups are moved again")
            for group in self._doubted:
                self._pace.forget(group)

    def _note_held_back(self, why: str) -> None:
        if why == self._held_back:
            return
        if why:
            self.warn(f"no group is moved until the checks on the offset mappings pass: {why}")
        else:
            self.log("the checks on the offset mappings pass: groups are moved again")
        self._held_back = why
        self._schedule.begin_anew()

    def _note_failing(self, result: PollResult, now: float) -> None:
        new, well = self._failing.take(result.failed, now)
        gone = {*well, *self._failed, *self._doubted}.difference(result.decisions, result.failed)
        self._untold |= {group: Verdict(Judgement.FAILED, why) for group, why in new.items()}
        for group in {*well, *gone}:
            self._untold.pop(group, None)
            self._pace.forget(group)
        for group, why in new.items():
            self.warn(f"group {group} is not moved: {why}")
        for group in sorted(gone):
            # What was found wrong of it does not hold any more, and nothing is compared that could pass.
            self._untold[group] = Verdict(Judgement.WARNED, f"{group} has no commit on a mapped topic of the source")
            self.log(f"group {group} is not looked at any more: it has no commit on a mapped topic of the source")
        for group in sorted(set(well) - gone):
            self.log(f"group {group} is moved again")
        self._failed -= gone
        self._doubted -= gone
        # Where Dagster's database is away, the next poll tells it.
        self._evaluate(self._untold)
        self._untold.clear()

    # -- what is told at its pace -------------------------------------------------------------------------------

    def _report_when_due(self, result: PollResult, states: Mapping[str, Hashable], now: float) -> None:
        due = self._schedule.due(states, now)
        if not due:
            return
        version, since = self.mappings_version(), replace(result, committed=self._committed)
        # What is held back does not stand where the mappings say: Dagster is to show it as unsynced.
        inputs = {self.names.offset_mappings_key: _HELD_BACK if result.held_back else version} if version else {}
        for group in due:
            shown = group_materialization(since, group)
            tags = provenance_tags(shown.data_version.value, None, inputs)
            self.sink.log_event(
                dg.AssetMaterialization(self.names.consumer_group_key(group), metadata=shown.metadata, tags=tags)
            )
        self.sink.log_event(
            dg.AssetMaterialization(
                self.names.group_positions_key,
                metadata=positions_metadata(result),
                tags=provenance_tags(positions_version(result), None, inputs),
            )
        )
        self._check_again(due)
        self._schedule.reported({group: states[group] for group in due}, now)
        self._committed -= set(due)

    def _verify_when_due(self, result: PollResult, states: Mapping[str, Hashable], now: float) -> None:
        there = {group: states[group] for group in result.decisions if group in states}
        due = self._pace.due(there, now)
        if not due:
            return
        self._pace.checked({}, states, now)  # whatever comes of it: the next try is not the next poll's
        try:
            verdicts = self.verify(result, due)
        except K2KError as error:
            self.warn(f"groups are not compared now: {error}")
            doubts = self._doubts(due, error, now)
            self._evaluate(doubts)
            self._doubted |= doubts.keys()
            return
        self._not_compared_since = None
        self._doubted.clear()
        failed = {group for group, verdict in verdicts.items() if verdict.judgement is Judgement.FAILED}
        self._failed = (self._failed - verdicts.keys()) | failed
        self._evaluate(verdicts)
        self._pace.checked({group: verdict.passed for group, verdict in verdicts.items()}, states, now)

    def _doubts(self, due: Collection[str], why: K2KError, now: float) -> dict[str, Verdict]:
        """Verdicts on groups that could not be compared for an interval, once on each; none on what is found wrong."""
        since = self._not_compared_since = now if self._not_compared_since is None else self._not_compared_since
        if now < since + self.pipeline.checks.interval.total_seconds():
            return {}
        doubt = Verdict(Judgement.WARNED, f"could not be compared for long: {why}")
        return dict.fromkeys(set(due) - self._doubted - self._failed, doubt)

    def _evaluate(self, verdicts: Mapping[str, Verdict]) -> None:
        """A group that appeared since has a check as soon as the definitions are loaded anew."""
        self.verdicts.give(evaluations(self._checks(verdicts), verdicts, self.pipeline.files))

    def _checks(self, groups: Collection[str]) -> dict[str, dg.AssetCheckKey]:
        checks = self.names.group_checks({*self.shown, *groups})
        return {group: dg.AssetCheckKey(self.names.consumer_group_key(group), name) for group, name in checks.items()}

    def _check_again(self, groups: Collection[str]) -> None:
        """Groups that another run has checked since: for Dagster that verdict is not about what was reported now."""
        checks = self._checks(groups)
        superseded = self.verdicts.superseded([checks[group] for group in groups])
        for group in groups:
            if checks[group] in superseded:
                self._pace.forget(group)

    def _log_when_due(self, result: PollResult, now: float) -> None:
        since, polls, committed = self._told or (now - LOG_SECONDS, 0, frozenset())
        polls, committed = polls + 1, committed | result.committed
        if now < since + LOG_SECONDS:
            self._told = since, polls, committed
            return
        self._told = now, 0, frozenset()
        self.log(f"polls {polls}: {describe(replace(result, committed=committed))}")
