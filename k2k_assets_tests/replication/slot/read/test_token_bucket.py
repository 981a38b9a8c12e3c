"""A limit in bytes a second holds on the mean, whatever the size of records, and delays nobody who stays below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot.read.token_bucket import TokenBucket
from k2k_assets_tests.support.memory.clock import FakeClock


def test_it_begins_empty_and_is_used_again_with_a_tenth_of_a_second() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1000, clock)
    assert bucket.wait() == pytest.approx(0.1)
    clock.advance(0.1)
    assert bucket.wait() == pytest.approx(0.0)
    assert bucket.room() == 1


def test_what_was_not_used_for_a_second_may_go_at_once_and_no_more() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1_000_000, clock)
    bucket.take(1000, 100_000)  # records of 100 bytes
    clock.advance(3600)
    assert bucket.wait() == 0
    assert 1_000_000 / 1024 < bucket.room() <= 10_000


def test_a_record_that_is_larger_than_the_bucket_is_paid_for_by_waiting() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1000, clock)
    clock.advance(1)
    bucket.take(1, 100_000)
    assert bucket.wait() == pytest.approx(99.1)
    assert bucket.room() == 1


def test_a_debt_is_paid_at_a_higher_rate() -> None:
    """One large record of one partition of a hundred: when the slot gets the others, they do not wait for minutes."""
    clock = FakeClock()
    bucket = TokenBucket(1000, clock)
    bucket.take(1, 1_000_000)
    bucket.set_rate(100_000)
    assert bucket.wait() == pytest.approx(10.1)


def test_a_debt_stays_as_long_at_a_lower_rate() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1000, clock)
    bucket.take(1, 5000)
    before = bucket.wait()
    bucket.set_rate(250)
    assert bucket.wait() == pytest.approx(before)


@given(
    st.integers(1, 10_000_000),
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1_000_000), st.floats(0, 5)), min_size=1, max_size=50),
)
def test_no_more_than_the_rate_and_one_burst_goes_through(rate: int, polls: list[tuple[int, int, float]]) -> None:
    clock = FakeClock(0.0)
    bucket = TokenBucket(rate, clock)
    taken = 0
    for records, size, idle in polls:
        clock.advance(idle)
        clock.advance(bucket.wait())
        assert bucket.wait() <= 1e-6
        # A chunk may be larger than what there is, so it is covered only before the next one.
        assert taken <= rate * clock.now + 1e-3
        bucket.take(records, size)
        taken += size
