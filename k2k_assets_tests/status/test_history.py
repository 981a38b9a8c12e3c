"""Recently copied records, from the counters of commit records."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.history import STEP_SECONDS, STEPS, CopyHistory
from k2k_assets_tests.status.records import commit_record

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW = 10_000_000


def ago(seconds: float) -> int:
    return NOW - round(seconds * 1000)


def test_the_difference_between_two_records_was_copied_in_between() -> None:
    history = CopyHistory()
    history.apply(commit_record(T0, sequence=1, records=1000, time=ago(50)))
    assert history.rate("t", NOW) == 0, "of the first record nobody knows when its records were copied"
    history.apply(commit_record(T0, sequence=2, records=1090, time=ago(40)))
    history.apply(commit_record(T1, sequence=1, records=5, time=ago(40)))
    history.apply(commit_record(T1, sequence=3, records=35, time=ago(10)))
    history.apply(commit_record(U0, sequence=1, records=0, time=ago(10)))
    assert history.rate("t", NOW) == 120 / 60
    assert history.steps("t", NOW)[-2:] == [90, 30]
    assert history.steps("u", NOW) == [0] * STEPS


def test_counters_begin_anew_with_each_generation() -> None:
    history = CopyHistory()
    history.apply(commit_record(T0, generation=1, sequence=9, records=1000, time=ago(40)))
    history.apply(commit_record(T0, generation=7, sequence=1, records=30, time=ago(20)))
    history.apply(commit_record(T0, generation=1, sequence=10, records=2000, time=ago(10)))
    assert history.rate("t", NOW) == 30 / 60
    assert history.newest[T0].generation == 7


def test_what_is_older_than_the_steps_is_forgotten() -> None:
    history = CopyHistory()
    history.apply(commit_record(T0, sequence=1, time=ago(2000)))
    history.apply(commit_record(T0, sequence=2, records=10, time=ago(STEPS * STEP_SECONDS + 1)))
    history.apply(commit_record(T0, sequence=3, records=13, time=ago(STEPS * STEP_SECONDS - 1)))
    assert history.steps("t", NOW) == [3, *[0] * (STEPS - 1)]


def test_a_clock_that_is_ahead_counts_as_now() -> None:
    history = CopyHistory()
    history.apply(commit_record(T0, sequence=1, time=ago(10)))
    history.apply(commit_record(T0, sequence=2, records=4, time=ago(-100)))
    assert history.steps("t", NOW)[-1] == 4
