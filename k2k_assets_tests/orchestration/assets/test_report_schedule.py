"""When topics, and consumer groups, are reported by a run that stays for long."""

from __future__ import annotations

from functools import partial

import pytest

from k2k_assets.orchestration.assets.report_schedule import (
    SHORTEST_SECONDS,
    ReportSchedule,
    group_report_interval,
    report_interval,
)

# Busy topics, for as many as a day has seconds to report in.
_PER_DAY = 5000


def test_each_topic_is_reported_once_at_the_start_and_as_soon_as_it_appears() -> None:
    schedule = ReportSchedule(partial(report_interval, _PER_DAY))
    positions = {"a": (1, 2), "quiet": (0,)}
    assert schedule.due(positions, 0.0) == ["a", "quiet"]
    schedule.reported(positions, 0.0)
    assert schedule.due(positions, 1e6) == [], "nothing has moved"
    assert schedule.due({**positions, "new": (0,)}, 1.0) == ["new"]


def test_topics_that_moved_are_reported_when_it_is_time() -> None:
    schedule = ReportSchedule(partial(report_interval, _PER_DAY))
    schedule.reported({"a": (1, 2), "b": (3,)}, 100.0)
    moved = {"a": (1, 3), "b": (3,)}
    later = 100.0 + report_interval(_PER_DAY, 1)
    assert schedule.due(moved, later - 0.1) == []
    assert schedule.due(moved, later) == ["a"]
    schedule.reported({"a": (1, 3)}, later)
    assert schedule.due(moved, later + 1e6) == []


@pytest.mark.parametrize("topics", [1, 3, 30, 1000])
def test_a_day_of_reports_is_within_the_budget(topics: int) -> None:
    schedule, now, events = ReportSchedule(partial(report_interval, _PER_DAY)), 0.0, 0
    position = 0
    while now < 86_400.0:
        positions = {f"t{n}": (position,) for n in range(topics)}
        if due := schedule.due(positions, now):
            schedule.reported({topic: positions[topic] for topic in due}, now)
            events += 2 * len(due) + 1
        now, position = now + 10.0, position + 1
    assert events <= _PER_DAY + 2 * topics + 1, "and what each run reports at its start"


def test_what_was_reported_is_reported_once_more_when_all_is_told_anew() -> None:
    schedule = ReportSchedule(partial(group_report_interval, _PER_DAY))
    schedule.reported({"a": "here"}, 0.0)
    assert schedule.due({"a": "here"}, 1.0) == []
    schedule.begin_anew()
    assert schedule.due({"a": "here"}, 1.0) == ["a"]


def test_groups_have_an_event_each() -> None:
    assert group_report_interval(1000, 50) == 50 * 86.4


def test_few_topics_are_not_reported_more_often_than_anybody_looks() -> None:
    assert report_interval(1_000_000, 1) == SHORTEST_SECONDS
