"""The pause between two commits depends on their cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot.commit.commit_pace import IDLE_SECONDS, CommitPace


def _settled(cost: float, shortest: float = 0.0) -> tuple[CommitPace, float, float]:
    """A pace after many commits of one cost; when the last of them began and ended."""
    pace, began = CommitPace(shortest, now=0.0), 0.0
    for _ in range(100):
        began = pace.due(1)
        pace.committed(began, began + cost, small=True)
    return pace, began, began + cost


def test_the_first_record_waits_for_nothing() -> None:
    assert CommitPace(0.01, now=7.0).due(0) == 7.0


@pytest.mark.parametrize(("cost", "pause"), [(0.003, 0.0015), (0.01, 0.005), (0.2, 0.05)])
def test_a_pause_is_half_as_long_as_a_commit_and_never_long(cost: float, pause: float) -> None:
    pace, _, ended = _settled(cost)
    assert pace.due(1) - ended == pytest.approx(pause)


def test_the_shortest_interval_holds_from_commit_to_commit() -> None:
    pace, began, _ = _settled(0.001, shortest=0.5)
    assert pace.due(1) == pytest.approx(began + 0.5)


def test_a_large_transaction_does_not_make_small_ones_wait() -> None:
    pace, _, ended = _settled(0.003)
    pace.committed(ended + 1, ended + 3, small=False)
    assert pace.due(1) - (ended + 3) == pytest.approx(0.0015)


def test_what_has_piled_up_is_not_cut_into_small_transactions() -> None:
    pace, _, ended = _settled(0.003)
    assert pace.due(50) - ended == pytest.approx(0.0015), "5 000 records a second"
    assert pace.due(6000) - ended == pytest.approx(0.05), "600 000 records a second"


@given(st.lists(st.floats(0.0001, 2.0), min_size=1), st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_it_is_always_due_some_time(costs: list[float], shortest: float, records: int) -> None:
    pace, now = CommitPace(shortest, now=0.0), 0.0
    for cost in costs:
        due = pace.due(records)
        assert now <= due <= now + shortest + 0.0501
        pace.committed(due, due + cost, small=True)
        now = due + cost


@pytest.mark.parametrize(
    ("records", "exactly_once", "seconds"),
    [
        (0, True, 0.0015),  # until the next commit is due: a transaction begun before it would be refused
        (0, False, 0.0),
        (1, True, 0.0015),
        (1, False, 0.0015),
        (6000, True, 0.005),  # no longer than records may gather
    ],
)
def test_records_gather_until_the_next_commit_is_due(records: int, exactly_once: bool, seconds: float) -> None:
    pace, _, ended = _settled(0.003)
    assert pace.gathering(records, exactly_once, ended) == pytest.approx(seconds)
    assert pace.gathering(records, exactly_once, ended + 1) <= 0


@pytest.mark.parametrize(("since", "seconds"), [(0.0, 0.0015), (0.0012, 0.001), (1.0, 0.001)])
def test_a_poll_waits_until_the_next_commit_is_due(since: float, seconds: float) -> None:
    pace, _, ended = _settled(0.003)
    assert pace.until_due(1, ended + since) == pytest.approx(seconds)


def test_a_poll_never_waits_long() -> None:
    pace, _, ended = _settled(0.003, shortest=5.0)
    assert pace.until_due(1, ended) == IDLE_SECONDS
