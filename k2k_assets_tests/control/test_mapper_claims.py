"""Mappers in the assignment topic."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapper_claims import ClaimedMappers, MapperClaim, MapperHeartbeat


def claim(mapper: str, pipeline: str = "p") -> MapperClaim:
    return MapperClaim(pipeline, "g", mapper, "host", 1, 1)


def apply(mappers: ClaimedMappers, offset: int, of: MapperClaim, written: bool = True) -> None:
    mappers.apply(offset, of.key_bytes(), of.value_bytes() if written else None, "claims-0")


def test_a_claim_lives_until_it_is_removed_or_written_again() -> None:
    mappers = ClaimedMappers("p")
    apply(mappers, 1, claim("a"))
    apply(mappers, 2, claim("b"))
    apply(mappers, 3, claim("c", "another"))
    assert mappers.claims == {1: claim("a"), 2: claim("b")}
    apply(mappers, 4, claim("a"))
    apply(mappers, 5, claim("b"), written=False)
    assert mappers.claims == {4: claim("a")}


def test_a_heartbeat_is_no_claim_and_the_last_one_counts() -> None:
    """By the offset of a claim the later mapper is right: a heartbeat must not make an older one the later."""
    mappers = ClaimedMappers("p")
    beat = MapperHeartbeat("p", "g", "a", "host", 1, 1, "run")
    apply(mappers, 1, claim("a"))
    apply(mappers, 2, claim("b"))
    for offset in (3, 5, 4):
        mappers.apply(offset, beat.key_bytes(), beat.value_bytes(), "claims-0")
    assert mappers.claims == {1: claim("a"), 2: claim("b")}
    assert mappers.heartbeats == {5: beat}
    mappers.apply(6, beat.key_bytes(), None, "claims-0")
    assert mappers.heartbeats == {}


def test_who_shows_a_heartbeat_is_told() -> None:
    assert str(MapperHeartbeat("p", "g", "a", "host", 7, 1, "r1")) == "Dagster run r1 on host, process 7"
    assert str(MapperHeartbeat("p", "g", "a", "host", 7, 1)) == "k2k-offset-mapping on host, process 7"


RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=10)


@given(RECORDS, st.randoms(use_true_random=False))
def test_the_order_in_which_records_are_read_makes_no_difference(
    records: list[tuple[str, bool]], chance: random.Random
) -> None:
    def read(numbered: list[tuple[int, tuple[str, bool]]]) -> dict[int, MapperClaim]:
        mappers = ClaimedMappers("p")
        for offset, (mapper, written) in numbered:
            apply(mappers, offset, claim(mapper), written)
        return mappers.claims

    numbered = list(enumerate(records))
    expected = read(numbered)
    again = numbered[: chance.randint(0, len(numbered))]
    assert read(chance.sample([*numbered, *again], k=len(numbered) + len(again))) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"not json", b""), (b'{"kind":"mapper","pipeline":"p"}', b"{}"), (claim("a").key_bytes(), b'{"version":99}')],
)
def test_what_cannot_be_read_is_told(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        ClaimedMappers("p").apply(1, key, value, "claims-0")
