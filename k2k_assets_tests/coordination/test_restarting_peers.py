"""Which instances are about to claim partitions, and which ones they will claim again."""

from __future__ import annotations

import pytest

from k2k_assets.control.assignment_records import (
    Claim,
    InstanceRecord,
    instance_key,
    instance_value,
    stop_key,
    stop_value,
)
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination.restarting_peers import RestartingPeers

GROUP = "k2k.g"


class World:
    """An assignment topic of instances with two slots, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.state = Assignments()
        self.restarting = RestartingPeers(self.state, lambda: self.now)

    def announced(self, name: str, generation: int) -> None:
        instance = InstanceRecord(name, "p", 2, "c", "host", 1, 1, True)
        self._apply(generation, instance_key(GROUP, name), instance_value(instance))

    def told_to_end(self, generation: int, again: bool) -> None:
        self._apply(0, stop_key(GROUP, generation), stop_value(1, again))

    def claimed(self, generation: int, slot: int) -> None:
        claim = Claim("s", slot, f"id-{slot}", f"{generation}-{slot}", generation, slot, "t")
        self._apply(0, claim.key_bytes(GROUP), claim.value_bytes(1))

    def _apply(self, offset: int, key: bytes, value: bytes) -> None:
        self.state.apply(GROUP, offset, key, value)
        self.restarting.note()


@pytest.fixture
def world() -> World:
    return World()


def test_an_instance_is_about_to_claim_until_all_its_slots_have(world: World) -> None:
    """They claim one by one; who looks in between finds a part of it."""
    assert not world.restarting.will_claim(5)
    world.announced("a", 5)
    assert world.restarting.will_claim(5)
    world.claimed(5, 0)
    assert world.restarting.will_claim(5)
    world.claimed(5, 1)
    assert not world.restarting.will_claim(5)


def test_but_not_for_ever_and_not_when_it_was_told_to_end(world: World) -> None:
    """Partitions are kept for an instance that restarts, unless it is silent for long or was told to end."""
    world.announced("a", 5)
    world.announced("b", 6)
    world.told_to_end(6, again=False)
    assert (world.restarting.will_claim(5), world.restarting.will_claim(6)) == (True, False)
    world.now += 20
    world.restarting.note()
    assert not world.restarting.will_claim(5)


def test_who_goes_on_comes_back_for_what_it_had_until_it_has_claimed(world: World) -> None:
    world.announced("a", 5)
    world.claimed(5, 0)
    world.claimed(5, 1)
    assert not world.restarting.comes_back(5), "it has not been asked to end"
    world.told_to_end(5, again=True)
    assert world.restarting.comes_back(5), "its slots end"
    world.announced("a", 9)
    assert world.restarting.comes_back(5), "it reads the commit log"
    world.claimed(9, 0)
    assert world.restarting.comes_back(5), "its second slot has not begun"
    world.claimed(9, 1)
    assert not world.restarting.comes_back(5), "what it has not claimed it has left to others"


@pytest.mark.parametrize("again", [True, False])
def test_who_leaves_does_not_come_back_nor_who_is_silent_for_long(world: World, again: bool) -> None:
    world.announced("a", 5)
    world.told_to_end(5, again)
    assert world.restarting.comes_back(5) == again
    world.now += 20
    world.restarting.note()
    assert not world.restarting.comes_back(5)


def test_nobody_knows_a_generation_that_was_never_announced(world: World) -> None:
    assert not world.restarting.comes_back(3)
