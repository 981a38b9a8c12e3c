"""A user's function on the records of a batch.

It gets a record batch with the columns of `arrow_records.arrow_schema`, and returns one with the same columns; rows
left out are records left out, and `key`, `value` and `headers` may be changed. What fails is tried again in halves,
until it is known which records do. So is what ends the process of the function; and a record that does alone, a few
times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

from k2k_assets.functions.answers import Call, FunctionCrashed, FunctionError, FunctionResult
from k2k_assets.functions.process import MOST_CRASHES
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.transport.arrow_records import arrow_records

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Returned:
    """What a function made of some records.

    Attributes:
        indices: The records that it was given, by their index in the batch.
        kept: Those that it returned.
        columns: Its columns that differ from those that it was given, by name, as lists.
        fault: Why there is no answer; None if there is one. Of a fault that is of one record, this one is the reason.
    """

    indices: Sequence[int]
    kept: Sequence[int] = ()
    columns: dict[str, list[Any]] | None = None
    fault: FunctionError | None = None


class UserFunction:
    """Calls a function.

    Args:
        call: Calls it.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def on(self, batch: Batch, live: Sequence[int]) -> Iterator[Returned]:
        """Calls it with some records of a batch, in order; each part of the result is for the next ones.

        Args:
            batch: The batch.
            live: Indices of the records.
        """
        if live:
            yield from self._in_halves(_arrow(batch, live), live, crashes=0)

    def _in_halves(self, given: pa.RecordBatch, indices: Sequence[int], crashes: int) -> Iterator[Returned]:
        try:
            answer = self._call(given)
        except FunctionError as error:
            fault = error
        else:
            yield _returned(indices, answer)
            return
        crashes += isinstance(fault, FunctionCrashed)
        half = len(indices) // 2
        if not fault.is_of_one_record:
            yield Returned(indices, fault=fault)
        elif half:
            yield from self._in_halves(given.slice(0, half), indices[:half], crashes)
            yield from self._in_halves(given.slice(half), indices[half:], crashes)
        elif isinstance(fault, FunctionCrashed) and crashes < MOST_CRASHES:
            yield from self._in_halves(given, indices, crashes)
        else:
            yield Returned(indices, fault=fault)


def _arrow(batch: Batch, live: Sequence[int]) -> pa.RecordBatch:
    def of(column: Sequence[Any]) -> Sequence[Any]:
        return column if len(live) == len(batch.offsets) else [column[index] for index in live]

    return arrow_records(
        batch.source, of(batch.offsets), of(batch.keys), of(batch.values), of(batch.timestamps), of(batch.headers)
    )


def _returned(indices: Sequence[int], answer: FunctionResult) -> Returned:
    columns = {name: column.to_pylist() for name, column in answer.columns.items()}
    if "headers" in columns:
        columns["headers"] = [
            None if headers is None else [(header["key"], header["value"]) for header in headers]
            for headers in columns["headers"]
        ]
    return Returned(indices, [indices[row] for row in answer.rows], columns)


def take(batch: Batch, returned: Returned, rule: str) -> None:
    """Puts what a function returned into its batch; what it did not return is left out, by a rule."""
    stay = set(returned.kept)
    columns = returned.columns or {}
    for index in compress(returned.indices, [index not in stay for index in returned.indices]):
        batch.left_out[index] = rule
    for name in ("key", "value"):
        for index, payload in zip(returned.kept, columns.get(name, ()), strict=False):
            batch.set_payload(index, "key" if name == "key" else "value", payload)
    for index, headers in zip(returned.kept, columns.get("headers", ()), strict=False):
        batch.set_headers(index, headers)
