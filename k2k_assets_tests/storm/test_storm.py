"""Random faults, several at once, on separate brokers and processes: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from k2k_assets_tests.storm.faults import LEAVE_NO_SLEEPER
from k2k_assets_tests.storm.forms import Form
from k2k_assets_tests.storm.plan import Plan
from k2k_assets_tests.storm.storm import storm

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["exactly once", pytest.param("at least once", marks=pytest.mark.storm)])
def test_a_short_storm(mode: str) -> None:
    """Without Spark, so that many faults fit into seconds. Another seed each time would make a red run a riddle."""
    plan = Plan(seconds=12, seed=1, exactly_once=mode == "exactly once", lasting=(1.0, 5.0), pause=0.7)
    report = storm(plan)
    assert not report.problems, report.words()
    # How much of it there is in seconds is the machine's matter.
    assert report.verdict.records > 50
    assert sum(report.faults.values()) >= 3
    assert report.groups.commits > 0


@pytest.mark.storm
@pytest.mark.parametrize("form", ["batches", "mixed"])
def test_a_storm_of_whole_batches(form: Form) -> None:
    """In a mixed one instances of either form take over from each other."""
    report = storm(Plan(seconds=90, seed=12, form=form, both_ways=True))
    assert not report.problems, report.words()
    assert report.verdict.records > 1000
    assert report.sessions.by_batches > 5


@pytest.mark.storm
@pytest.mark.parametrize("mode", ["exactly once", "at least once"])
def test_a_storm_over_spark(mode: str) -> None:
    report = storm(Plan(seconds=90, seed=2, exactly_once=mode == "exactly once", engine="spark"))
    assert not report.problems, report.words()
    assert report.verdict.records > 1000
    assert report.groups.commits > 100


@pytest.mark.storm
@pytest.mark.parametrize("mode", ["exactly once", "at least once"])
def test_a_storm_both_ways(mode: str) -> None:
    """Two pipelines between the same topics, with all stages: both sides are written, and nothing comes back.

    Groups read on both sides; where each goes on is judged by what the topics hold.
    """
    report = storm(Plan(seconds=90, seed=8, exactly_once=mode == "exactly once", both_ways=True))
    assert not report.problems, report.words()
    assert report.verdict.records > 1000
    assert report.groups.commits > 100
    assert report.groups.answers["exact"] > 100
    assert report.groups.answers["may be read again"] > 100, "the two sides order their records differently"


@pytest.mark.storm
@pytest.mark.parametrize("mode", ["exactly once", "at least once"])
def test_a_storm_under_dagster(mode: str) -> None:
    """Sensors keep runs copying, checking and moving groups, whatever is killed: a long sync in little time."""
    exactly_once = mode == "exactly once"
    report = storm(Plan(seconds=240, seed=6, exactly_once=exactly_once, engine="dagster", round_seconds=240, pause=6.0))
    assert not report.problems, report.words()
    assert report.verdict.records > 1000
    assert report.groups.commits > 10


@pytest.mark.storm
def test_at_least_once_where_no_writer_sleeps_nothing_comes_again_behind_its_commit() -> None:
    """Elsewhere that cannot be asked for: what a sleeper had sent may come late."""
    for seed in (3, 4, 5):
        plan = Plan(seconds=90, seed=seed, exactly_once=False, only=tuple(sorted(LEAVE_NO_SLEEPER)), pause=1.0)
        assert not plan.late_writers
        report = storm(plan)
        assert not report.problems, report.words()
        if report.verdict.copies > report.verdict.records:
            return
    pytest.fail("nothing was repeated, in none of them: these were no storms")
