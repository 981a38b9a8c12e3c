"""Records of earlier instances that a new instance removes when it announces itself."""

from __future__ import annotations

import pytest

from k2k_assets.control.assignment_records import (
    Claim,
    InstanceRecord,
    heartbeat_key,
    instance_key,
    instance_value,
    run_heartbeat_key,
    stop_key,
    stop_value,
    time_value,
)
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination.announce import _left_over

GROUP, LONG_AGO = "k2k.g", 1_000


@pytest.fixture
def state() -> Assignments:
    """One earlier instance, of generation 3, that has claimed, beaten and been told to stop, long ago."""
    state = Assignments()
    instance = InstanceRecord("earlier", "p", 1, "c", "host", 1, LONG_AGO)
    state.apply(GROUP, 3, instance_key(GROUP, "earlier"), instance_value(instance))
    state.apply(GROUP, 4, heartbeat_key(GROUP, 3, 0), time_value(LONG_AGO))
    state.apply(GROUP, 5, stop_key(GROUP, 3), stop_value(LONG_AGO, again=False))
    return state


def test_all_of_one_that_was_not_heard_of_for_long(state: Assignments) -> None:
    left = {instance_key(GROUP, "earlier"), heartbeat_key(GROUP, 3, 0), stop_key(GROUP, 3)}
    assert set(_left_over(GROUP, state, 9, LONG_AGO + 1)) == left
    assert _left_over(GROUP, state, 3, LONG_AGO + 1) == [], "none of its own, nor of a later one"


def test_nothing_of_one_that_beats_or_was_announced_since_though_it_claims_nothing_now(state: Assignments) -> None:
    """Its slots may be about to begin; or somebody has claimed their ids, and they are about to claim anew."""
    assert _left_over(GROUP, state, 9, LONG_AGO) == []
    state.apply(GROUP, 6, heartbeat_key(GROUP, 3, 0), time_value(LONG_AGO + 100))
    assert _left_over(GROUP, state, 9, LONG_AGO + 100) == []


def test_heartbeats_of_runs_that_were_killed_long_ago() -> None:
    """Only a run that ends in order removes its own."""
    state = Assignments()
    for offset, (run, time) in enumerate([("killed", LONG_AGO), ("alive", LONG_AGO), ("alive", LONG_AGO + 100)]):
        state.apply(GROUP, offset, run_heartbeat_key(GROUP, run), time_value(time))
    assert _left_over(GROUP, state, 9, LONG_AGO + 1) == [run_heartbeat_key(GROUP, "killed")]
    state.apply(GROUP, 5, run_heartbeat_key(GROUP, "killed"), None)
    assert _left_over(GROUP, state, 9, LONG_AGO + 1) == []


def test_nothing_of_one_that_holds_something(state: Assignments) -> None:
    claim = Claim("s", 0, "id", "claim", 3, 0, "t")
    state.apply(GROUP, 7, claim.key_bytes(GROUP), claim.value_bytes(LONG_AGO))
    assert _left_over(GROUP, state, 9, LONG_AGO + 1) == []
