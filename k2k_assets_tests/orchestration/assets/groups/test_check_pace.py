"""When a continuous run compares a group by content."""

from __future__ import annotations

from k2k_assets.orchestration.assets.groups.check_pace import PAUSE_SECONDS, CheckPace

INTERVAL = 600.0


def test_each_group_is_checked_at_the_start_and_then_when_it_moved() -> None:
    pace = CheckPace(INTERVAL)
    states = {"a": 1, "quiet": 1}
    assert pace.due(states, 0.0) == ["a", "quiet"]
    pace.checked({"a": True, "quiet": True}, states, 0.0)
    moved = {"a": 2, "quiet": 1}
    assert pace.due(moved, INTERVAL - 1) == []
    assert pace.due(moved, INTERVAL) == ["a"], "wherever it stood in between, where it stands last is compared"
    assert pace.due({**moved, "new": 1}, PAUSE_SECONDS) == ["new"]


def test_one_that_did_not_pass_is_checked_again() -> None:
    pace = CheckPace(INTERVAL)
    pace.checked({"a": False}, {"a": 1}, 0.0)
    assert pace.due({"a": 1}, INTERVAL) == ["a"]
    pace.checked({"a": True}, {"a": 1}, INTERVAL)
    assert pace.due({"a": 1}, 9 * INTERVAL) == []
    pace.forget("a")
    assert pace.due({"a": 1}, 9 * INTERVAL) == ["a"]


def test_those_whose_turn_it_was_not_come_after_a_pause() -> None:
    pace = CheckPace(INTERVAL)
    states = {"a": 1, "b": 1}
    pace.checked({"a": True}, states, 0.0)
    assert pace.due(states, PAUSE_SECONDS - 1) == []
    assert pace.due(states, PAUSE_SECONDS) == ["b"]
