"""Which instance is alive, from the time of its last sign."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.assignment_records import Claim, heartbeat_key, time_value
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination.liveness import (
    LastSign,
    Liveness,
    heartbeat_interval_seconds,
    heartbeat_timeout_seconds,
    last_signs,
    last_signs_of_runs,
)
from k2k_assets_tests.support.copies.pipelines import make_pipeline

GROUP, OWNER, TIMEOUT = "k2k.g", (7, 0), 15.0
CLAIM = Claim("s", 0, "id", "claim", *OWNER, "orders")
CLAIMED = (CLAIM.key_bytes(GROUP), CLAIM.value_bytes(1))
HEARTBEAT, RELEASE_ALL = ((heartbeat_key(GROUP, *OWNER), value) for value in (time_value(1), None))


class Reader:
    """Reads records at a time, in one batch."""

    def __init__(self) -> None:
        self.now = 0.0
        self.state = Assignments()
        self.liveness = Liveness(self.state, TIMEOUT, lambda: self.now)
        self._offset = 0

    def read(self, at: float, *records: tuple[bytes, bytes | None], noted: bool = True) -> None:
        self.now = at
        for key, value in records:
            self.state.apply(GROUP, self._offset, key, value)
            self._offset += 1
        if noted:
            self.liveness.note()

    def is_alive(self, at: float, owner: tuple[int, int] = OWNER) -> bool:
        self.now = at
        return self.liveness.is_alive(owner)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_a_sign_counts_from_when_it_was_read(reader: Reader) -> None:
    """Whatever time its writer gave it: that was long ago, or lies in the future."""
    reader.read(10, CLAIMED)
    assert reader.is_alive(24.9)
    assert not reader.is_alive(25)
    reader.read(30, HEARTBEAT)
    assert reader.is_alive(44.9)
    assert not reader.is_alive(45)
    reader.read(46, RELEASE_ALL)
    assert not reader.is_alive(46), "it tells of no life"


def test_what_was_read_is_never_older_than_when_it_is_asked_for(reader: Reader) -> None:
    """Others read the topic too."""
    reader.read(10, CLAIMED)
    reader.read(20, HEARTBEAT, noted=False)
    assert reader.is_alive(26)
    assert reader.is_alive(40.9)
    assert not reader.is_alive(41)


def test_one_that_has_released_all_and_left_a_claim_dies_all_the_same(reader: Reader) -> None:
    """Two attempts of one slot: one ends, and the other dies before its next heartbeat. Both are read at once."""
    reader.read(10, CLAIMED, RELEASE_ALL)
    assert reader.is_alive(10)
    assert not reader.is_alive(25), "or its claim would hold the partition for ever"
    reader.read(30, HEARTBEAT)
    assert reader.is_alive(30), "it lives"


def test_who_has_shown_a_sign_since_the_first_reading_is_alive_for_sure(reader: Reader) -> None:
    assert not reader.liveness.has_shown(OWNER)
    reader.read(10, CLAIMED, HEARTBEAT)
    assert not reader.liveness.has_shown(OWNER), "it may have died an hour ago"
    reader.read(11)
    assert not reader.liveness.has_shown(OWNER)
    reader.read(12, HEARTBEAT)
    assert reader.liveness.has_shown(OWNER)
    assert not reader.liveness.has_shown((8, 0))
    later = Claim("s", 1, "id-2", "another", 8, 0, "orders")
    reader.read(13, (later.key_bytes(GROUP), later.value_bytes(1)))
    assert reader.liveness.has_shown((8, 0)), "it has come since"


READINGS = st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=8)


@given(READINGS)
def test_the_highest_sign_counts_from_when_it_was_read_first(
    readings: list[dict[str, int]],
) -> None:
    known: dict[str, LastSign] = {}
    highest: dict[str, tuple[int, int]] = {}
    for now, signs in enumerate(readings):
        known = known | last_signs(signs, known, now)
        for who, sign in signs.items():
            if who not in highest or sign > highest[who][0]:
                highest[who] = sign, now
    assert {who: (last.sign, int(last.time)) for who, last in known.items()} == highest


@given(READINGS, st.integers(0, 7))
def test_to_read_the_same_once_more_makes_nobody_live_longer(readings: list[dict[str, int]], again: int) -> None:
    known: dict[str, LastSign] = {}
    for now, signs in enumerate(readings):
        known = known | last_signs(signs, known, now)
    repeated = known | last_signs(readings[min(again, len(readings) - 1)], known, 1000)
    assert repeated == known


def test_a_heartbeat_comes_three_times_within_its_timeout(tmp_path: Path) -> None:
    for seconds in ("15 seconds", "1 millisecond"):
        window = {"assignment": {"topic": "claims", "graceWindow": seconds}}
        pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], coordination=window)
        assert heartbeat_interval_seconds(pipeline) * 3 <= heartbeat_timeout_seconds(pipeline) + 1e-9
    assert all(early < late for early, late in pairwise((0.0, heartbeat_interval_seconds(pipeline))))


@pytest.mark.parametrize(("given", "seconds"), [("2 minutes", 120.0), ("15 seconds", 15.0)])
def test_who_is_silent_for_the_grace_window_of_the_file_is_dead(tmp_path: Path, given: str, seconds: float) -> None:
    window = {"assignment": {"topic": "claims", "graceWindow": given}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], coordination=window)
    assert heartbeat_timeout_seconds(pipeline) == seconds
    assert heartbeat_interval_seconds(pipeline) == pytest.approx(seconds / 3)


def test_a_run_without_a_sign_keeps_its_last_one_and_a_new_one_is_silent_from_the_first_look_on() -> None:
    before = {"between-steps": LastSign(3, 95.0), "over": LastSign(4, 95.0), "beats": LastSign(5, 95.0)}
    found = last_signs_of_runs(["between-steps", "beats", "new"], {"beats": 9, "killed": 2}, before, 100.0)
    assert found == {"between-steps": before["between-steps"], "beats": LastSign(9, 100.0), "new": LastSign(-1, 100.0)}
    assert last_signs_of_runs(["new"], {}, found, 200.0) == {"new": found["new"]}
