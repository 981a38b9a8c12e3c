"""Functions of users: what they get and return, and what happens when they fail."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.rules import Transforms
from k2k_assets.stages.transform.user_function import UserFunction, take
from k2k_assets.transport.arrow_records import arrow_schema
from k2k_assets.transport.headers import Headers
from k2k_assets_tests.support.kafka import unique
from k2k_assets_tests.support.pipelines import write_pipeline

T = TopicPartition("orders", 3)


def batch(values: list[bytes | None]) -> Batch:
    n = len(values)
    headers: list[Headers | None] = [None if i % 2 else [("h", b"%d" % i), ("n", None)] for i in range(n)]
    return Batch(T, range(10, 10 + n), range(1000, 1000 + n), [b"k%d" % i for i in range(n)], list(values), headers)


def run(function: Any, made: Batch, stop: bool = True) -> list[tuple[int, str]]:
    """Runs a function; returns the records for which it fails, until the first if it stops there."""
    faults = []
    for returned in UserFunction(function).on(made, made.live()):
        take(made, returned, "python")
        if returned.fault:
            faults.append((returned.indices[0], returned.fault))
            if stop:
                break
    return faults


def column(records: pa.RecordBatch, name: str, values: list[Any]) -> pa.RecordBatch:
    index = records.schema.get_field_index(name)
    return records.set_column(index, records.schema.field(index), pa.array(values, records.schema.field(index).type))


def test_it_gets_the_documented_columns() -> None:
    seen: list[pa.RecordBatch] = []

    def function(records: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(records)
        return records

    made = batch([b"a", None])
    assert run(function, made) == []
    (records,) = seen
    assert records.schema.equals(arrow_schema())
    assert records.to_pylist() == [
        {
            "topic": "orders", "partition": 3, "offset": 10, "key": b"k0", "value": b"a", "timestamp": 1000,
            "headers": [{"key": "h", "value": b"0"}, {"key": "n", "value": None}],
        },
        {
            "topic": "orders", "partition": 3, "offset": 11, "key": b"k1", "value": None, "timestamp": 1001,
            "headers": None,
        },
    ]  # fmt: skip
    assert not made.has_new_payloads
    assert not made.has_new_headers


def test_rows_that_are_left_out_are_dropped_and_changed_columns_are_taken() -> None:
    def function(records: pa.RecordBatch) -> pa.RecordBatch:
        kept = records.take(pa.array([0, 2]))
        kept = column(kept, "value", [b"new", None])
        kept = column(kept, "key", [None, b"other"])
        return column(kept, "headers", [[{"key": "x", "value": b"y"}], None])

    made = batch([b"a", b"b", b"c"])
    assert run(function, made) == []
    assert made.left_out == [None, "python", None]
    assert (made.values, made.keys) == ([b"new", b"b", None], [None, b"k1", b"other"])
    assert [made.headers[i] for i in (0, 2)] == [[("x", b"y")], None]


def test_it_may_leave_out_all() -> None:
    made = batch([b"a", b"b"])
    assert run(lambda records: records.slice(0, 0), made) == []
    assert made.left_out == ["python", "python"]


@pytest.mark.parametrize("bad", [{0}, {6}, {3, 4}, set(range(7))])
def test_what_fails_is_found_record_by_record_and_the_others_are_right(bad: set[int]) -> None:
    calls = 0

    def function(records: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal calls
        calls += 1
        values = records.column("value").to_pylist()
        if b"bad" in values:
            raise ZeroDivisionError("of theirs")
        return column(records, "value", [value.upper() for value in values])

    made = batch([b"bad" if i in bad else b"v" for i in range(7)])
    assert run(function, made, stop=False) == [(i, "ZeroDivisionError: of theirs") for i in sorted(bad)]
    assert [made.values[i] for i in range(7) if i not in bad] == [b"V"] * (7 - len(bad))
    made = batch([b"bad" if i in bad else b"v" for i in range(7)])
    assert [i for i, _ in run(function, made)] == [min(bad)]
    assert made.values[: min(bad)] == [b"V"] * min(bad)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda records: None, "TypeError: the function returned NoneType, expected a pyarrow.RecordBatch"),
        (lambda records: records.select(["offset"]), "TypeError: the function returned the columns offset: int64"),
        (lambda records: column(records, "offset", [99]), "ValueError: the function returned offsets that it was not"),
        (lambda records: column(records, "timestamp", [0]), "ValueError: the function changed the column timestamp"),
        (lambda records: column(records, "topic", ["x"]), "ValueError: the function changed the column topic"),
        (lambda records: pa.concat_batches([records, records]), "ValueError: the function returned offsets"),
        (
            lambda records: column(records, "headers", [[{"key": None, "value": b""}]]),
            "ValueError: the function returned a",
        ),
    ],
)
def test_what_it_may_not_return(function: Any, said: str) -> None:
    ((index, words),) = run(function, batch([b"a"]))
    assert index == 0
    assert words.startswith(said)


class _Panic(BaseException):
    """As libraries in Rust raise it."""


_Panic.__module__ = "pyo3_runtime"


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (_Panic("index out of bounds"), "_Panic: index out of bounds"),
        (ValueError(b"caf\xe9".decode(errors="surrogateescape")), "ValueError: caf\\udce9"),
        (_Mute(), "_Mute: (its text cannot be made: RuntimeError)"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 288 + "..."),
    ],
)
def test_whatever_it_raises_is_told_as_text_that_can_be_written(error: BaseException, said: str) -> None:
    def function(records: pa.RecordBatch) -> pa.RecordBatch:
        raise error

    ((index, words),) = run(function, batch([b"a"]))
    assert (index, words) == (0, said)
    assert words.encode()


def test_an_interrupt_from_outside_is_no_fault_of_a_record() -> None:
    def function(records: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(function, batch([b"a", b"b"]))


def test_records_in_another_order_are_refused() -> None:
    faults = run(lambda records: records.take(pa.array(list(reversed(range(len(records)))))), batch([b"a", b"b"]))
    assert faults == []  # in halves each order is right: what becomes of a record depends on it alone


def module(directory: Path, text: str, name: str = "") -> str:
    name = name or unique("theirs").replace("-", "_")
    (directory / f"{name}.py").write_text(text)
    return name


def test_its_code_is_part_of_the_settings_and_another_code_is_refused(tmp_path: Path) -> None:
    name = module(tmp_path, "def same(records):\n    return records\n")
    rules = [{"pattern": ".*", "python": f"{name}:same"}]
    path = write_pipeline(tmp_path, "a:1", "b:1", ["t"], transform=rules)
    pipeline = load_pipeline([path])
    version, text = pipeline.code_version, pipeline.transform_text
    assert re.search(r'"code":"[0-9a-f]{16}"', text)
    in_slot = pickle.loads(pickle.dumps(pipeline))
    assert vars(in_slot)["transform_text"] == text, "slots get what the driver has noted"
    assert Transforms(text, pipeline.folders).of("t")

    module(tmp_path, "def same(records):\n    return records.slice(0, 0)\n", name)
    again = load_pipeline([path])
    assert again.code_version != version
    with pytest.raises(Refused, match=f"the code of {name}:same is another one"):
        Transforms(text, again.folders)
