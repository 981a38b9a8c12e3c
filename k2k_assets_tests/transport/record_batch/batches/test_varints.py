"""Signed numbers: what is packed comes back, and is as Kafka has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.varints import first_varints, length, number, varint, varints
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets_tests.support.brokers import batches
from k2k_assets_tests.support.suite.properties import examples

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9000, 9000)


@given(values=st.lists(NUMBERS, min_size=1, max_size=5))
@examples(200)
def test_numbers_are_packed_as_kafka_does(values: list[int]) -> None:
    found = varints(values)
    assert found == [batches.varint(value) for value in values] == [varint(value) for value in values]
    assert [number(each + b"rest", 0) for each in found] == [
        (v, len(each)) for v, each in zip(values, found, strict=True)
    ]


@pytest.mark.parametrize("count", [1, 8192, 8193, 20_000])
def test_the_first_numbers(count: int) -> None:
    wanted = [varint(value) for value in range(count)]
    assert first_varints(count) == wanted
    assert length(count) == varint(count)


def test_a_number_that_does_not_end_is_a_fault() -> None:
    with pytest.raises(Unreadable, match="does not end"):
        number(b"\xff" * 30, 0)
    with pytest.raises(IndexError):
        number(b"\xff" * 3, 0)
