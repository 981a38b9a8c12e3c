"""A registry that refuses: when it is asked again, and when it is believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k2k_assets.registry.registry_patience import PAUSES, RegistryPatience
from k2k_assets.registry.schemas import RegistryRefused, RegistryUnreachable, SchemaNotFound
from k2k_assets_tests.support.memory.clock import FakeClock


class Door:
    """A registry that refuses for a while, asked each half second."""

    def __init__(self, opens_at: float = float("inf"), may_pass: bool = True) -> None:
        self.clock, self.asked = FakeClock(0.0), list[float]()
        self._opens_at, self._may_pass = opens_at, may_pass
        self.patience = RegistryPatience(self.clock.monotonic)

    def ask(self) -> str:
        self.asked.append(self.clock.now)
        if self.clock.now < self._opens_at:
            raise RegistryRefused("the target's schema registry", "refuses the login (401)", self._may_pass)
        return "schema"

    def until(self, call: Callable[[], str]) -> str:
        """Tries again and again, as the sessions of a slot do."""
        while True:
            try:
                return self.patience.ask(call)
            except RegistryUnreachable:
                self.clock.advance(0.5)


def test_it_is_asked_a_few_times_and_then_believed() -> None:
    door = Door()
    with pytest.raises(RegistryRefused):
        door.until(door.ask)
    assert door.asked == [0, 2, 6, 14, 30]
    assert door.asked[-1] == sum(PAUSES)
    with pytest.raises(RegistryRefused):
        door.patience.ask(door.ask)
    assert len(door.asked) == 6, "the next topic is not tried all over again"


def test_a_refusal_that_passes_is_none() -> None:
    door = Door(opens_at=5)
    assert door.until(door.ask) == "schema"
    assert door.asked == [0, 2, 6]
    assert door.patience.ask(door.ask) == "schema"
    door._opens_at = 1000
    with pytest.raises(RegistryUnreachable, match=r"\(401\).*asked again in 2 s, and after 4 more refusals the topic"):
        door.patience.ask(door.ask)


def test_an_answer_that_there_is_no_such_schema_ends_a_row_of_refusals() -> None:
    door = Door(opens_at=5)
    door.until(door.ask)

    def unknown() -> str:
        raise SchemaNotFound("no schema 1")

    door._opens_at = 1000
    with pytest.raises(RegistryUnreachable, match="after 4 more refusals"):
        door.patience.ask(door.ask)
    door.clock.advance(2)
    with pytest.raises(SchemaNotFound):
        door.patience.ask(unknown)
    with pytest.raises(RegistryUnreachable, match="after 4 more refusals"):
        door.patience.ask(door.ask)


def test_what_was_refused_long_ago_counts_no_more() -> None:
    door = Door()
    with pytest.raises(RegistryRefused):
        door.until(door.ask)
    door.clock.advance(3600)
    with pytest.raises(RegistryUnreachable):
        door.patience.ask(door.ask)


def test_what_does_not_pass_by_itself_is_believed_at_once() -> None:
    door = Door(may_pass=False)
    with pytest.raises(RegistryRefused):
        door.patience.ask(door.ask)
    assert door.asked == [0]


def test_one_that_does_not_answer_is_not_asked_by_all_that_need_it() -> None:
    """Each attempt costs seconds, in which a slot's transaction is open."""
    clock, asked = FakeClock(0.0), list[float]()
    patience = RegistryPatience(clock.monotonic)

    def ask() -> str:
        asked.append(clock.now)
        clock.advance(8.0)
        raise RegistryUnreachable("the registry does not answer")

    for _ in range(5):
        with pytest.raises(RegistryUnreachable, match="the registry does not answer"):
            patience.ask(ask)
    assert asked == [0]
    clock.advance(2.0)
    assert patience.ask(lambda: "schema") == "schema"
