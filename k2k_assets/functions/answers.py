"""What a user's function makes of a record batch, and whether it keeps to its promises."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from k2k_assets.functions.user_code import Function

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_WORDS = 300
_FIXED = ("topic", "partition", "timestamp")
_PARTS = ("key", "value", "headers")


class FunctionError(Exception):
    """A call of a function has no answer; the text says why.

    Attributes:
        is_of_one_record: Whether a record may be the reason, which fewer records at a time would tell.
    """

    is_of_one_record = True


class FunctionFailed(FunctionError):
    """The function raised an error, or returned what it may not."""


class FunctionCrashed(FunctionError):
    """The process in which the function ran has ended."""


class FunctionCrashesOften(FunctionError):
    """The process has ended so often for the topic, at whatever records, that it is not tried again."""

    is_of_one_record = False


class FunctionNotLoaded(FunctionError):
    """The function cannot be loaded, or its module ends the process that imports it."""

    is_of_one_record = False


class FunctionTimedOut(FunctionError):
    """The function ran for longer than it may.

    Args:
        seconds: How long it may.
        place: Where in its code it was, if that is known.
    """

    is_of_one_record = False

    def __init__(self, seconds: float, place: str = "") -> None:
        super().__init__(f"it ran for more than {seconds:g} s{place and f', in {place}'}")
        self.seconds = seconds
        self.place = place


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """What a function returned for a record batch.

    Attributes:
        rows: The rows of the batch that it returned, rising.
        columns: Its columns that differ from those of the batch, by name, with a value for each of these rows.
    """

    rows: Sequence[int]
    columns: dict[str, pa.Array] = field(default_factory=dict)


Call = Callable[["pa.RecordBatch"], FunctionResult]
"""Calls a function with a record batch.

Raises:
    FunctionError: There is no answer.
"""


def in_this_process(function: Function) -> Call:
    """Calls a function in this process: it may end it, or hold it up for ever."""

    def call(given: pa.RecordBatch) -> FunctionResult:
        try:
            return _checked(given, function(given))
        except BaseException as error:
            if not _is_of_the_function(error):
                raise
            raise FunctionFailed(_words(error)) from None

    return call


def _checked(given: pa.RecordBatch, returned: Any) -> FunctionResult:
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
    rows = [place.get(offset, -1) for offset in returned.column("offset").to_pylist()]
    if any(row < 0 for row in rows) or any(one >= other for one, other in pairwise(rows)):
        raise ValueError("the function returned offsets that it was not given, or in another order")
    same = given if len(rows) == given.num_rows else given.take(row_numbers(rows))
    for name in _FIXED:
        if not returned.column(name).equals(same.column(name)):
            raise ValueError(f"the function changed the column {name}")
    changed = {name: returned.column(name) for name in _PARTS if not returned.column(name).equals(same.column(name))}
    for name, column in changed.items():
        try:
            column.validate(full=True)  # what is no UTF-8, or lies outside its buffers, spoils whoever reads it
        except pa.ArrowInvalid as error:
            raise ValueError(f"the function returned a column {name} that is not valid: {error}") from None
    if "headers" in changed:
        headers = changed["headers"].flatten()
        if headers.null_count or headers.field("key").null_count:
            raise ValueError("the function returned a header without a key")
    return FunctionResult(rows, changed)


def row_numbers(rows: Sequence[int]) -> pa.Array:
    """Numbers as Arrow. `pyarrow.array` would import pandas, which takes a second."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(array("q", rows))])


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
