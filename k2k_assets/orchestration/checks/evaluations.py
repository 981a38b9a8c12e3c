"""Verdicts as events in Dagster, given outside of the check's own op.

Dagster shows a verdict only while it is about the newest materialization of its asset. It is if both belong to the same
run, or if it names that materialization. Otherwise Dagster shows the check as not evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import dagster as dg

# Not exported by `dagster` itself; `dagster>=1.13,<1.14` is asked for.
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.events import DagsterEvent
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster_shared.record import replace

from k2k_assets.orchestration.checks.asset_checks import asset_check_result
from k2k_assets.verification.verdict import Verdict

Target = AssetCheckEvaluationTargetMaterializationData
"""The materialization that a verdict is about."""

Evaluations = Iterable[dg.AssetCheckEvaluation]

_Newest = Mapping[dg.AssetCheckKey, AssetCheckExecutionRecord]
_NO_TARGETS: Mapping[dg.AssetKey, Target] = MappingProxyType({})


def evaluations(
    keys: Mapping[str, dg.AssetCheckKey],
    verdicts: Mapping[str, Verdict],
    files: Sequence[Path] = (),
    targets: Mapping[dg.AssetKey, Target] = _NO_TARGETS,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Verdicts as events.

    Args:
        keys: The check of each topic, or group, that is shown; others are left out.
        verdicts: Likewise by name.
        files: Of the pipeline.
        targets: The newest materialization of each asset, for verdicts that belong to no run.
    """
    for name, verdict in verdicts.items():
        if name in keys:
            result = asset_check_result(keys[name], verdict, files)
            yield _evaluation(keys[name], result, targets.get(keys[name].asset_key))


def newest_materializations(
    instance: dg.DagsterInstance, checks: Iterable[dg.AssetCheckKey]
) -> dict[dg.AssetKey, Target]:
    """The newest materialization of the asset of each check; nothing for one that has none.

    Args:
        instance: Dagster's.
        checks: Of some assets.
    """
    found = {}
    for record in instance.get_asset_records([check.asset_key for check in checks]):
        newest = record.asset_entry.last_materialization_record
        if newest is not None:
            target = Target(storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp)
            found[record.asset_entry.asset_key] = target
    return found


def not_given(
    instance: dg.DagsterInstance,
    keys: Mapping[str, dg.AssetCheckKey],
    verdicts: Mapping[str, Verdict],
    *,
    is_materialized: bool,
) -> dict[str, Verdict]:
    """Those of some verdicts of a sensor that Dagster does not have as its newest ones.

    Args:
        instance: Dagster's.
        keys: The check of each topic, or group, that is shown; others are left out.
        verdicts: By name.
        is_materialized: Whether the sensor materializes the assets too. A run's verdict is hidden by that, and only one
            that belongs to no run holds for what the sensor materializes later.
    """
    shown = {name: verdict for name, verdict in verdicts.items() if name in keys}
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key([keys[name] for name in shown])

    def is_given(name: str, verdict: Verdict) -> bool:
        record = newest.get(keys[name])
        given = record.evaluation if record else None
        if record is None or not isinstance(given, dg.AssetCheckEvaluation):
            return False
        return given.description == verdict.summary and not (is_materialized and record.run_id != RUNLESS_RUN_ID)

    return {name: verdict for name, verdict in shown.items() if not is_given(name, verdict)}


class VerdictSink(Protocol):
    """What takes the verdicts of a run that stays."""

    def give_unless_shown(self, verdicts: Evaluations) -> None:
        """Gives those verdicts that Dagster does not show already."""


class RepeatingVerdictSink(VerdictSink, Protocol):
    """Also brings verdicts back into sight."""

    def show_again(self, materialized: Collection[dg.AssetKey]) -> None:
        """Gives the last verdicts on some assets again, unless they passed or are shown.

        Args:
            materialized: Assets of which a materialization may have hidden the verdicts.
        """


class DoubtingVerdictSink(VerdictSink, Protocol):
    """Also takes doubts."""

    def give_doubts(self, doubts: Evaluations) -> None:
        """Gives doubts about what passed, by what Dagster shows: what failed is not better for not being known."""


class RunVerdicts:
    """Verdicts of a run that stays, and that materializes the assets again and again.

    They belong to the run, so that they hold for what it materializes later. Dagster keeps one verdict of a check for
    each run, in the order of the first ones: where another run has given one since, ours would not be the newest, so it
    is given outside of the run and has to be given again after each materialization.

    Args:
        instance: Dagster's.
        run_id: Of the run.
        job_name: Of the run.
    """

    def __init__(self, instance: dg.DagsterInstance, run_id: str, job_name: str) -> None:
        self._instance = instance
        self._run_id = run_id
        self._job_name = job_name
        self._given: dict[dg.AssetCheckKey, dg.AssetCheckEvaluation] = {}

    def give(self, verdicts: Evaluations) -> None:
        """Stores verdicts as events of this run; without a run where another one has given a newer verdict."""
        found = list(verdicts)
        self._give(found, self._newest_of(found))

    def give_unless_shown(self, verdicts: Evaluations) -> None:
        """Gives those verdicts that Dagster does not show already."""
        found = list(verdicts)
        newest = self._newest_of(found)
        said = [each for each in found if _says_the_same(each, newest.get(each.asset_check_key))]
        shown = self._shown(said, newest)
        self._give([each for each in found if each.asset_check_key not in shown], newest)
        self._given |= {each.asset_check_key: each for each in found if each.asset_check_key in shown}

    def give_doubts(self, doubts: Evaluations) -> None:
        """Gives doubts about what passed, by what Dagster shows."""
        found = list(doubts)
        newest = self._newest_of(found)
        self._give([each for each in found if has_passed(newest.get(each.asset_check_key))], newest)

    def show_again(self, materialized: Collection[dg.AssetKey]) -> None:
        """Gives the last verdicts on some assets again, unless they passed or are shown."""
        self.give_unless_shown([e for e in self._given.values() if e.asset_key in materialized and not e.passed])

    def superseded(self, checks: Collection[dg.AssetCheckKey]) -> set[dg.AssetCheckKey]:
        """Those of some checks whose newest verdict was not given as one of this run."""
        return self._superseded(checks, self._newest(checks))

    def _superseded(self, checks: Iterable[dg.AssetCheckKey], newest: _Newest) -> set[dg.AssetCheckKey]:
        return {check for check in checks if check in self._given and not self._is_ours(newest.get(check))}

    def _give(self, verdicts: Sequence[dg.AssetCheckEvaluation], newest: _Newest) -> None:
        others = self._superseded((verdict.asset_check_key for verdict in verdicts), newest)
        targets = newest_materializations(self._instance, others) if others else {}
        for verdict in verdicts:
            if verdict.asset_check_key in others:
                target = targets.get(verdict.asset_key)
                self._instance.report_runless_asset_event(replace(verdict, target_materialization_data=target))
            else:
                self._report(verdict)
            self._given[verdict.asset_check_key] = verdict

    def _report(self, verdict: dg.AssetCheckEvaluation) -> None:
        event = DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
            job_name=self._job_name,
            event_specific_data=verdict,
        )
        self._instance.report_dagster_event(event, run_id=self._run_id)

    def _newest_of(self, verdicts: Iterable[dg.AssetCheckEvaluation]) -> _Newest:
        return self._newest([verdict.asset_check_key for verdict in verdicts])

    def _newest(self, checks: Collection[dg.AssetCheckKey]) -> _Newest:
        return self._instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))

    def _is_ours(self, record: AssetCheckExecutionRecord | None) -> bool:
        return record is not None and record.run_id == self._run_id

    def _shown(self, said: Iterable[dg.AssetCheckEvaluation], newest: _Newest) -> set[dg.AssetCheckKey]:
        """Those checks whose newest verdicts, which say what is to be said, are shown, and stay so or are given again.

        A verdict of ours is shown, or will be with the next materialization; that of another run, or of none, only
        where it is about the newest one. Of a check of which this run has said nothing yet, only its own verdict holds.
        """
        keys = {each.asset_check_key for each in said}
        ours = {key for key in keys if self._is_ours(newest.get(key))}
        others = (keys - ours) & self._given.keys()
        targets = newest_materializations(self._instance, others) if others else {}
        return ours | {key for key in others if _is_about(newest[key], targets.get(key.asset_key))}


def has_passed(record: AssetCheckExecutionRecord | None) -> bool:
    """Whether the newest verdict on a check is that it passed; no verdict is none."""
    given = record.evaluation if record else None
    return isinstance(given, dg.AssetCheckEvaluation) and given.passed


def _says_the_same(verdict: dg.AssetCheckEvaluation, record: AssetCheckExecutionRecord | None) -> bool:
    given = record.evaluation if record else None
    if not isinstance(given, dg.AssetCheckEvaluation):
        return False
    said = (given.passed, given.severity, given.description)
    return said == (verdict.passed, verdict.severity, verdict.description)


def _is_about(record: AssetCheckExecutionRecord, newest: Target | None) -> bool:
    """Whether a verdict is about the newest materialization of its asset, as Dagster sees it."""
    given = record.evaluation
    target = given.target_materialization_data if isinstance(given, dg.AssetCheckEvaluation) else None
    is_meant = target is not None and newest is not None and target.storage_id == newest.storage_id
    return newest is None or record.run_id == newest.run_id or is_meant


def _evaluation(key: dg.AssetCheckKey, result: dg.AssetCheckResult, target: Target | None) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=bool(result.passed),
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
        target_materialization_data=target,
    )
