"""A verdict is shown for as long as it holds: what Dagster itself says of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, StepMaterializationData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster._core.storage.event_log import SqliteEventLogStorage

from k2k_assets.orchestration.checks.evaluations import RunVerdicts, evaluations, newest_materializations
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.dagster.shown_checks import shown_judgement

TOPIC = dg.AssetCheckKey(dg.AssetKey(["p", "topics", "a"]), "copies_on")
GOOD = Verdict(Judgement.PASSED, "no partition of a is stopped")
BAD = Verdict(Judgement.FAILED, "a is stopped")


@dataclass
class World:
    """A Dagster instance with its tables in a file, as `dagster dev` has it."""

    instance: dg.DagsterInstance
    runs: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self) -> str:
        """A run that begins."""
        run_id = f"run-{next(self.runs)}"
        self.instance.add_run(dg.DagsterRun(job_name="sync", run_id=run_id))
        return run_id

    def materialize(self, run_id: str) -> None:
        """A run reports the topic."""
        data = StepMaterializationData(dg.AssetMaterialization(TOPIC.asset_key))
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION.value
        self.instance.report_dagster_event(DagsterEvent(kind, "sync", event_specific_data=data), run_id=run_id)

    def verdicts(self, run_id: str) -> RunVerdicts:
        """Of a run."""
        return RunVerdicts(self.instance, run_id, "sync")

    def newest(self) -> AssetCheckExecutionRecord:
        """What stands in Dagster's table."""
        return self.instance.event_log_storage.get_latest_asset_check_execution_by_key([TOPIC])[TOPIC]

    def shown(self) -> Judgement | None:
        """What the UI shows of the check; None: it says that the check was not evaluated."""
        return shown_judgement(self.instance, TOPIC)

    def verdicts_in_all(self) -> int:
        """Events in the log, of all runs and of none."""
        records = self.instance.get_event_records(dg.EventRecordsFilter(dg.DagsterEventType.ASSET_CHECK_EVALUATION))
        return len(records)


@pytest.fixture(scope="module")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dagster's home with its tables, and those of the first runs: making them takes half a second each."""
    home = tmp_path_factory.mktemp("home")
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        storage = instance.event_log_storage
        assert isinstance(storage, SqliteEventLogStorage)
        with storage.run_connection("run-1"):
            of_first = Path(storage.path_for_shard("run-1"))
    for number in range(2, 6):
        shutil.copy(of_first, of_first.with_name(f"run-{number}.db"))
    return home


@pytest.fixture
def world(new_home: Path, tmp_path: Path) -> Iterator[World]:
    shutil.copytree(new_home, tmp_path, dirs_exist_ok=True)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield World(instance)


def given(verdict: Verdict) -> list[dg.AssetCheckEvaluation]:
    return list(evaluations({"a": TOPIC}, {"a": verdict}))


def test_a_verdict_of_a_run_holds_for_what_the_run_materializes_later(world: World) -> None:
    run = world.run()
    world.verdicts(run).give(given(GOOD))
    for _ in range(3):
        world.materialize(run)
        assert world.shown() is Judgement.PASSED


def test_the_next_run_gives_its_own(world: World) -> None:
    for _ in range(2):
        run = world.run()
        world.materialize(run)
        verdicts = world.verdicts(run)
        verdicts.give_unless_shown(given(GOOD))
        assert world.shown() is Judgement.PASSED
        world.materialize(run)
        verdicts.give_unless_shown(given(GOOD))
        assert world.shown() is Judgement.PASSED
    assert world.verdicts_in_all() == 2, "one a run, not one a report"


def test_a_stop_is_shown_and_so_is_that_it_is_over(world: World) -> None:
    run = world.run()
    verdicts = world.verdicts(run)
    for verdict in (GOOD, BAD, GOOD):
        verdicts.give_unless_shown(given(verdict))
        world.materialize(run)
        assert world.shown() is verdict.judgement


@pytest.mark.parametrize(
    ("before", "severity"), [(GOOD, dg.AssetCheckSeverity.WARN), (BAD, dg.AssetCheckSeverity.ERROR)]
)
def test_only_what_passed_is_in_doubt(world: World, before: Verdict, severity: dg.AssetCheckSeverity) -> None:
    """Also in the next run, which has said nothing yet."""
    first = world.run()
    world.verdicts(first).give(given(before))
    world.materialize(first)
    for run in (first, world.run()):
        world.verdicts(run).give_doubts(given(Verdict(Judgement.WARNED, "nobody knows")))
        evaluation = world.newest().evaluation
        assert isinstance(evaluation, dg.AssetCheckEvaluation)
        assert (evaluation.passed, evaluation.severity) == (False, severity)


def test_other_words_are_shown(world: World) -> None:
    verdicts = world.verdicts(world.run())
    verdicts.give_unless_shown(given(BAD))
    verdicts.give_unless_shown(given(Verdict(Judgement.FAILED, "two partitions of a are stopped")))
    evaluation = world.newest().evaluation
    assert isinstance(evaluation, dg.AssetCheckEvaluation)
    assert evaluation.description == "two partitions of a are stopped"


@pytest.mark.parametrize("ours", [GOOD, BAD])
def test_after_a_click_the_verdict_of_the_run_is_the_newest_again(world: World, ours: Verdict) -> None:
    """A click has a run of its own, whose verdict stands after that of the run that stays."""
    stays, click = world.run(), world.run()
    verdicts = world.verdicts(stays)
    verdicts.give_unless_shown(given(ours))
    world.materialize(stays)
    assert verdicts.superseded([TOPIC]) == set()
    world.materialize(click)
    world.verdicts(click).give(given(GOOD))
    assert verdicts.superseded([TOPIC]) == {TOPIC}
    for _ in range(2):
        world.materialize(stays)
        assert world.shown() is None, "Dagster takes the verdict for one on what the click has made"
        verdicts.give_unless_shown(given(ours))
        assert world.shown() is ours.judgement


def test_after_a_click_a_verdict_is_given_once_for_each_materialization(world: World) -> None:
    """Not with each look: of 300 topics there were 600 events every ten minutes until the run ended."""
    stays, click = world.run(), world.run()
    verdicts = world.verdicts(stays)
    verdicts.give_unless_shown(given(BAD))
    world.materialize(click)
    world.verdicts(click).give(given(BAD))
    said = world.verdicts_in_all()
    for _ in range(3):
        verdicts.give_unless_shown(given(BAD))
    assert (world.verdicts_in_all(), world.shown()) == (said, Judgement.FAILED), "the click has said it"
    for n in (1, 2):
        world.materialize(stays)
        for _ in range(3):
            verdicts.give_unless_shown(given(BAD))
        assert (world.verdicts_in_all(), world.shown()) == (said + n, Judgement.FAILED)


def test_a_verdict_of_a_run_before_is_not_taken_for_our_own(world: World) -> None:
    """It is shown until this run materializes the topic."""
    before, stays = world.run(), world.run()
    world.materialize(before)
    world.verdicts(before).give(given(GOOD))
    world.verdicts(stays).give_unless_shown(given(GOOD))
    world.materialize(stays)
    assert world.shown() is Judgement.PASSED


@pytest.mark.parametrize(("ours", "seen"), [(BAD, Judgement.FAILED), (GOOD, None)])
def test_what_did_not_pass_is_brought_back_with_the_next_report(
    world: World, ours: Verdict, seen: Judgement | None
) -> None:
    """What passed has time until the next look."""
    stays, click = world.run(), world.run()
    verdicts = world.verdicts(stays)
    verdicts.give_unless_shown(given(ours))
    world.materialize(click)
    world.verdicts(click).give(given(GOOD))
    for _ in range(2):
        world.materialize(stays)
        verdicts.show_again({TOPIC.asset_key})
        assert world.shown() is seen
    said = world.verdicts_in_all()
    verdicts.show_again({dg.AssetKey("another")})
    assert world.verdicts_in_all() == said


def test_what_a_click_said_of_a_topic_that_was_well_before_is_brought_back(world: World) -> None:
    stays, click = world.run(), world.run()
    verdicts = world.verdicts(stays)
    verdicts.give_unless_shown(given(GOOD))
    world.materialize(click)
    world.verdicts(click).give(given(BAD))
    verdicts.give_unless_shown(given(BAD))
    world.materialize(stays)
    verdicts.show_again({TOPIC.asset_key})
    assert world.shown() is Judgement.FAILED


def test_what_no_run_says_names_the_materialization_that_it_is_about(world: World) -> None:
    """Within the same second: SQLite's time of a verdict has whole ones."""
    world.materialize(world.run())
    targets = newest_materializations(world.instance, [TOPIC])
    (verdict,) = evaluations({"a": TOPIC}, {"a": BAD}, targets=targets)
    world.instance.report_runless_asset_event(verdict)
    assert world.shown() is Judgement.FAILED


def test_a_topic_that_was_never_made_has_a_verdict_all_the_same(world: World) -> None:
    assert newest_materializations(world.instance, [TOPIC]) == {}
    (verdict,) = evaluations({"a": TOPIC}, {"a": BAD})
    world.instance.report_runless_asset_event(verdict)
    assert world.shown() is Judgement.FAILED
