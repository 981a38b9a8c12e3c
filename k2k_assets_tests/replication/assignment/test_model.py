"""Every interleaving of two and three claimants that crash, freeze and come back: no position is committed twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2k_assets_tests.replication.assignment.claim_model import Rules, explore


@pytest.mark.parametrize(
    ("slots", "lives"),
    [
        ([0, 0], 1),  # the same slot: who begins fences the other at once
        ([0, 1], 1),  # another slot: the former owner is waited for, and fenced
        ([0, 1, 0], 0),
    ],
)
def test_no_position_is_committed_that_does_not_follow_the_last_one(slots: list[int], lives: int) -> None:
    worlds, wrong = explore(slots, lives, Rules())
    assert wrong is None
    assert worlds > 500


@pytest.mark.parametrize(
    ("rule", "slots", "lives"),
    [
        ("read_after_claim", [0, 1], 0),
        ("fence_before_mark", [0, 1], 0),
        ("position_after_fencing", [0, 1], 0),
        ("release_after_commit", [0, 1], 0),
        ("yield_to_newer_position", [0, 1], 1),
        pytest.param("unique_claim_ids", [0, 1, 0], 1, marks=pytest.mark.storm),
    ],
)
def test_without_one_of_the_rules_one_is(rule: str, slots: list[int], lives: int) -> None:
    _, wrong = explore(slots, lives, replace(Rules(), **{rule: False}))
    assert wrong is not None
