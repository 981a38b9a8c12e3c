"""Which consumer groups a tick asks for, case by case."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.sensors.group_decision import (
    RENEW_SECONDS,
    GroupCursor,
    GroupFacts,
    MoveDecision,
    decide_groups,
    standing,
)
from k2k_assets.orchestration.sensors.sync_decision import FIRST_BACK_OFF

AT = TopicPartition("orders", 0)


def _facts(**changed: object) -> GroupFacts:
    return GroupFacts.model_validate({"now": 1000.0, "groups": {"a": "1", "b": "1"}, **changed})


def _good_run(decision: MoveDecision, **changed: object) -> MoveDecision:
    """The tick after the run that was asked for ended well."""
    facts = {"now": 1060.0, "last_run": "r1", "last_ended": 1050.0, "last_good": True, **changed}
    return decide_groups(_facts(**facts), decision.cursor)


def test_groups_are_asked_for_once_and_again_when_they_move() -> None:
    first = decide_groups(_facts(), GroupCursor())
    assert (first.groups, first.mappings) == (("a", "b"), False)
    still = _good_run(first)
    assert still.run_key is None
    assert still.reason == "all 2 groups stand where they stood when they were moved last"
    moved = _good_run(first, groups={"a": "2", "b": "1", "new": "1"})
    assert moved.groups == ("a", "new")
    assert moved.run_key != first.run_key


def test_a_group_that_could_not_be_read_keeps_its_state() -> None:
    """It has not moved because a tick could not see it."""
    first = decide_groups(_facts(), GroupCursor())
    hidden = _good_run(first, groups={"a": "1"}, unread={"b"})
    assert hidden.run_key is None
    assert hidden.reason.endswith("were moved last; 1 could not be read: b")
    again = decide_groups(_facts(now=1070.0), hidden.cursor)
    assert again.run_key is None, "it stands where it stood"
    gone = decide_groups(_facts(groups={"a": "1"}), hidden.cursor)
    assert set(gone.cursor.synced) == {"a"}, "what is not there any more is forgotten"


def test_reasons_to_skip_are_said() -> None:
    reasons = {
        "run r is in progress, and one moves offsets at a time": _facts(running="r"),
        "no selected consumer group of the source has a commit on a topic that is copied": _facts(groups={}),
        "nothing is copied yet, so there is nothing to translate by": _facts(copied=False),
        "the offset mappings are not checked: a check has not run yet, or ended without a verdict; run c is in "
        "progress and comes first": _facts(failed_checks=None, copying="c"),
        "no consumer group could be read: a, b": _facts(groups={}, unread={"a", "b"}),
        "the offset mappings failed their checks (content); run c is in progress and comes first": _facts(
            failed_checks=["content"], copying="c"
        ),
    }
    for reason, facts in reasons.items():
        decision = decide_groups(facts, GroupCursor())
        assert (decision.run_key, decision.reason) == (None, reason)


def test_mappings_that_are_not_proven_are_checked_by_the_run() -> None:
    for checks in (None, ["content"]):
        decision = decide_groups(_facts(failed_checks=checks), GroupCursor())
        assert decision.mappings
        assert decision.groups == ("a", "b")


def test_a_run_that_failed_is_asked_for_again_later_each_time() -> None:
    first = decide_groups(_facts(), GroupCursor())
    failed = {"last_run": "r1", "last_ended": 1010.0, "last_good": False}
    early = decide_groups(_facts(now=1010.0 + FIRST_BACK_OFF - 1, **failed), first.cursor)
    assert early.reason == "waiting before asking again for a, b (the last 1 runs did not move them, next in 1 s)"
    moved = _facts(now=1011.0, groups={"a": "9", "b": "1"}, **failed)
    assert decide_groups(moved, first.cursor).run_key is None, "it waits though it moved on"
    second = decide_groups(_facts(now=1010.0 + FIRST_BACK_OFF, **failed), early.cursor)
    assert second.groups == ("a", "b")
    assert second.run_key != first.run_key
    third = decide_groups(_facts(now=1040.0 + 2 * FIRST_BACK_OFF - 1, **failed), second.cursor)
    assert third.run_key is None
    good = _good_run(second, last_run="r3", groups={"a": "9", "b": "1"})
    assert good.groups == ("a",), "a good run ends the wait"


def test_a_group_that_fails_each_time_holds_up_no_others() -> None:
    cursor, asked = GroupCursor(), []
    last: dict[str, object] = {}
    for tick in range(100):
        now = 1000.0 + 10 * tick
        groups = {"bad": "1", "good": str(tick // 2)}
        decision = decide_groups(_facts(now=now, groups=groups, **last), cursor)
        cursor = decision.cursor
        if decision.run_key:
            asked.append((tick, decision.groups))
            last = {"last_run": f"r{tick}", "last_ended": now + 5, "last_good": decision.groups == ("good",)}
            last["last_moved"] = frozenset({"good"}.intersection(decision.groups))
    assert {tick for tick, groups in asked if "good" in groups} == set(range(0, 100, 2)), "each time that it moved"
    assert [tick for tick, groups in asked if "bad" in groups] == [0, 4, 11, 24, 49, 98]
    assert decision.reason.startswith("waiting before asking again for bad (the last 6 runs did not move them")


def test_a_good_run_of_other_groups_tells_nothing() -> None:
    """Started by hand, and ended before the one that was asked for began."""
    first = decide_groups(_facts(), GroupCursor())
    others = {"last_run": "by hand", "last_ended": 1005.0, "last_good": True, "last_moved": {"c"}}
    waits = decide_groups(_facts(now=1010.0, **others), first.cursor)
    assert waits.reason.startswith("waiting before asking again for a, b")
    assert decide_groups(_facts(now=1005.0 + FIRST_BACK_OFF, **others), waits.cursor).groups == ("a", "b")
    done = decide_groups(_facts(now=1010.0, **{**others, "last_moved": {"a", "b"}}), first.cursor)
    assert done.reason.startswith("all 2 groups stand where they stood")


def test_a_run_that_never_started_is_asked_for_again() -> None:
    first = decide_groups(_facts(last_run="r0", last_good=True), GroupCursor())
    later = _facts(now=1000.0 + FIRST_BACK_OFF, last_run="r0", last_good=True)
    assert decide_groups(later, first.cursor).groups == ("a", "b")


def test_what_brokers_may_forget_is_renewed() -> None:
    done = _good_run(decide_groups(_facts(), GroupCursor()))
    later = _facts(now=1000.0 + RENEW_SECONDS, last_run="r1", last_good=True)
    assert decide_groups(later, done.cursor).groups == ("a", "b")


def test_a_group_that_is_gone_is_forgotten() -> None:
    done = _good_run(decide_groups(_facts(), GroupCursor()), groups={"a": "1"})
    assert set(done.cursor.synced) == {"a"}


def test_a_group_stands_elsewhere_when_it_moves_or_the_copy_reaches_it() -> None:
    here = standing({AT: 10}, {AT: 5})
    assert here != standing({AT: 11}, {AT: 5})
    assert here != standing({AT: 10}, {AT: 7}), "it was ahead of the copy"
    assert here != standing({AT: 10}, {AT: 5}, ["active"]), "it is to be moved once its members are gone"
    assert standing({AT: 10}, {AT: 10}) == standing({AT: 10}, {AT: 99}), "what lies behind it does not matter"


def test_a_cursor_survives_and_a_strange_one_is_dropped() -> None:
    cursor = decide_groups(_facts(), GroupCursor()).cursor
    assert GroupCursor.read(cursor.model_dump_json()) == cursor
    for strange in (None, "", "{", '{"version": 99}', '"x"'):
        assert GroupCursor.read(strange) == GroupCursor()
