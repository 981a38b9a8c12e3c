"""A transaction is never larger than the target can accept in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot.byte_budget import ByteBudget

TIMEOUT = 15.0
LEAST = 64_000


def attempt(budget: ByteBudget, rate: float, value: int = 1000, beside: int = 0) -> bool:
    """Fills a transaction with what there is room for, and sends it; whether it was committed in time.

    Args:
        budget: Says how much.
        rate: Bytes per second that the target takes.
        value: Bytes of a record's value.
        beside: Of its key and headers.
    """
    while not budget.spent and budget.records < 50_000:
        records = min(1000, budget.room())
        budget.take(records, records * value, now=0.0)
    seconds = (budget.in_hand + budget.records * beside) / rate
    if seconds > TIMEOUT:
        budget.given_up(now=TIMEOUT)
        return False
    budget.committed(seconds / TIMEOUT)
    return True


@given(st.floats(5e5, 1e9), st.integers(0, LEAST // 2), st.integers(0, LEAST // 2))
def test_at_any_rate_one_is_committed_soon_and_none_times_out_after_that(rate: float, value: int, beside: int) -> None:
    """Also where keys and headers, whose bytes nobody counts, weigh more than the values."""
    budget = ByteBudget()
    failures = [not attempt(budget, rate, value, beside) for _ in range(40)]
    assert failures == sorted(failures, reverse=True)
    assert sum(failures) <= 9


@given(st.floats(1e5, 1e7))
def test_a_target_that_became_slow_is_sent_less_and_one_that_recovered_more(rate: float) -> None:
    budget = ByteBudget()
    fast = 1e9
    assert all(attempt(budget, fast) for _ in range(20))
    assert budget.most > 100_000_000
    slow = [attempt(budget, rate) for _ in range(30)]
    assert slow.count(False) <= 7
    assert all(slow[7:])
    assert all(attempt(budget, fast) for _ in range(20))
    assert budget.most > 100_000_000


def test_small_transactions_say_nothing_about_large_ones() -> None:
    budget = ByteBudget()
    first = budget.most
    for _ in range(20):
        budget.take(10, 1000, now=0.0)
        budget.committed(0.001)
    assert budget.most == first


def test_a_moment_of_slowness_with_little_in_hand_does_not_make_transactions_tiny() -> None:
    budget = ByteBudget()
    first = budget.most
    budget.committed(0.9)
    assert budget.most == first // 4
    assert budget.room() > 1000


def test_large_records_are_forgotten_when_none_come_any_more() -> None:
    budget = ByteBudget()
    budget.take(1, 5_000_000, now=0.0)
    budget.committed(0.2)
    assert budget.room() == 1
    for _ in range(100):
        budget.take(10, 1000, now=0.0)
        budget.committed(0.001)
    assert budget.room() > 10_000


def test_there_is_room_for_one_record_always_and_by_the_largest_mean_for_more() -> None:
    budget = ByteBudget()
    budget.take(1, 1_000_000, now=0.0)
    assert budget.room() == 7
    budget.take(1000, 1000, now=0.0)  # small ones of another topic: the next may be large again
    assert budget.room() == 6
    budget.take(1, 50_000_000, now=0.0)
    assert budget.spent
    assert budget.room() == 1


def test_a_session_that_ends_with_nothing_in_hand_says_nothing() -> None:
    budget = ByteBudget()
    first = budget.most
    budget.given_up(now=TIMEOUT)
    assert budget.most == first


def test_what_fails_at_once_does_not_make_transactions_tiny() -> None:
    budget = ByteBudget()
    budget.take(5, 10, now=7.0)
    room = budget.room() + 5
    budget.given_up(now=7.5)
    assert (budget.in_hand, budget.records) == (0, 0)
    assert budget.room() == room
