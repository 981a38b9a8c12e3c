"""Headers that are added behind those of the records, column by column."""

from __future__ import annotations

from copy import deepcopy
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.added_headers import AddedHeader, HeaderContent
from k2k_assets.transport.headers import Headers, with_added

SOURCE = TopicPartition("bestellungen-鍵", 12)
names = st.text(max_size=3)
own_headers = st.none() | st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=3)
added_headers = st.lists(
    st.builds(AddedHeader, names, st.sampled_from(get_args(HeaderContent)), st.text(max_size=3)), min_size=1, max_size=4
).map(tuple)


@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), own_headers), min_size=1, max_size=6), added_headers, st.booleans()
)
def test_each_record_gets_its_own_headers_and_then_the_added_ones(
    records: list[tuple[int, Headers | None]], added: tuple[AddedHeader, ...], are_kept: bool
) -> None:
    offsets, own = [offset for offset, _ in records], [headers for _, headers in records]
    before = deepcopy(own)
    made = with_added(own if are_kept else None, added, SOURCE, offsets)
    assert made == [
        [*((headers or []) if are_kept else []), *((header.name, header.value(*SOURCE, offset)) for header in added)]
        for offset, headers in records
    ]
    assert own == before, "they are asked for again where the queue was full"


def test_what_is_the_same_for_all_is_made_once() -> None:
    made = with_added(None, (AddedHeader("a", "topic"), AddedHeader("b", "partition")), SOURCE, range(1000))
    assert len({id(headers) for headers in made}) == 1
    assert made[0] == [("a", "bestellungen-鍵".encode()), ("b", b"12")]
