"""Functions of users: what they get and return, and what happens when they fail."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.functions import FunctionEndsItsProcess, FunctionTooSlow
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.functions.answers import (
    FunctionCrashed,
    FunctionFailed,
    FunctionResult,
    FunctionTimedOut,
    in_this_process,
)
from k2k_assets.functions.process import MOST_CRASHES
from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.sections.transform import TransformRule, transform_text
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.rules import Transforms
from k2k_assets.stages.transform.user_function import UserFunction, take
from k2k_assets.transport.arrow_records import arrow_schema
from k2k_assets.transport.headers import Headers
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.suite.properties import examples

T = TopicPartition("orders", 3)


def batch(values: list[bytes | None]) -> Batch:
    n = len(values)
    headers: list[Headers | None] = [None if i % 2 else [("h", b"%d" % i), ("n", None)] for i in range(n)]
    return Batch(T, range(10, 10 + n), range(1000, 1000 + n), [b"k%d" % i for i in range(n)], list(values), headers)


def run(function: Any, made: Batch, stop: bool = True) -> list[tuple[int, str]]:
    """Runs a function; returns the records for which it fails, until the first if it stops there."""
    faults = []
    for returned in UserFunction(in_this_process(function)).on(made, made.live()):
        take(made, returned, "python")
        if returned.fault:
            faults.append((returned.indices[0], str(returned.fault)))
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


@pytest.mark.parametrize("at", [0, 3, 6])
def test_a_record_at_which_the_process_ends_is_found_in_halves(at: int) -> None:
    """It is said to be the reason only when it was, alone, the last of a few in a row."""
    calls: list[list[int]] = []

    def call(given: pa.RecordBatch) -> FunctionResult:
        offsets = given.column("offset").to_pylist()
        calls.append(offsets)
        if 10 + at in offsets:
            raise FunctionCrashed("SIGSEGV")
        return FunctionResult(range(given.num_rows))

    made = batch([b"v"] * 7)
    found = list(UserFunction(call).on(made, made.live()))
    faults = [returned for returned in found if returned.fault]
    assert [(list(f.indices), str(f.fault)) for f in faults] == [([at], "SIGSEGV")]
    assert [i for returned in found for i in returned.kept] == [i for i in range(7) if i != at]
    assert sum(10 + at in offsets for offsets in calls) >= MOST_CRASHES


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_process_that_ends_for_reasons_of_its_own_costs_no_record(crashes: int) -> None:
    left = crashes

    def call(given: pa.RecordBatch) -> FunctionResult:
        nonlocal left
        if left:
            left -= 1
            raise FunctionCrashed("SIGKILL")
        return FunctionResult(range(given.num_rows))

    for count in (1, 5):
        left, made = crashes, batch([b"v"] * count)
        found = list(UserFunction(call).on(made, made.live()))
        assert [returned.fault for returned in found if returned.fault] == []
        assert [i for returned in found for i in returned.kept] == list(range(count))


@pytest.mark.parametrize("policy", ["stop", "drop", "deadLetter"])
@pytest.mark.parametrize("fault", [FunctionCrashed("exit code 3"), FunctionTimedOut(7, "f (rules.py:1)")])
def test_what_ends_or_holds_up_its_process_stops_the_topic_whatever_the_rule_says(
    policy: str, fault: FunctionCrashed | FunctionTimedOut, tmp_path: Path
) -> None:
    (tmp_path / "rules_of_a_test.py").write_text("def f(records): return records")
    rule = {"pattern": "orders", "python": "rules_of_a_test:f", "onError": policy}
    if policy == "deadLetter":
        rule["deadLetters"] = "dead"
    text = transform_text([TransformRule.model_validate(rule)], [str(tmp_path)])
    calls = 0

    def call(given: pa.RecordBatch) -> FunctionResult:
        nonlocal calls
        calls += 1
        if 13 in given.column("offset").to_pylist():
            raise fault
        return FunctionResult(range(given.num_rows))

    made = batch([b"v"] * 6)
    Transforms(text, [str(tmp_path)], lambda position: call).apply(made)
    if isinstance(fault, FunctionTimedOut):
        reason: StopReason = FunctionTooSlow(
            T, 10, 15, "transform[0].python", "rules_of_a_test:f", 7.0, "f (rules.py:1)"
        )
        assert (made.stopped, calls) == ((0, reason), 1)
    else:
        reason = FunctionEndsItsProcess(T, 13, "transform[0].python", "rules_of_a_test:f", "exit code 3", MOST_CRASHES)
        assert made.stopped == (3, reason)
    assert (made.dead, made.left_out) == ({}, [None] * 6)


@pytest.mark.parametrize("policy", ["drop", "deadLetter"])
@examples(100)
@given(st.lists(st.sampled_from(["kept", "fails in the function", "stops before it", "stops in it"]), min_size=1))
def test_what_becomes_of_a_record_before_the_first_stop_depends_on_it_alone(policy: str, kinds: list[str]) -> None:
    """A function that fails for a record goes on with those behind it, also where others have stopped further on."""
    values = {
        "kept": b'{"pan": 1}', "fails in the function": b'{"bad": 1}',
        "stops before it": b"{", "stops in it": b'{"crash": 1}',
    }  # fmt: skip
    first = {"pattern": "orders", "mask": [{"value": "iban", "with": "*"}]}
    second = {"pattern": "orders", "python": "json:loads", "onError": policy}
    if policy == "deadLetter":
        second["deadLetters"] = "dead"
    text = transform_text([TransformRule.model_validate(rule) for rule in (first, second)], [])

    def call(given: pa.RecordBatch) -> FunctionResult:
        found = given.column("value").to_pylist()
        if values["stops in it"] in found:
            raise FunctionCrashed("SIGSEGV")
        if values["fails in the function"] in found:
            raise FunctionFailed("of theirs")
        return FunctionResult(range(given.num_rows), {"value": pa.array([b"done"] * given.num_rows)})

    made = batch([values[kind] for kind in kinds])
    Transforms(text, [], lambda position: call).apply(made)
    stop = next((i for i, kind in enumerate(kinds) if kind.startswith("stops")), len(kinds))
    assert (made.stopped[0] if made.stopped else len(kinds)) == stop
    assert [made.values[i] == b"done" for i in range(stop)] == [kind == "kept" for kind in kinds[:stop]]
    assert [made.left_out[i] is None for i in range(stop)] == [kind == "kept" for kind in kinds[:stop]]


def test_how_long_a_function_may_take_is_no_part_of_what_it_does(tmp_path: Path) -> None:
    (tmp_path / "rules_of_a_test.py").write_text("def f(records): return records")
    rule = {"pattern": "orders", "python": "rules_of_a_test:f"}
    short = TransformRule.model_validate({**rule, "functionTimeout": "3 seconds"})
    assert short.function_timeout.total_seconds() == 3
    assert short.document([str(tmp_path)]) == TransformRule.model_validate(rule).document([str(tmp_path)])
