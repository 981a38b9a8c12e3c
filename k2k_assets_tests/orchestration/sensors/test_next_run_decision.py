"""The decision of a tick, case by case."""

from __future__ import annotations

from k2k_assets.coordination.liveness import LastSign, Presence
from k2k_assets.orchestration.sensors.marks import Marks
from k2k_assets.orchestration.sensors.next_run_decision import (
    FIRST_BACK_OFF,
    FIRST_HEARTBEAT_SECONDS,
    GOOD_SECONDS,
    LONGEST_BACK_OFF,
    MOVING_GROUPS,
    START_SECONDS,
    ActiveRun,
    EndedRun,
    SyncCursor,
    SyncDecision,
    SyncFacts,
    decide_sync,
)

NOW = 10_000.0
WINDOW = 3600.0
TIMEOUT = 15.0


def _facts(**changed: object) -> SyncFacts:
    now = changed.get("now", NOW)
    given: dict[str, object] = {
        "looked": now,
        "now": now,
        "window": WINDOW,
        "heartbeat_timeout": TIMEOUT,
        **changed,
    }
    return SyncFacts.model_validate(given)


def _instance(sign: int, run: str | None) -> Presence:
    return Presence(sign=sign, who=f"run {run}" if run else "k2k start", run=run)


def _copying(seconds: float = 100.0, **changed: object) -> ActiveRun:
    return ActiveRun.model_validate({"run_id": "r1", "since": NOW - seconds, **changed})


def _failed(name: str, ended: float, lasted: float = 1.0) -> EndedRun:
    return EndedRun(run_id=name, how="failure", started=ended - lasted, ended=ended)


def _decide(before: dict[str, LastSign] | None = None, **changed: object) -> SyncDecision:
    return decide_sync(_facts(**changed), before or {})


def test_a_run_is_asked_for_where_nothing_copies() -> None:
    decision = _decide()
    assert (decision.run_key, decision.reason) == ("sync-after-none", "nothing is copied")


def test_no_topic_is_no_reason_for_a_run() -> None:
    decision = _decide(nothing_to_do="no topic of the source is selected")
    assert (decision.run_key, decision.reason) == (None, "no topic of the source is selected")


def test_nothing_is_asked_for_while_a_run_copies_or_waits() -> None:
    alive = {"i1": _instance(5, "r1")}
    assert _decide(active=[_copying()], instances=alive).run_key is None
    waiting = _decide(active=[_copying(WINDOW + 1, waits=True)])
    assert (waiting.run_key, waiting.dead) == (None, ())
    assert "leaves Dagster's queue" in waiting.reason
    assert "is being terminated" in _decide(active=[_copying(WINDOW + 1, ends=True)], instances=alive).reason


def test_the_next_run_takes_over_after_the_window_and_is_asked_for_once() -> None:
    alive = {"i1": _instance(5, "r1")}
    decision = _decide(active=[_copying(WINDOW)], instances=alive)
    assert decision.run_key == "sync-after-r1"
    assert decision.dead == ()
    both = [ActiveRun(run_id="r2", since=NOW - 1), _copying(WINDOW + 1)]
    assert _decide(active=both, instances=alive).run_key is None


def test_a_run_without_heartbeats_is_dead_and_replaced() -> None:
    alive = {"i1": _instance(5, "r1")}
    first = _decide(active=[_copying()], instances=alive)
    assert first.dead == ()
    silent = _decide(first.heard, active=[_copying()], instances=alive, now=NOW + TIMEOUT)
    assert (silent.dead, silent.run_key) == (("r1",), "sync-after-r1")
    heard = _decide(first.heard, active=[_copying()], instances={"i1": _instance(6, "r1")}, now=NOW + TIMEOUT)
    assert (heard.dead, heard.run_key) == ((), None)


def test_a_look_that_stalls_is_nobodys_silence() -> None:
    alive = {"i1": _instance(5, "r1")}
    first = _decide(active=[_copying()], instances=alive)
    stalled = _decide(first.heard, active=[_copying()], instances=alive, looked=NOW + 1, now=NOW + 100)
    assert stalled.dead == ()


def test_a_run_may_take_its_time_to_start_but_not_for_ever() -> None:
    assert _decide(active=[_copying(START_SECONDS - 1)]).dead == ()
    decision = _decide(active=[_copying(START_SECONDS)])
    assert (decision.dead, decision.run_key) == (("r1",), "sync-after-r1")


def test_a_run_that_dies_while_its_spark_starts_is_found_as_soon_as_one_that_copies() -> None:
    run = _copying(20, started=True)
    first = _decide(active=[run], heartbeats={"r1": 7})
    assert first.dead == ()
    patient = _decide(first.heard, active=[run], heartbeats={"r1": 8}, now=NOW + START_SECONDS)
    assert (patient.dead, patient.run_key) == ((), None), "Spark may take long"
    silent = _decide(first.heard, active=[run], heartbeats={"r1": 7}, now=NOW + TIMEOUT)
    assert (silent.dead, silent.run_key) == (("r1",), "sync-after-r1")


def test_the_heartbeats_of_the_start_count_until_slots_have_written_any() -> None:
    """The instance record, its only sign, may be older than `graceWindow` when the first slot claims a partition."""
    before = {"i1": LastSign(sign=5, time=NOW - TIMEOUT)}
    seen: dict[str, object] = {"active": [_copying(started=True)], "instances": {"i1": _instance(5, "r1")}}
    assert _decide(before, **seen, heartbeats={"r1": 9}).dead == ()
    assert _decide(before, **seen).dead == ("r1",)


def test_a_run_keeps_its_last_sign_between_two_of_its_steps() -> None:
    """It removes its heartbeat, or its instance, at the end of a step, and the next one begins a moment later."""
    run = _copying(1000, started=True)
    for of_step in ({"heartbeats": {"r1": 7}}, {"instances": {"i1": _instance(7, "r1")}}):
        working = _decide(active=[run], **of_step)
        between = _decide(working.heard, active=[run], now=NOW + 5)
        assert between.dead == ()
        late = _decide(between.heard, active=[run], now=NOW + TIMEOUT + FIRST_HEARTBEAT_SECONDS)
        assert late.dead == ("r1",)


def test_a_process_that_has_begun_writes_a_heartbeat_soon_or_is_dead() -> None:
    assert _decide(active=[_copying(FIRST_HEARTBEAT_SECONDS - 1, started=True)]).dead == ()
    assert _decide(active=[_copying(FIRST_HEARTBEAT_SECONDS, started=True)]).dead == ("r1",)
    assert _decide(active=[_copying(FIRST_HEARTBEAT_SECONDS)]).dead == (), "it was launched only"


def test_a_run_whose_process_is_gone_is_replaced_at_once() -> None:
    alive = {"i1": _instance(5, "r1")}
    decision = _decide(active=[_copying(gone=True)], instances=alive)
    assert (decision.dead, decision.run_key, decision.others) == (("r1",), "sync-after-r1", "")
    reported = EndedRun(run_id="r1", how="failure", started=NOW - 1000, ended=NOW, gone=True)
    assert _decide(ended=[reported], instances=alive).run_key == "sync-after-r1", "its instance copies no more"


def test_a_run_that_was_taken_over_from_or_terminated_may_be_silent_for_a_while() -> None:
    instances = {"i1": _instance(5, "r1"), "i2": _instance(9, "r2")}
    before = {"i1": LastSign(sign=5, time=NOW - TIMEOUT - 1)}
    newer = ActiveRun(run_id="r2", since=NOW - 20)
    assert _decide(before, active=[newer, _copying(WINDOW)], instances=instances).dead == ()
    assert _decide(before, active=[_copying(ends=True)], instances=instances).dead == ()
    long_ago = {"i1": LastSign(sign=5, time=NOW - START_SECONDS)}
    assert _decide(long_ago, active=[newer, _copying(WINDOW)], instances=instances).dead == ("r1",)


def test_nothing_is_asked_for_while_k2k_start_copies() -> None:
    decision = _decide(instances={"i9": _instance(5, None)})
    assert (decision.run_key, decision.others) == (None, "k2k start")
    gone = _decide(decision.heard, instances={"i9": _instance(5, None)}, now=NOW + TIMEOUT)
    assert (gone.run_key, gone.others) == ("sync-after-none", "")


def test_an_instance_of_a_run_that_has_ended_for_dagster_copies_still() -> None:
    decision = _decide(ended=[_failed("r1", NOW - 1)], instances={"i1": _instance(5, "r1")})
    assert (decision.run_key, decision.others) == (None, "run r1")


def test_a_terminated_run_is_not_replaced_until_the_sensor_is_switched_on_again() -> None:
    canceled = EndedRun(run_id="r1", how="canceled", started=NOW - 500, ended=NOW - 100)
    decision = _decide(ended=[canceled], switched_on=NOW - 600)
    assert decision.run_key is None
    assert "terminated by hand" in decision.reason
    assert _decide(ended=[canceled], switched_on=NOW - 50).run_key == "sync-after-r1"
    by_hand = EndedRun(run_id="r2", how="success", started=NOW - 90, ended=NOW - 10)
    assert _decide(ended=[by_hand, canceled], switched_on=NOW - 600).run_key == "sync-after-r2"


def test_a_run_that_dies_while_it_is_terminated_is_not_replaced() -> None:
    """Its process was killed before it could say that it was canceled."""
    decision = _decide(active=[_copying(ends=True, gone=True)])
    assert (decision.dead, decision.run_key) == (("r1",), None)
    assert "run r1 was terminated by hand" in decision.reason
    silent = {"i1": LastSign(sign=5, time=NOW - START_SECONDS)}
    decision = _decide(silent, active=[_copying(ends=True)], instances={"i1": _instance(5, "r1")})
    assert (decision.dead, decision.run_key) == (("r1",), None)
    launched = EndedRun(run_id="r2", number=2, how="failure", started=NOW - 60, ended=NOW - 50)
    decision = _decide(active=[_copying(ends=True, gone=True)], ended=[launched])
    assert decision.run_key == "sync-after-r2", "somebody has launched another one since"


def test_runs_that_fail_at_once_are_asked_for_less_and_less_often() -> None:
    failed = [_failed(f"r{n}", NOW - n) for n in range(1, 4)]
    decision = _decide(ended=failed[:1])
    assert decision.run_key is None
    assert decision.reason == f"the last 1 run failed; the next one in {FIRST_BACK_OFF - 1:.0f} s"
    assert _decide(ended=failed[:1], now=NOW + FIRST_BACK_OFF).run_key == "sync-after-r1"
    assert _decide(ended=failed, now=NOW + 2 * FIRST_BACK_OFF).run_key is None
    assert _decide(ended=failed, now=NOW + 4 * FIRST_BACK_OFF).run_key == "sync-after-r1"
    assert _decide(ended=failed * 5, now=NOW + LONGEST_BACK_OFF).run_key == "sync-after-r1"
    assert _decide(ended=[_failed("r1", NOW - 1, lasted=GOOD_SECONDS)]).run_key == "sync-after-r1"


def test_a_run_that_has_worked_causes_no_wait_however_short_it_was() -> None:
    """It was killed, with a node, by a deployment: that is not a failure to start, also if it happens often."""
    killed = [_failed(f"r{n}", NOW - 20 * n, lasted=15).model_copy(update={"worked": True}) for n in range(6)]
    assert _decide(ended=killed).run_key == "sync-after-r0"
    before_it = [_failed(f"f{n}", NOW - 30 - n) for n in range(6)]
    assert _decide(ended=[killed[0], *before_it]).run_key == "sync-after-r0", "what failed before it is over"
    after_it = [_failed("f0", NOW - 1), *killed]
    assert _decide(ended=after_it).reason == f"the last 1 run failed; the next one in {FIRST_BACK_OFF - 1:.0f} s"


def test_a_run_that_has_worked_and_is_found_dead_causes_no_wait_either() -> None:
    failed = [_failed(f"f{n}", NOW - GOOD_SECONDS - 5 - n) for n in range(8)]
    decision = _decide(active=[_copying(20, gone=True)], ended=failed)
    assert (decision.dead, decision.run_key) == (("r1",), None)
    for run in (_copying(20, gone=True, worked=True), _copying(GOOD_SECONDS, gone=True)):
        decision = _decide(active=[run], ended=failed)
        assert (decision.dead, decision.run_key) == (("r1",), "sync-after-r1")


def test_the_key_names_the_run_that_was_created_last_whatever_the_clocks_say() -> None:
    """It failed at its launch, so only the database says when it was created, whose clock is ten seconds behind."""
    before = EndedRun(run_id="r1", number=1, how="failure", started=NOW - 100, ended=NOW - 99)
    newest = EndedRun(run_id="r2", number=2, how="failure", started=NOW - 105, ended=NOW - 105)
    assert _decide(ended=[newest, before]).run_key == "sync-after-r2", "r2 was asked for as the one after r1"
    waits = ActiveRun(run_id="r3", number=3, waits=True, gone=True, since=NOW - 110)
    assert _decide(active=[waits], ended=[newest, before]).run_key == "sync-after-r3"


def test_successors_that_fail_are_asked_for_less_and_less_often_too() -> None:
    """Each tick asked for another one until the run that still copied had gone."""
    alive = {"i1": _instance(5, "r1")}
    decision = _decide(active=[_copying(WINDOW + 20)], instances=alive, ended=[_failed("r2", NOW - 1)])
    assert decision.run_key is None
    assert decision.reason.endswith(f"the last 1 run failed; the next one in {FIRST_BACK_OFF - 1:.0f} s")
    later = _decide(active=[_copying(WINDOW + 20)], instances=alive, ended=[_failed("r2", NOW - FIRST_BACK_OFF)])
    assert later.run_key is not None
    before_it = _failed("r0", NOW - WINDOW - 100)
    assert _decide(active=[_copying(WINDOW)], instances=alive, ended=[before_it]).run_key == "sync-after-r1"


def test_runs_that_die_one_after_the_other_are_too() -> None:
    before = {"i3": LastSign(sign=5, time=NOW - TIMEOUT)}
    died = [_failed(f"r{n}", NOW - 10 * n, lasted=5) for n in (1, 2, 3)]
    run = ActiveRun(run_id="r0", since=NOW - 30)
    decision = _decide(before, active=[run], instances={"i3": _instance(5, "r0")}, ended=died)
    assert (decision.dead, decision.run_key) == (("r0",), None)
    assert decision.reason == f"run r0 is dead; the last 3 runs failed; the next one in {4 * FIRST_BACK_OFF - 10:.0f} s"


def test_runs_that_move_groups_are_asked_for_by_the_same_rules() -> None:
    asked = decide_sync(_facts(), {}, MOVING_GROUPS)
    assert (asked.run_key, asked.reason) == ("groups-after-none", "no group is moved")
    others = decide_sync(_facts(instances={"m": Presence(sign=3, who="k2k-offset-mapping on host")}), {}, MOVING_GROUPS)
    assert others.run_key is None
    assert others.reason == "the groups are moved by k2k-offset-mapping on host; stop it to let runs do it"


def test_a_cursor_that_cannot_be_read_is_an_empty_one() -> None:
    marks = Marks.of({"a": "why"}).packed
    cursor = SyncCursor(heard={"i": LastSign(sign=1, time=2.0)}, stopped=marks, reported=marks, reported_at=3.0)
    assert SyncCursor.read(cursor.model_dump_json()) == cursor
    for text in (None, "", "{", '{"version": 1, "ends": {}}', "[]"):
        assert SyncCursor.read(text) == SyncCursor()


def test_a_run_that_was_asked_to_stay_longer_is_left_to_it() -> None:
    alive = {"i1": _instance(5, "r1")}
    assert _decide(active=[_copying(WINDOW + 1, window=2 * WINDOW)], instances=alive).run_key is None
    assert _decide(active=[_copying(2 * WINDOW, window=2 * WINDOW)], instances=alive).run_key == "sync-after-r1"


def test_where_no_tick_came_for_long_nobody_was_silent() -> None:
    """The machine slept, or the clock was set: who is dead is looked for in vain once more."""
    instances = {"i1": _instance(5, "r1")}
    for away in (3600.0, -3600.0):
        cursor = SyncCursor(heard=_decide(active=[_copying()], instances=instances).heard, looked=NOW)
        dead = []
        for now in (NOW + away, NOW + away + 10, NOW + away + 20):
            run = ActiveRun(run_id="r1", since=now - 100)
            decision = _decide(cursor.heard_until(now, TIMEOUT), active=[run], instances=instances, now=now)
            cursor = SyncCursor(heard=decision.heard, looked=now)
            dead.append(decision.dead != ())
        assert dead == [False, away > 0, True], away


def test_observations_that_fail_now_and_then_keep_no_silent_run_alive() -> None:
    """Every third one does. Only the time between two that did not counts."""
    cursor, instances, dead = SyncCursor(), {"i1": _instance(5, "r1")}, []
    for tick in range(6):
        if tick % 3 == 2:
            cursor = cursor.model_copy(update={"missed": True})
            continue
        now = NOW + 10 * tick
        run = ActiveRun(run_id="r1", since=now - 100)
        decision = _decide(cursor.heard_until(now, TIMEOUT), active=[run], instances=instances, now=now)
        cursor = SyncCursor(heard=decision.heard, looked=now)
        dead.append(decision.dead != ())
    assert dead == [False, False, False, True]


def test_signs_of_which_it_is_not_known_when_they_were_looked_for_count_for_nothing() -> None:
    """The cursor is of an earlier release."""
    assert SyncCursor(heard={"i1": LastSign(sign=5, time=NOW - 1)}).heard_until(NOW, TIMEOUT) == {}


def test_a_clock_that_was_set_back_makes_nobody_wait_for_hours() -> None:
    later = _failed("r1", NOW + 7200)
    assert _decide(ended=[later], now=NOW).reason.endswith(f"{LONGEST_BACK_OFF:.0f} s")
