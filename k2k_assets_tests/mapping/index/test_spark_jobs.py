"""A task reads the same records of the mapping topic in each attempt."""

from __future__ import annotations

import itertools
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.index.spark_jobs import up_to
from k2k_assets_tests.support.memory.mapping_topic import FakeMessage
from k2k_assets_tests.support.suite.properties import examples

sizes = st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=20)


def _chunked(messages: list[FakeMessage], cuts: list[int]) -> list[list[FakeMessage]]:
    bounds = sorted({0, len(messages), *(cut % len(messages) for cut in cuts)})
    return [messages[a:b] for a, b in itertools.pairwise(bounds)]


@examples(200)
@given(sizes, st.one_of(st.none(), st.integers(1, 60)), *[st.lists(st.integers(0, 20), max_size=5)] * 2)
def test_where_a_reading_ends_depends_on_the_records_alone(
    of_values: list[int | None], most: int | None, one: list[int], two: list[int]
) -> None:
    """A consumer hands them out in other chunks each time; two attempts of one task must not end apart."""
    values = [None if size is None else b"v" * size for size in of_values]
    messages = [FakeMessage(("mappings", 0, 3 * n), (b"k", value)) for n, value in enumerate(values)]
    attempts = []
    for cuts in (one, two):
        found = list(up_to(iter(cast("list[list[Message]]", _chunked(messages, cuts))), most))
        taken = [message.offset() for chunk, _ in found for message in chunk]
        attempts.append((taken, found[-1][1]))
        assert [is_full for _, is_full in found[:-1]] == [False] * (len(found) - 1)
        assert all(chunk for chunk, _ in found)
    assert attempts[0] == attempts[1]
    taken, is_full = attempts[0]
    size = sum(len(value or b"") for value in values[: len(taken)])
    before = size - len(values[len(taken) - 1] or b"")
    assert is_full == (most is not None and size >= most)
    assert is_full or len(taken) == len(messages)
    assert most is None or before < most
