"""What a tick asks for, case by case."""

from __future__ import annotations

from k2k_assets.coordination.presence import Presence
from k2k_assets.orchestration.sensors.run_decision import (
    FIRST_BACK_OFF,
    LONGEST_BACK_OFF,
    Cursor,
    RequestedRun,
    RunDecision,
    SensorFacts,
    decide_run,
)


def _facts(**changed: object) -> SensorFacts:
    given: dict[str, object] = {
        "looked": changed.get("now", 1000.0),
        "now": 1000.0,
        "ends": {"a": [10, 20], "b": [5]},
        "positions": {"a": [10, 20], "b": [5]},
        **changed,
    }
    return SensorFacts.model_validate(given)


def _lagging(now: float = 1000.0, **changed: object) -> SensorFacts:
    return _facts(now=now, positions={"a": [10, 19], "b": [5]}, **changed)


def test_nothing_is_asked_for_when_all_is_copied() -> None:
    decision = decide_run(_facts(), Cursor())
    assert decision.run_key is None
    assert decision.reason == "all 2 topics are copied up to the end of the source"
    assert decision.cursor.ends == {"a": [10, 20], "b": [5]}


def test_only_lagging_topics_are_asked_for() -> None:
    assert decide_run(_lagging(), Cursor()).topics == ("a",)


def test_a_partition_without_a_position_lags() -> None:
    assert decide_run(_facts(positions={"a": [None, None]}), Cursor()).topics == ("a", "b")
    assert decide_run(_facts(ends={"empty": [0]}, positions={"empty": [0]}), Cursor()).topics == ()


def test_one_run_at_a_time() -> None:
    decision = decide_run(_lagging(running="r1"), Cursor())
    assert decision.run_key is None
    assert "run r1 is in progress" in decision.reason


def test_no_topic_is_said() -> None:
    assert decide_run(_facts(ends={}, positions={}), Cursor()).reason == "no topic of the source is selected"


def _again(after: RunDecision, seconds: float, run: str) -> RunDecision:
    return decide_run(_lagging(now=1000.0 + seconds, last_run=run, last_ended=1000.0), after.cursor)


def test_a_run_without_progress_is_asked_for_again_later_each_time() -> None:
    first = decide_run(_lagging(last_run="r0"), Cursor())
    early = _again(first, FIRST_BACK_OFF - 1, "r1")
    assert early.run_key is None
    assert "a (1 runs without progress, next in 1 s)" in early.reason
    second = _again(early, FIRST_BACK_OFF, "r1")
    assert second.topics == ("a",)
    assert second.run_key != first.run_key, "a key that was used is never run again"
    assert second.cursor.asked["a"].attempts == 2
    third = _again(second, FIRST_BACK_OFF + 2 * FIRST_BACK_OFF - 1, "r2")
    assert third.run_key is None


def test_the_wait_has_an_end() -> None:
    cursor = Cursor(asked={"a": RequestedRun(positions=[10, 19], attempts=60, time=0.0)})
    assert decide_run(_lagging(now=LONGEST_BACK_OFF), cursor).topics == ("a",)


def test_progress_ends_the_wait() -> None:
    first = decide_run(_lagging(), Cursor())
    moved = _facts(now=1001.0, ends={"a": [10, 30], "b": [5]}, positions={"a": [10, 20], "b": [5]})
    assert decide_run(moved, first.cursor).topics == ("a",)
    assert decide_run(moved, first.cursor).cursor.asked["a"].attempts == 1


def test_others_do_not_wait_for_a_stopped_topic() -> None:
    first = decide_run(_lagging(), Cursor())
    both = _facts(now=1001.0, positions={"a": [10, 19], "b": [4]})
    assert decide_run(both, first.cursor).topics == ("b",)


def test_a_stopped_topic_does_not_wait_for_the_runs_of_others() -> None:
    """Else one of a busy pipeline would never be asked for again."""
    first = decide_run(_lagging(), Cursor())
    ended = decide_run(_lagging(now=1010.0, last_ended=1009.0), first.cursor)
    assert ended.run_key is None
    other = decide_run(_facts(now=1030.0, positions={"a": [10, 19], "b": [4]}, last_ended=1009.0), ended.cursor)
    assert other.topics == ("b",)
    assert decide_run(_lagging(now=1039.0, last_ended=1038.0), other.cursor).topics == ("a",), "30 s after its own run"


def test_a_topic_that_never_gets_on_is_asked_for_for_ever() -> None:
    cursor = Cursor(asked={"a": RequestedRun(positions=[10, 19], attempts=5000, time=0.0)})
    assert decide_run(_lagging(now=899.0), cursor).run_key is None
    assert decide_run(_lagging(now=900.0), cursor).topics == ("a",)


def test_a_run_key_is_the_same_for_the_same_tick() -> None:
    assert decide_run(_lagging(), Cursor()).run_key == decide_run(_lagging(now=1001.0), Cursor()).run_key
    assert decide_run(_lagging(last_run="x"), Cursor()).run_key != decide_run(_lagging(last_run="y"), Cursor()).run_key


def test_an_index_that_is_behind_is_asked_for_when_nothing_lags() -> None:
    behind = decide_run(_facts(mappings={"a": [10, 19], "b": [5]}), Cursor())
    assert behind.run_key
    assert behind.topics == ()
    waiting = decide_run(_facts(now=1001.0, mappings={"a": [10, 19], "b": [5]}), behind.cursor)
    assert waiting.run_key is None
    good = decide_run(_facts(mappings={"a": [10, 20], "b": [5]}), waiting.cursor)
    assert good.run_key is None
    assert good.cursor.asked == {}


def test_a_cursor_survives_and_a_strange_one_is_dropped() -> None:
    cursor = decide_run(_lagging(), Cursor()).cursor
    assert Cursor.read(cursor.model_dump_json()) == cursor
    for strange in (None, "", "{", '{"version": 99}', '"x"'):
        assert Cursor.read(strange) == Cursor()


def _beside(sign: int, now: float, **changed: object) -> SensorFacts:
    """Beside a continuous instance."""
    return _lagging(
        now=now, instances={"i": Presence(sign=sign, who="pipeline p on host")}, heartbeat_timeout=15.0, **changed
    )


def test_a_continuous_instance_is_left_alone_until_it_is_silent() -> None:
    first = decide_run(_beside(7, 1000.0), Cursor())
    assert first.run_key is None
    assert "copied without end by pipeline p on host: a run would take its partitions over" in first.reason
    still = decide_run(_beside(8, 1014.0), first.cursor)
    assert still.run_key is None
    later = decide_run(_beside(8, 1028.9), still.cursor)
    assert later.run_key is None
    assert decide_run(_beside(8, 1029.0), later.cursor).topics == ("a",)
    assert decide_run(_lagging(now=1014.0, heartbeat_timeout=15.0), first.cursor).topics == ("a",), "it has left"


def test_a_look_that_stalls_is_not_the_silence_of_an_instance() -> None:
    first = decide_run(_beside(7, 1020.0, looked=1000.0), Cursor())
    assert decide_run(_beside(7, 1034.9), first.cursor).run_key is None, (
        "it may have beaten until the first look was over"
    )
    assert decide_run(_beside(7, 1060.0, looked=1034.9), first.cursor).run_key is None, "and since this one began"
    assert decide_run(_beside(7, 1035.0), first.cursor).topics == ("a",)


def test_the_index_is_kept_up_beside_a_continuous_instance() -> None:
    facts = _beside(7, 1000.0, mappings={"a": [10, 18], "b": [5]})
    decision = decide_run(facts, Cursor())
    assert (decision.topics, decision.run_key is None) == ((), False)


def test_a_continuous_instance_that_has_copied_all_is_no_reason() -> None:
    idle = _facts(instances={"i": Presence(sign=7, who="p")}, heartbeat_timeout=15.0)
    assert decide_run(idle, Cursor()).reason == "all 2 topics are copied up to the end of the source"
