"""Rows of Arrow tables are numbered by what they hold, in its order."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.mapping.index.grouping import ranks

TEXTS = st.sampled_from(["", "a", "b", "ab", "é", "z", "\U0001f600", "\uffff"])
ROWS = st.lists(st.tuples(TEXTS, st.integers(-3, 2**40), TEXTS))


@given(ROWS, ROWS)
def test_the_numbers_are_in_the_order_of_the_values_without_gaps(
    one: list[tuple[str, int, str]], other: list[tuple[str, int, str]]
) -> None:
    first, second = ranks(("a", "b", "c"), _table(one), _table(other))
    place = {row: number for number, row in enumerate(sorted({*one, *other}))}
    assert first.tolist() == [place[row] for row in one]
    assert second.tolist() == [place[row] for row in other]


def _table(rows: list[tuple[str, int, str]]) -> pa.Table:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.string())])
    return pa.Table.from_pylist([dict(zip("abc", row, strict=True)) for row in rows], schema=schema)
