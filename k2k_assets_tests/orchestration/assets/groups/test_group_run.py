"""What a continuous run that moves groups reports to Dagster: each group by itself, once, and in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.report import PollFailed, PollResult
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import provenance_tags
from k2k_assets.orchestration.assets.groups.check_pace import PAUSE_SECONDS
from k2k_assets.orchestration.assets.groups.failing_groups import SETTLE_SECONDS
from k2k_assets.orchestration.assets.groups.group_run import GroupRun
from k2k_assets.orchestration.checks.evaluations import Evaluations
from k2k_assets.orchestration.names import GROUP_CHECK, AssetNames
from k2k_assets.orchestration.runs.report_schedule import group_report_interval
from k2k_assets.orchestration.runs.run_window import LINGER_SECONDS
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline
from k2k_assets_tests.support.dagster.fixture import is_synced

WINDOW = 3600.0
AT = TopicPartition("t", 0)


def poll(at: Mapping[str, int], word: CommitDecision = CommitDecision.EXACT, **more: object) -> PollResult:
    """Groups that stand somewhere."""

    def decided(group: str, offset: int) -> GroupDecision:
        return GroupDecision(group, {}, [Row(AT, ((AT, CommittedOffset(offset)),), offset, None, word, False)])

    result = PollResult(Version(1, 2), {group: decided(group, offset) for group, offset in at.items()})
    return replace(result, **more)  # type: ignore[arg-type]


@dataclass
class Fixture:
    """A run without a mapper, and what it tells."""

    pipeline: Pipeline
    names: AssetNames
    now: float = 1000.0
    materialized: list[dg.AssetMaterialization] = field(default_factory=list)
    totals: list[dg.AssetMaterialization] = field(default_factory=list)
    checks: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    others: set[dg.AssetCheckKey] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    answers: bool = True
    breaks: bool = False
    compared: int = 0
    worked: int = 0

    def run(self) -> GroupRun:
        """A run that begins now."""
        return GroupRun(
            pipeline=self.pipeline,
            names=self.names,
            window=WINDOW,
            shown=("a", "quiet"),
            sink=self,
            verdicts=self,
            verify=self.verify,
            mappings_version=lambda: "v1",
            log=self.lines.append,
            warn=self.lines.append,
            works=self.note_worked,
            clock=lambda: self.now,
        )

    def note_worked(self) -> None:
        """Counts the calls."""
        self.worked += 1

    def give(self, verdicts: Evaluations) -> None:
        """As `RunVerdicts` does."""
        for verdict in verdicts:
            if self.breaks:
                raise OSError("the database is locked")
            self.checks.append(verdict)

    def give_doubts(self, doubts: Evaluations) -> None:
        """As `RunVerdicts` does; what passed is told apart there."""
        self.give(doubts)

    def superseded(self, checks: Collection[dg.AssetCheckKey]) -> set[dg.AssetCheckKey]:
        """Those that the test says."""
        return self.others & set(checks)

    def log_event(self, event: dg.AssetMaterialization) -> None:
        """As a step's context does."""
        (self.totals if event.asset_key == self.names.group_positions_key else self.materialized).append(event)

    def verify(self, result: PollResult, groups: Collection[str]) -> dict[str, Verdict]:
        """Passed, unless the test says otherwise."""
        self.compared += 1
        if self.breaks:
            raise OSError("the index cannot be read")
        if not self.answers:
            raise ClusterUnreachable("the target does not answer")
        return {group: self.verdicts.get(group, Verdict(Judgement.PASSED, "good")) for group in groups}

    def reported(self) -> dict[str, object]:
        """The groups that were materialized since the last call, each with its state."""
        found: dict[str, object] = {e.asset_key.path[-1]: e.metadata[keys.STATE].value for e in self.materialized}
        self.materialized.clear()
        return found

    def judged(self) -> dict[str, bool]:
        """The groups that were checked since the last call."""
        found = {evaluation.asset_key.path[-1]: evaluation.passed for evaluation in self.checks}
        self.checks.clear()
        return found


@pytest.fixture
def fixture(tmp_path: Path) -> Fixture:
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", features={"offsetMapping": "enabled"})
    return Fixture(pipeline, AssetNames(pipeline.name))


def test_each_group_is_told_at_the_start_and_then_as_it_moves(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(poll({"a": 5}))
    (first, _) = fixture.materialized
    assert first.tags
    assert "v1" in first.tags.values(), "the version of the mappings that it was translated by"
    assert fixture.reported() == {"a": "1 exact", "quiet": "no positions"}
    run.see(poll({"a": 6}, committed=frozenset("a")))
    assert fixture.reported() == {}, "it is not time yet"
    fixture.now += group_report_interval(fixture.pipeline.groups.reports_per_day, ["one"])
    run.see(poll({"a": 6}))
    (moved,) = fixture.materialized
    assert moved.metadata[keys.COMMITTED].value is True, "since it was told last"
    assert fixture.reported() == {"a": "1 exact"}
    run.see(poll({"a": 6, "new": 1}))
    assert fixture.reported() == {"new": "1 exact"}, "it appeared while the run was on"


def test_reports_are_as_rare_as_the_file_says(fixture: Fixture, tmp_path: Path) -> None:
    usual = group_report_interval(fixture.pipeline.groups.reports_per_day, ["one"])
    features = {"offsetMapping": "enabled"}
    fixture.pipeline = make_pipeline(
        tmp_path, "s:9092", "t:9092", ".*", features=features, groups={"reportsPerDay": 150}, name=fixture.pipeline.name
    )
    run = fixture.run()
    run.see(poll({"a": 5}))
    fixture.reported()
    for turn, told in ((2, False), (1, True)):
        fixture.now += turn * usual
        run.see(poll({"a": 6}, committed=frozenset("a")))
        assert ("a" in fixture.reported()) is told


def test_it_has_worked_once_it_has_read_the_groups(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(PollFailed("the source does not answer"))
    assert fixture.worked == 0
    for _ in range(2):
        run.see(poll({"a": 5}))
    assert fixture.worked == 1


def test_with_them_it_tells_how_many_of_all_are_exact_ahead_or_unknown(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(poll({"a": 5, "b": 6}))
    run.see(poll({"a": 5, "b": 7}, CommitDecision.AHEAD))
    fixture.now += 9999
    run.see(poll({"a": 5, "b": 7}, CommitDecision.AHEAD))
    numbers = (keys.GROUPS_EXACT, keys.GROUPS_AHEAD, keys.GROUPS_UNKNOWN)
    assert [tuple(event.metadata[key].value for key in numbers) for event in fixture.totals] == [(2, 0, 0), (0, 2, 0)]
    assert all("v1" in (event.tags or {}).values() for event in fixture.totals)


def test_a_group_is_compared_at_its_own_pace(fixture: Fixture) -> None:
    run, pace = fixture.run(), fixture.pipeline.checks.interval.total_seconds()
    fixture.answers = False
    run.see(poll({"a": 5}))
    assert fixture.judged() == {}
    assert "groups are not compared now: the target does not answer" in fixture.lines
    fixture.answers = True
    fixture.now += pace
    run.see(poll({"a": 5}))
    assert fixture.judged() == {"a": True}
    fixture.verdicts["a"] = Verdict(Judgement.FAILED, "1 skipped")
    fixture.now += pace
    run.see(poll({"a": 5}))
    assert fixture.judged() == {}, "it has not moved since it passed"
    run.see(poll({"a": 6}))
    assert fixture.judged() == {"a": False}
    fixture.now += pace
    run.see(poll({"a": 6, "new": 1}))
    assert fixture.judged() == {"a": False, "new": True}, "one that did not pass is compared again"


def test_a_group_is_compared_as_rarely_as_the_file_says(fixture: Fixture, tmp_path: Path) -> None:
    usual, name = fixture.pipeline.checks.interval.total_seconds(), fixture.pipeline.name
    fixture.pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", checks={"interval": "25 minutes"}, name=name)
    fixture.verdicts["a"] = Verdict(Judgement.FAILED, "1 skipped")  # so that each look is told
    run = fixture.run()
    for turn, told in ((0, {"a": False}), (2, {}), (1, {"a": False})):
        fixture.now += turn * usual
        run.see(poll({"a": 5}))
        assert fixture.judged() == told


def test_groups_that_cannot_be_compared_for_long_are_in_doubt(fixture: Fixture) -> None:
    """Else their checks would go on saying that all is well, by the last comparison that there was."""
    run, pace = fixture.run(), fixture.pipeline.checks.interval.total_seconds()
    run.see(poll({"a": 5, "still": 1}))
    assert fixture.judged() == {"a": True, "still": True}
    fixture.answers = False
    for _ in range(3):
        fixture.now += pace
        run.see(poll({"a": 6, "still": 1}))
        run.see(poll({"a": 6, "still": 1}))
    (doubt,) = fixture.checks
    assert doubt.severity is dg.AssetCheckSeverity.WARN
    assert "the target does not answer" in (doubt.description or "")
    assert fixture.judged() == {"a": False}, "once, and of the one alone that has moved since it was compared"
    fixture.answers = True
    fixture.now += PAUSE_SECONDS
    fixture.verdicts["a"] = Verdict(Judgement.FAILED, "1 skipped")
    run.see(poll({"a": 6, "still": 1}))
    assert fixture.judged() == {"a": False}
    fixture.answers = False
    for _ in range(3):
        fixture.now += pace
        run.see(poll({"a": 7, "still": 2}))
    assert fixture.judged() == {"still": False}, "what is found wrong stays so"


def test_a_group_that_a_click_has_checked_since_is_compared_after_each_report(fixture: Fixture) -> None:
    """For Dagster the click's verdict is about what the click has materialized."""
    run = fixture.run()
    run.see(poll({"a": 5, "b": 5}))
    fixture.judged(), fixture.reported()
    fixture.others = {dg.AssetCheckKey(fixture.names.consumer_group_key("a"), GROUP_CHECK)}
    fixture.now += group_report_interval(fixture.pipeline.groups.reports_per_day, ("a", "b"))
    run.see(poll({"a": 6, "b": 6}))
    assert fixture.reported().keys() == {"a", "b"}
    assert fixture.judged() == {"a": True}


def test_a_group_that_fails_fails_its_own_check_alone(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(poll({"a": 5, "bad": 1}))
    fixture.judged(), fixture.reported()
    for _ in range(3):
        run.see(poll({"a": 5}, failed={"bad": "its coordinator is gone"}))
        fixture.now += SETTLE_SECONDS / 2
    assert fixture.judged() == {"bad": False}
    assert fixture.lines.count("group bad is not moved: its coordinator is gone") == 1
    assert fixture.reported() == {}, "it stands nowhere that is known"
    run.see(poll({"a": 5, "bad": 1}))
    assert fixture.judged() == {"bad": True}, "it is well again, and compared at once"
    assert "group bad is moved again" in fixture.lines


@pytest.mark.parametrize("how", ["could not be read", "compared wrong"])
def test_a_group_that_is_deleted_while_its_check_is_failed_is_not_failed_any_more(fixture: Fixture, how: str) -> None:
    """Nor does it pass: nothing was compared. It is not moved again either."""
    run, failed = fixture.run(), {"bad": "its coordinator is gone"}
    if how == "compared wrong":
        failed = {}
        fixture.verdicts["bad"] = Verdict(Judgement.FAILED, "1 skipped")
        run.see(poll({"a": 5, "bad": 1}))
    for _ in range(3):
        run.see(poll({"a": 5} if failed else {"a": 5, "bad": 1}, failed=failed))
        fixture.now += SETTLE_SECONDS / 2
    assert fixture.judged()["bad"] is False
    fixture.verdicts.clear()
    for _ in range(2):
        run.see(poll({"a": 5}))
    told = [check for check in fixture.checks if check.asset_key.path[-1] == "bad"]
    assert [check.severity for check in told] == [dg.AssetCheckSeverity.WARN]
    assert "group bad is moved again" not in fixture.lines
    words = "bad is not looked at any more: it has no commit on a mapped topic of the source"
    assert fixture.lines.count(f"group {words}") == 1


def test_a_comparison_that_breaks_is_not_tried_again_by_each_poll(fixture: Fixture) -> None:
    run = fixture.run()
    fixture.breaks = True
    with pytest.raises(OSError, match="cannot be read"):
        run.see(poll({"a": 5}))
    run.see(poll({"a": 5}))
    assert fixture.compared == 1
    fixture.now += fixture.pipeline.checks.interval.total_seconds() + PAUSE_SECONDS
    fixture.breaks = False
    run.see(poll({"a": 5}))
    assert fixture.judged() == {"a": True}


def test_a_failure_that_could_not_be_told_is_told_by_the_next_poll(fixture: Fixture) -> None:
    """Else the group's check would go on saying that it is well."""
    run, failed = fixture.run(), {"bad": "its coordinator is gone"}
    run.see(poll({}, failed=failed))
    fixture.now += SETTLE_SECONDS
    fixture.breaks = True
    with pytest.raises(OSError, match="locked"):
        run.see(poll({}, failed=failed))
    fixture.breaks = False
    for _ in range(2):
        run.see(poll({}, failed=failed))
    assert [check.passed for check in fixture.checks] == [False]


def test_what_is_held_back_is_told_once_and_not_compared(fixture: Fixture) -> None:
    run, why = fixture.run(), "the offset mappings failed their checks (content)"
    run.see(poll({"a": 5}))
    fixture.reported(), fixture.judged()
    fixture.now += 9999
    for _ in range(3):
        run.see(poll({"a": 7}, held_back=why))
    assert [line for line in fixture.lines if why in line] == [
        f"no group is moved until the checks on the offset mappings pass: {why}"
    ]
    held = [event.metadata[keys.HELD_BACK].value for event in fixture.materialized]
    assert held == [why, why], "a and quiet, once"
    fixture.reported()
    assert fixture.judged() == {}
    run.see(poll({"a": 7}))
    assert all(keys.HELD_BACK not in event.metadata for event in fixture.materialized)
    assert fixture.reported().keys() == {"a", "quiet"}
    assert fixture.judged() == {"a": True}


def test_a_group_is_synced_with_the_mappings_that_it_was_moved_by(
    fixture: Fixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Dagster's own status. Not what is held back: it does not stand where the mappings say."""
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    features = {"offsetMapping": "enabled"}
    path = write_pipeline(folder, "s:9092", "t:9092", ["t"], features=features, groups={"consumerGroups": ["a"]})
    fixture.pipeline = load_pipeline([path])
    names = fixture.names = AssetNames(fixture.pipeline.name)
    instance, run = dg.DagsterInstance.ephemeral(), fixture.run()

    def map_more() -> None:
        mappings = dg.AssetMaterialization(names.offset_mappings_key, tags=provenance_tags("v1", None, {}))
        instance.report_runless_asset_event(mappings)

    def synced() -> bool:
        for event in fixture.materialized:
            instance.report_runless_asset_event(event)
        return is_synced(instance, build_definitions(folder), names.consumer_group_key("a"))

    map_more()
    run.see(poll({"a": 5}))
    assert synced()
    fixture.reported()
    map_more()
    assert synced(), "more mappings change no answer"
    run.see(poll({"a": 7}, held_back="the offset mappings failed their checks (content)"))
    assert not synced()


def test_trouble_is_told_once(fixture: Fixture) -> None:
    run = fixture.run()
    for _ in range(3):
        run.see(PollFailed("the source does not answer"))
    run.see(poll({}))
    told = [line for line in fixture.lines if "polls" not in line]
    assert told == [
        "groups cannot be moved now, which is tried again and again: the source does not answer",
        "groups are moved again",
    ]


def test_it_ends_a_while_after_its_window_where_nobody_takes_over(fixture: Fixture) -> None:
    run = fixture.run()
    fixture.now += WINDOW
    assert not run.is_over()
    fixture.now += LINGER_SECONDS
    assert run.is_over()
    assert "no other run has taken over" in run.ending("")
    assert run.ending("a newer mapper has taken over") == "handed over: a newer mapper has taken over"


def test_while_polls_fail_for_long_what_passed_is_in_doubt(fixture: Fixture) -> None:
    """A source that is away for hours must not leave every group green."""
    run, interval = fixture.run(), fixture.pipeline.checks.interval.total_seconds()
    run.see(poll({"a": 5, "quiet": 1}))
    assert fixture.judged() == {"a": True, "quiet": True}
    for seconds in (1.0, interval - 1):
        fixture.now += seconds
        run.see(PollFailed("the source does not answer"))
    assert fixture.judged() == {}
    fixture.now += 1
    run.see(PollFailed("the source does not answer"))
    assert {e.description for e in fixture.checks} == {"could not be moved for long: the source does not answer"}
    assert fixture.judged() == {"a": False, "quiet": False}
    run.see(PollFailed("the source does not answer"))
    assert fixture.judged() == {}, "once"
    fixture.now += 1
    run.see(poll({"a": 5, "quiet": 1}))
    assert fixture.judged() == {"a": True, "quiet": True}, "at once, not an interval later"


def test_a_group_that_is_gone_after_a_long_trouble_is_not_said_to_be_in_it(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(poll({"a": 5, "quiet": 1}))
    for seconds in (1.0, fixture.pipeline.checks.interval.total_seconds()):
        fixture.now += seconds
        run.see(PollFailed("the source does not answer"))
    assert fixture.judged() == {"a": False, "quiet": False}
    run.see(poll({"a": 5}))
    (gone,) = (e for e in fixture.checks if not e.passed)
    assert gone.description == "quiet has no commit on a mapped topic of the source"
