"""Lag in offsets and seconds."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.lag import PartitionLag, TotalLag, lags, total_lag

A, B, C, D, E = (TopicPartition("t", p) for p in range(5))
NOW = 100_000


def test_seconds_are_the_age_of_the_oldest_record_that_is_not_copied() -> None:
    found = lags({A: 3, B: 10, C: 5}, {A: 10, B: 10, C: 8}, {A: NOW - 2500, C: NOW + 60_000}, NOW)
    assert found[A] == PartitionLag(3, 10, 2.5)
    assert found[A].offsets == 7
    assert found[B] == PartitionLag(10, 10, 0.0)
    assert found[C].seconds == 0.0, "a producer's clock is ahead"


def test_what_cannot_be_told_is_unknown_and_what_has_no_record_left_is_not_behind() -> None:
    found = lags({A: 3, B: 3, C: None, D: 3, E: 12}, {A: 10, B: 10, C: 10, E: 10}, {B: None}, NOW)
    assert found[A].seconds is None, "not read in time"
    assert found[B] == PartitionLag(3, 10, 0.0), "markers alone are left"
    assert (found[C].offsets, found[C].seconds) == (None, None), "nobody knows where it begins"
    assert (found[D].offsets, found[D].seconds) == (None, None), "the source does not say where it ends"
    assert (found[E].offsets, found[E].seconds) == (0, 0.0), "copied beyond the end that was asked for before"


def test_a_total_tells_the_farthest_and_how_many_cannot_tell() -> None:
    assert total_lag([]) == TotalLag(0, None, 0)
    parts = [PartitionLag(3, 10, 2.5), PartitionLag(0, 5, 40.0), PartitionLag(None, 5, None)]
    assert total_lag(parts) == TotalLag(12, 40.0, 1)


def test_a_record_waits_no_longer_than_since_a_look_at_which_it_was_not_there() -> None:
    yesterday = NOW - 86_400_000
    found = lags({A: 3, B: 3}, {A: 10, B: 10}, {A: yesterday, B: NOW - 500}, NOW, {A: 1.5, B: 1.5})
    assert found[A].seconds == 1.5, "its producer gave it an old time"
    assert found[B].seconds == 0.5
