"""Finds groups of neighbouring rows in sorted Arrow tables, without a Python object for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column = NDArray[np.int64]


def groups(table: pa.Table, columns: Sequence[str]) -> list[int]:
    """The rows at which the value of any of the columns changes, including row 0 and the number of rows.

    Args:
        table: A table that is sorted by the columns.
        columns: Columns of texts or whole numbers.
    """
    if not len(table):
        return [0]
    changes = np.zeros(len(table) - 1, bool)
    for name in columns:
        codes = codes_of(table[name])
        changes |= codes[1:] != codes[:-1]
    return [0, *(np.flatnonzero(changes) + 1).tolist(), len(table)]


def ranks(columns: Sequence[str], *tables: pa.Table) -> list[Column]:
    """Numbers the rows by their values in some columns: from 0 on without gaps, in the order of the values.

    Args:
        columns: Columns of texts or whole numbers.
        tables: Tables; equal values get the same number in all of them.
    """
    sizes = [len(table) for table in tables]
    found = np.zeros(sum(sizes), np.int64)
    for name in columns:
        chunks = [chunk for table in tables for chunk in table[name].chunks]
        rank, count = _ranks(pa.chunked_array(chunks, tables[0][name].type))
        found = found * count + rank
    found = np.unique(found, return_inverse=True)[1]
    return np.split(found, np.cumsum(sizes)[:-1])


def _ranks(column: pa.ChunkedArray) -> tuple[Column, int]:
    """Numbers in the order of the values, and an upper bound of their count."""
    if not pa.types.is_string(column.type):
        values, rank = np.unique(numbers(column), return_inverse=True)
        return rank, len(values)
    encoded = column.combine_chunks().dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    return rank_of[np.asarray(encoded.indices)], len(order)


def codes_of(column: pa.ChunkedArray) -> Column:
    """Numbers for the values: equal for equal values, in no order."""
    if not pa.types.is_string(column.type):
        return numbers(column)
    return numbers(pa.chunked_array([chunk.indices for chunk in column.dictionary_encode().chunks], pa.int32()))


def numbers(column: pa.ChunkedArray) -> Column:
    """A column of whole numbers as a NumPy array."""
    return np.asarray(column.to_numpy(), dtype=np.int64)
