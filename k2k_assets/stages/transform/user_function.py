"""A user's function on Arrow record batches.

It gets a record batch with the columns of `arrow_records.arrow_schema`, and returns one with the same columns; rows
left out are records left out, and `key`, `value` and `headers` may be changed. What fails is tried again in halves,
until it is known which records fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

from k2k_assets.pipeline.user_code import Function
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.transport.arrow_records import arrow_records

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_WORDS = 300
_FIXED = ("topic", "partition", "timestamp")


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function made of some records.

    Attributes:
        indices: The records that it was given, by their index in the batch.
        kept: Those that it returned.
        columns: Its columns that differ from those that it was given, by name, as lists.
        fault: Why it failed, for one record; None if it did not.
    """

    indices: Sequence[int]
    kept: Sequence[int]
    columns: dict[str, list[Any]]
    fault: str | None = None


class UserFunction:
    """Calls a function.

    Args:
        function: The function.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    def on(self, batch: Batch, live: Sequence[int]) -> Iterator[Returned]:
        """Calls it with some records of a batch, in order; each part of the result is for the next ones.

        Args:
            batch: The batch.
            live: Indices of the records.
        """
        if live:
            yield from self._in_halves(_arrow(batch, live), live)

    def _in_halves(self, given: pa.RecordBatch, indices: Sequence[int]) -> Iterator[Returned]:
        try:
            returned = _checked(given, self._function(given), indices)
        except BaseException as error:
            if not _is_of_the_function(error):
                raise
            fault = error
        else:
            yield returned
            return
        half = len(indices) // 2
        if not half:
            yield Returned(indices, (), {}, _words(fault))
            return
        yield from self._in_halves(given.slice(0, half), indices[:half])
        yield from self._in_halves(given.slice(half), indices[half:])


def _arrow(batch: Batch, live: Sequence[int]) -> pa.RecordBatch:
    def of(column: Sequence[Any]) -> Sequence[Any]:
        return column if len(live) == len(batch.offsets) else [column[index] for index in live]

    return arrow_records(
        batch.source, of(batch.offsets), of(batch.keys), of(batch.values), of(batch.timestamps), of(batch.headers)
    )


def _checked(given: pa.RecordBatch, returned: Any, indices: Sequence[int]) -> Returned:
    """What was returned, if the function keeps to its promises.

    Raises:
        TypeError: It has returned something else than a record batch with these columns.
        ValueError: It has returned other records, in another order, or changed what must not be changed.
    """
    import pyarrow as pa

    if not isinstance(returned, pa.RecordBatch):
        raise TypeError(f"the function returned {type(returned).__name__}, expected a pyarrow.RecordBatch")
    if not returned.schema.equals(given.schema):
        what = "; ".join(f"{field.name}: {field.type}" for field in returned.schema)
        raise TypeError(f"the function returned the columns {what}, expected those that it was given")
    place = {offset: row for row, offset in enumerate(given.column("offset").to_pylist())}
    offsets = returned.column("offset").to_pylist()
    rows = [place.get(offset, -1) for offset in offsets]
    if any(row < 0 for row in rows) or any(one >= other for one, other in pairwise(rows)):
        raise ValueError("the function returned offsets that it was not given, or in another order")
    same = given if len(rows) == given.num_rows else given.take(pa.array(rows, pa.int64()))
    for name in _FIXED:
        if not returned.column(name).equals(same.column(name)):
            raise ValueError(f"the function changed the column {name}")
    parts = ("key", "value", "headers")
    changed = {name: returned.column(name) for name in parts if not returned.column(name).equals(same.column(name))}
    columns = {name: column.to_pylist() for name, column in changed.items() if name != "headers"}
    if "headers" in changed:
        columns["headers"] = list(map(_headers, changed["headers"].to_pylist()))
    return Returned(indices, [indices[row] for row in rows], columns)


def _headers(found: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    if found is None:
        return None
    if any(each is None or each["key"] is None for each in found):
        raise ValueError("the function returned a header without a key")
    return [(each["key"], each["value"]) for each in found]


def take(batch: Batch, returned: Returned, rule: str) -> None:
    """Puts what a function returned into its batch; what it did not return is left out, by a rule."""
    stay = set(returned.kept)
    for index in compress(returned.indices, [index not in stay for index in returned.indices]):
        batch.left_out[index] = rule
    for name in ("key", "value"):
        for index, payload in zip(returned.kept, returned.columns.get(name, ()), strict=False):
            batch.set_payload(index, "key" if name == "key" else "value", payload)
    for index, headers in zip(returned.kept, returned.columns.get("headers", ()), strict=False):
        batch.set_headers(index, headers)


def _is_of_the_function(error: BaseException) -> bool:
    """Whether the code of others has raised an error: sys.exit(), and what Rust's libraries call a panic, are none of
    Python's exceptions. Nor are interrupts, which come from outside."""
    return isinstance(error, Exception | SystemExit) or type(error).__module__ == "pyo3_runtime"


def _words(error: BaseException) -> str:
    """What a function raised, as text that can be written: it may quote bytes of a record that are no UTF-8."""
    try:
        said = str(error)
    except Exception as broken:
        said = f"(its text cannot be made: {type(broken).__name__})"
    words = f"{type(error).__name__}: {said}".encode(errors="backslashreplace").decode()
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}..."
