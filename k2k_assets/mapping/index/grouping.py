"""Groups of neighbouring rows in sorted Arrow tables, without a Python object for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column = NDArray[np.int64]


def groups(table: pa.Table, columns: Sequence[str]) -> list[int]:
    """The rows at which the value of any of the columns changes, the first row and the end among them.

    Args:
        table: Sorted by the columns.
        columns: Of texts or whole numbers.
    """
    if not len(table):
        return [0]
    changes = np.zeros(len(table) - 1, bool)
    for name in columns:
        codes = codes_of(table[name])
        changes |= codes[1:] != codes[:-1]
    return [0, *(np.flatnonzero(changes) + 1).tolist(), len(table)]


def codes_of(column: pa.ChunkedArray) -> Column:
    """Numbers that differ where the values do."""
    if not pa.types.is_string(column.type):
        return numbers(column)
    return numbers(pa.chunked_array([chunk.indices for chunk in column.dictionary_encode().chunks], pa.int32()))


def numbers(column: pa.ChunkedArray) -> Column:
    """A column of whole numbers."""
    return np.asarray(column.to_numpy(), dtype=np.int64)
