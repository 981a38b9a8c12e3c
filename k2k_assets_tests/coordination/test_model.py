"""Every interleaving of two and three claimants that crash, freeze and resume: no position is committed twice.

Two claimants crash up to three times each, or three once each; at the start they know each other or not.

And none without end: claimants that nobody kills fence each other a limited number of times. Each rule is switched off
once, and then a position is committed twice, or the fencing has no end (`own_number`: it matters to nobody's position
under which id it was committed, so that rule is for liveness alone).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from k2k_assets_tests.coordination.claim_model import Model, Rules, explore, goes_on_for_ever
from k2k_assets_tests.support.suite.storms import in_storms


@pytest.mark.parametrize(
    ("slots", "lives", "announced", "at_least"),
    [
        ([0, 0], [1, 1], False, 1_500),  # the same slot: the one that begins fences the other at once
        ([0, 1], [1, 1], False, 5_000),  # another slot: it waits for the former owner, and fences it
        ([0, 1, 0], [0, 0, 0], True, 3_000),
        ([0, 1, 2], [0, 0, 0], True, 1_500),  # one of them has more slots than the others
        *in_storms(
            ([0, 0], [3, 3], False, 9_000),
            ([0, 1], [3, 3], False, 35_000),
            # Where damage is sought below, of each rule that needs a third claimant.
            ([0, 1, 0], [1, 1, 1], True, 200_000),
            ([0, 0, 1], [1, 1, 1], True, 100_000),
            ([0, 0, 0], [1, 1, 1], False, 80_000),
            ([0, 1, 0], [1, 1, 1], False, 700_000),  # some four minutes
            ([0, 1, 2], [0, 0, 0], False, 20_000),
            ([0, 1, 2], [1, 1, 1], True, 150_000),
        ),
    ],
)
def test_no_position_is_committed_that_does_not_follow_the_last_one(
    slots: list[int], lives: list[int], announced: bool, at_least: int
) -> None:
    worlds, wrong = explore(slots, lives, Rules(), announced)
    assert wrong is None
    assert worlds >= at_least, "most of what can happen was not gone through"


@pytest.mark.parametrize(
    ("rule", "slots", "lives", "announced"),
    [
        ("read_after_claim", [0, 1], 0, False),
        ("yield_to_higher_claim", [0, 1], 0, False),
        ("fence_before_mark", [0, 1], 0, False),
        ("position_after_fencing", [0, 1], 0, False),
        ("release_after_commit", [0, 1], 0, False),
        ("yield_to_newer_position", [0, 1], 1, False),
        ("unique_claim_ids", [0, 1, 0], 1, False),  # a late mark is read as one about a newer claim of the same id
        ("own_keys", [0, 1, 0], 1, False),  # the newer claim is compacted away, because the late mark has its key
        *in_storms(("unique_claim_ids", [0, 1, 0], 1, True), ("own_keys", [0, 1, 0], 1, True)),
    ],
)
def test_without_one_of_the_rules_one_is(rule: str, slots: list[int], lives: int, announced: bool) -> None:
    """Each claimant has as many lives."""
    _, wrong = explore(slots, [lives] * len(slots), replace(Rules(), **{rule: False}), announced)
    assert wrong is not None


@pytest.mark.parametrize("partitions", [[0, 1], [0, 0]])
def test_nobody_is_fenced_without_end(partitions: list[int]) -> None:
    """Two instances that use the same slot, for one partition each, or for the same one."""
    assert goes_on_for_ever([0, 0], partitions, Rules()) == []


def test_without_numbers_of_their_own_instances_fence_each_other_for_ever() -> None:
    """They copy different partitions: no claim of the one makes the other yield."""
    circle = goes_on_for_ever([0, 0], [0, 1], Rules(own_number=False))
    refused = {c.partition for world in circle for c in world.claimants if c.at == "refused"}
    assert refused == {0, 1}, "each of them is fenced on each round"


@pytest.mark.storm
@pytest.mark.parametrize("slots", [[0, 0], [0, 1]])
def test_without_numbers_of_their_own_no_position_is_committed_wrongly(slots: list[int]) -> None:
    """That rule is for liveness alone."""
    assert explore(slots, [1, 1], Rules(own_number=False))[1] is None


@pytest.mark.parametrize("seed", range(30))
def test_worlds_that_are_taken_for_one_have_the_same_steps(seed: int) -> None:
    """The exploration looks at one of them only; but what stays where it is may be a step of the one alone."""
    any_of = random.Random(seed)
    model = Model(Rules())
    world = model.first([0, 1, 0], [3, 3, 3], [0, 0, 0])
    for _ in range(60):
        small = world.canonical()
        steps = list(model.steps(world))
        assert {step.canonical() for step in steps} | {small} == {step.canonical() for step in model.steps(small)} | {
            small
        }
        world = any_of.choice([*steps, world])
