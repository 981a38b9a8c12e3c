"""When the sensor requests a run that updates the offset mappings."""

from __future__ import annotations

import pytest

from k2k_assets.coordination.liveness import LastSign
from k2k_assets.orchestration.sensors.mappings_decision import (
    MappingsFacts,
    Positions,
    decide_mappings,
    lacks_partitions,
    silent_runs,
)
from k2k_assets.orchestration.sensors.next_run_decision import FIRST_BACK_OFF

BEHIND = MappingsFacts(now=1000.0, behind=True, interval=600.0, last_run="m1", last_ended=400.0)


def test_an_index_that_is_behind_is_brought_up_to_date_each_interval() -> None:
    assert decide_mappings(BEHIND) == "mappings-after-m1"
    assert decide_mappings(BEHIND.model_copy(update={"now": 999.0})) is None
    assert decide_mappings(BEHIND.model_copy(update={"last_run": None, "last_ended": None})) == "mappings-after-none"


def test_one_at_a_time_and_only_where_there_is_something_new() -> None:
    assert decide_mappings(BEHIND.model_copy(update={"running": "m2"})) is None
    assert decide_mappings(BEHIND.model_copy(update={"behind": False})) is None


def test_an_index_that_lacks_partitions_learns_of_them_soon() -> None:
    """Unless the last run has failed: the next one would fail likewise."""
    lacks = BEHIND.model_copy(update={"lacks": True, "last_good": True, "now": 460.0})
    assert decide_mappings(lacks) == "mappings-after-m1"
    assert decide_mappings(lacks.model_copy(update={"now": 459.0})) is None
    assert decide_mappings(lacks.model_copy(update={"last_good": False})) is None
    assert decide_mappings(lacks.model_copy(update={"interval": 10.0, "now": 410.0})) == "mappings-after-m1"


@pytest.mark.parametrize(("failures", "pause"), [(1, FIRST_BACK_OFF), (2, 2 * FIRST_BACK_OFF), (9, 600.0)])
def test_a_run_that_failed_is_asked_for_again_soon_then_later_each_time(failures: int, pause: float) -> None:
    """The groups wait for its verdict: a broker that was away for a moment must not cost them a whole interval."""
    failed = BEHIND.model_copy(update={"failures": failures, "now": 400.0 + pause})
    assert decide_mappings(failed) == "mappings-after-m1"
    assert decide_mappings(failed.model_copy(update={"now": 399.0 + pause})) is None
    assert decide_mappings(failed.model_copy(update={"now": 401.0, "interval": 1.0})) == "mappings-after-m1"


@pytest.mark.parametrize(
    ("mappings", "positions", "lacks"),
    [
        ({"a": [5, None], "b": [0]}, {"a": [9, None], "b": [0]}, False),
        ({"a": [5, None], "b": [0]}, {"a": [9, 0], "b": [0]}, True),
        ({"a": [5]}, {"a": [5], "new": [0]}, True),
        ({"a": [None]}, {"a": [5]}, False),
    ],
    ids=["all are known", "a new partition", "a new topic", "it cannot be read, or there is none"],
)
def test_what_an_index_lacks(mappings: dict[str, Positions], positions: dict[str, Positions], lacks: bool) -> None:
    assert lacks_partitions(mappings, positions) is lacks


def test_mappings_without_a_good_verdict_are_checked_again_each_interval() -> None:
    unproven = BEHIND.model_copy(update={"behind": False, "unproven": True})
    assert decide_mappings(unproven) == "mappings-after-m1"
    assert decide_mappings(unproven.model_copy(update={"now": 999.0})) is None


def test_a_run_is_dead_when_it_was_silent_for_long() -> None:
    heard = {"silent": LastSign(1, 810.0), "beating": LastSign(2, 990.0)}
    assert silent_runs(heard, 995.0, 180.0) == {"silent"}
    assert silent_runs(heard, 985.0, 180.0) == set(), "it was heard until the observation"
