"""How long a transaction may still be being ended: learned, so that records are not refused for coming too early."""

from __future__ import annotations

import pytest

from k2k_assets.transport.record_batch.writing.ending_time import EndingTime

LEAST = 0.05


def test_before_the_first_commit_nothing_is_being_ended() -> None:
    assert not EndingTime(LEAST).may_go_on(0.0)


def test_at_first_it_is_not_known_and_patience_is_long() -> None:
    ending = EndingTime(LEAST)
    ending.began(100.0)
    assert ending.may_go_on(100.9)
    assert not ending.may_go_on(101.1)


@pytest.mark.parametrize(("joined_after", "known"), [(0.002, LEAST), (0.3, 0.3)])
def test_a_partition_that_joins_without_waiting_shows_that_it_takes_no_longer(
    joined_after: float, known: float
) -> None:
    ending = EndingTime(LEAST)
    ending.began(100.0)
    ending.is_over(100.0 + joined_after, had_to_wait=False)
    ending.began(200.0)
    assert ending.may_go_on(200.0 + known * 0.9)
    assert not ending.may_go_on(200.0 + known * 1.1)


def test_a_partition_that_had_to_wait_shows_that_it_takes_long() -> None:
    ending = EndingTime(LEAST)
    ending.began(100.0)
    ending.is_over(100.001, had_to_wait=False)
    ending.began(200.0)
    ending.is_over(200.4, had_to_wait=True)
    ending.began(300.0)
    assert ending.may_go_on(300.5)
    assert not ending.may_go_on(300.9)


@pytest.mark.parametrize(("least", "goes_on"), [(0.0, False), (3600.0, True)])
def test_never_and_always(least: float, goes_on: bool) -> None:
    ending = EndingTime(least)
    ending.began(100.0)
    assert ending.may_go_on(100.0) == goes_on
    ending.is_over(100.0, had_to_wait=False)
    assert ending.may_go_on(100.0) == goes_on


def test_records_that_are_refused_show_that_it_takes_longer() -> None:
    ending = EndingTime(LEAST)
    ending.is_not_over(5.0)
    assert not ending.may_go_on(5.0), "nothing of ours was being ended"
    for seconds in (0.001, 3.0):
        ending.began(10.0)
        ending.is_over(10.0 + seconds, had_to_wait=False)
    ending.began(20.0)
    assert not ending.may_go_on(20.4)
    ending.is_not_over(20.4)
    ending.began(30.0)
    assert ending.may_go_on(30.7)
    ending.is_over(30.1, had_to_wait=False)
    ending.began(40.0)
    assert not ending.may_go_on(40.2)
