"""Which claimant yields to which, and under which transactional id: pure decisions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.coordination.fencing_rules import (
    free_id,
    ids_above,
    is_higher,
    of_a_later_attempt,
    rivals,
    transactional_id,
)

OWN = Claim("s", 0, "k2k.p.g.1.0", "own", 9, 0, "orders", 20)
OTHER = replace(OWN, claim="other", transactional_id="k2k.p.g.1.1")


def name(number: int) -> str:
    return transactional_id("p", "g", number)


def own_id(slot: int, slots: int, held: list[Claim], above: dict[int, InstanceRecord]) -> str:
    """That of a slot of generation 9."""
    return free_id("p", "g", slot, slots, ids_above("g", 9, held, above))


def instance(pipeline: str = "p", slots: int = 2) -> InstanceRecord:
    return InstanceRecord(f"{pipeline}-{slots}", pipeline, slots, "c", "host", 1, 0)


def test_a_higher_generation_wins_and_of_one_generation_the_later_claim() -> None:
    older = replace(OTHER, generation=8, offset=30)
    earlier = replace(OTHER, offset=19)
    newer = replace(OTHER, generation=10, offset=1)
    later = replace(OTHER, offset=21)
    elsewhere = replace(OTHER, generation=99, partition=1)
    assert rivals(OWN, [older, OWN, elsewhere, newer, earlier, later]) == ([newer, later], [older, earlier])


claims = st.builds(
    lambda generation, offset: replace(OWN, generation=generation, offset=offset, claim=str(offset)),
    st.integers(0, 5),
    st.integers(0, 50),
)


@given(claims, claims)
def test_of_two_claims_exactly_one_is_higher(a: Claim, b: Claim) -> None:
    if a.offset != b.offset:
        assert is_higher(a, b) != is_higher(b, a)


def test_a_slot_uses_its_own_number_unless_a_higher_generation_does() -> None:
    lower = replace(OTHER, generation=8, transactional_id=name(0))
    higher = replace(OTHER, generation=10, transactional_id=name(0))
    assert own_id(0, 2, [lower], {8: instance(slots=7), 9: instance()}) == name(0)
    assert own_id(0, 2, [higher], {}) == name(2)
    assert own_id(1, 2, [higher], {}) == name(1)
    assert own_id(0, 2, [], {10: instance(slots=1)}) == name(2)
    assert own_id(0, 2, [], {10: instance(slots=3)}) == name(4)
    assert own_id(0, 2, [], {10: instance("another", slots=3)}) == name(0)


@given(st.integers(1, 5), st.integers(1, 9), st.sets(st.integers(0, 30)))
def test_the_ids_of_one_instance_never_meet(slots: int, above: int, used: set[int]) -> None:
    held = [replace(OTHER, generation=10, claim=str(n), transactional_id=name(n)) for n in used]
    ids = {own_id(slot, slots, held, {10: instance(slots=above)}) for slot in range(slots)}
    assert len(ids) == slots
    assert not ids & set(map(name, used | set(range(above))))


def test_an_attempt_that_was_begun_again_gives_way_once_the_later_one_has_claimed() -> None:
    own = {"own"}
    later = replace(OTHER, offset=21)
    assert of_a_later_attempt(9, 0, own, 20, [OWN, later])
    assert not of_a_later_attempt(9, 0, own, 20, [OWN])
    assert not of_a_later_attempt(9, 0, own, 20, [OWN, replace(later, offset=19)])
    assert not of_a_later_attempt(9, 0, own, 20, [OWN, replace(later, slot=1)])
    assert not of_a_later_attempt(9, 0, own, 20, [OWN, replace(later, generation=10)])
    assert not of_a_later_attempt(9, 0, set(), -1, [OWN, later]), "it has to take over from the first attempt"


def test_the_transactional_id_names_pipeline_group_and_slot_only() -> None:
    assert transactional_id("p", "k2k.g", 3) == "k2k.p.k2k.g.1.3"


_NAMES = st.text("ab.1", min_size=1, max_size=5)


@given(*[st.tuples(_NAMES, _NAMES, st.integers(0, 12))] * 2)
def test_ids_of_two_pipelines_never_meet(one: tuple[str, str, int], two: tuple[str, str, int]) -> None:
    """Two slots have the same id only if they are the same, however dots lie in the names."""
    assert (transactional_id(*one) == transactional_id(*two)) == (one == two)
    assert transactional_id("a", "b.c", 0) != transactional_id("a.b", "c", 0)
