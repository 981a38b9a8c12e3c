"""The process for functions of users: it answers as this one would, and it is replaced when a function spoils it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.functions import crash_limit, running
from k2k_assets.functions.answers import (
    FunctionCrashed,
    FunctionCrashesOften,
    FunctionFailed,
    FunctionNotLoaded,
    FunctionTimedOut,
    in_this_process,
)
from k2k_assets.functions.crash_limit import MINUTES, MOST_CRASHES_OF_A_TOPIC, CrashLimit
from k2k_assets.functions.module_source import code_of
from k2k_assets.functions.process import MOST_CRASHES, FunctionProcess
from k2k_assets.functions.user_code import load_function
from k2k_assets.functions.watch import RuleFunction
from k2k_assets.transport.arrow_records import arrow_records
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.memory.clock import FakeClock

pytestmark = pytest.mark.processes

CODE = """
import ctypes, os, re, signal, sys, time
import pyarrow as pa
import pyarrow.compute as pc


def same(records):
    return records


def naps(records):
    time.sleep(0.06)
    raise KeyError("country")


def some(records):
    return records.filter(pc.not_equal(records.column("value"), b"bad"))


def changed(records):
    kept = records.take(pa.array([0, 2]))
    for name, values in (("key", [None, b"new"]), ("value", [b"", None]),
                         ("headers", [[{"key": "x", "value": None}, {"key": "x", "value": b"y"}], None])):
        at = kept.schema.get_field_index(name)
        kept = kept.set_column(at, kept.schema.field(at), pa.array(values, kept.schema.field(at).type))
    return kept


def no_text(records):
    keys = pa.array([b"\\xff"] * len(records)).view(pa.string())
    values = pa.array([b"v"] * len(records))
    structs = pa.StructArray.from_arrays([keys, values], fields=list(records.schema.field("headers").type.value_type))
    lists = pa.ListArray.from_arrays(pa.array(range(len(records) + 1), pa.int32()), structs)
    return records.set_column(6, records.schema.field("headers"), lists.cast(records.schema.field("headers").type))


def none(records):
    return records.slice(0, 0)


def fails(records):
    raise KeyError("country")


def another(records):
    return 7


def leaves(records):
    print("this is no output of ours")
    os._exit(3)


def crashes(records):
    ctypes.string_at(0)


def is_killed(records):
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(records):
    time.sleep(600)


def searches(records):
    re.match("(a+)+b", "a" * 64)  # holds Python's lock for years


def tells(records):
    open(records.column("value")[0].as_py().decode(), "w").write(str(os.getpid()))
    re.match("(a+)+b", "a" * 64)
"""

WELL = ["same", "some", "changed", "none"]


@pytest.fixture
def module(tmp_path: Path) -> str:
    name = unique("functions").replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CODE)
    return name


def function(module: str, name: str, folder: Path, timeout: float = 60.0) -> RuleFunction:
    whole = f"{module}:{name}"
    return RuleFunction("transform[0]", whole, code_of(whole, [str(folder)]), timeout)


@pytest.fixture
def opened() -> Iterator[list[FunctionProcess]]:
    processes: list[FunctionProcess] = []
    yield processes
    for process in processes:
        process.close()


@pytest.fixture
def made(module: str, tmp_path: Path, opened: list[FunctionProcess]) -> Any:
    def make(*names: str, timeout: float = 60.0) -> FunctionProcess:
        process = FunctionProcess([function(module, name, tmp_path, timeout) for name in names], [str(tmp_path)])
        opened.append(process)
        return process

    return make


def records(count: int = 3, size: int = 3, value: bytes = b"") -> pa.RecordBatch:
    values = [value or (b"bad" if n == 1 else b"v" * size) for n in range(count)]
    headers: list[Any] = [None if n % 2 else [("h", b"%d" % n), ("h", None)] for n in range(count)]
    source = TopicPartition("orders", 3)
    keys = ([b"k", None, b""] * count)[:count]
    return arrow_records(source, range(10, 10 + count), keys, values, [-1] * count, headers)


@pytest.mark.parametrize("number", range(len(WELL)))
@pytest.mark.parametrize("given", [records(), records(7).slice(2, 3), records(1000, 5000)], ids=["few", "part", "many"])
def test_it_answers_as_this_process(made: Any, module: str, tmp_path: Path, number: int, given: pa.RecordBatch) -> None:
    here = in_this_process(load_function(f"{module}:{WELL[number]}", [str(tmp_path)]))
    call = made(*WELL).call_of(number)
    for _ in range(2):
        answer, expected = call(given), here(given)
        assert list(answer.rows) == list(expected.rows)
        assert answer.columns.keys() == expected.columns.keys()
        for name, column in expected.columns.items():
            assert answer.columns[name].equals(column)


def test_errors_of_a_function_are_told_and_cost_no_process(made: Any) -> None:
    process = made("fails", "another", "same", "no_text")
    for number, said in (
        (0, "KeyError: 'country'"),
        (1, "TypeError: the function returned int, expected a pyarrow"),
        (3, "ValueError: the function returned a column headers that is not valid: "),
    ):
        with pytest.raises(FunctionFailed) as failed:
            process.call_of(number)(records())
        assert str(failed.value).startswith(said)
    pid = process._running._process.pid
    assert list(process.call_of(2)(records()).rows) == [0, 1, 2]
    assert process._running._process.pid == pid


@pytest.mark.parametrize(
    ("name", "words"),
    [("leaves", "exit code 3"), ("crashes", "SIGSEGV"), ("is_killed", "SIGKILL, perhaps because memory was short")],
)
def test_a_function_that_ends_its_process_is_told_and_the_next_call_has_a_new_one(
    made: Any, name: str, words: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    process = made(name, "same")
    for _ in range(2):
        with pytest.raises(FunctionCrashed) as crashed:
            process.call_of(0)(records())
        assert str(crashed.value) == words
        assert list(process.call_of(1)(records()).rows) == [0, 1, 2]
    assert f"has ended its process ({words}) on orders-3, offsets 10 to 12 (3 records)" in caplog.text
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ["sleeps", "searches"])
def test_a_function_that_does_not_return_is_ended_in_time(
    made: Any, module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_STACK_SECONDS", 10.0)  # a busy machine writes it later
    process = made(name, "same", timeout=1.0)
    process.call_of(1)(records())
    began = time.monotonic()
    with pytest.raises(FunctionTimedOut) as late:
        process.call_of(0)(records())
    assert time.monotonic() - began < 20
    assert late.value.seconds == 1.0
    assert f"{name} ({module}.py:" in late.value.place
    assert list(process.call_of(1)(records()).rows) == [0, 1, 2]


def test_whoever_waits_for_a_function_may_leave_it(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    process = made("searches", "same")
    process.call_of(1)(records())
    running = process._running._process

    class Enough(Exception):
        pass

    def leave() -> None:
        raise Enough

    process.while_waiting = leave
    with caplog.at_level(logging.WARNING), pytest.raises(Enough):
        process.call_of(0)(records())
    assert running.poll() == -signal.SIGKILL
    assert "transform[0].python: the function" in caplog.text
    assert "nothing of these records is copied" in caplog.text


def test_whoever_waits_is_told_between_short_calls_too(made: Any) -> None:
    """Else records that all fail, one by one, would keep heartbeats and commits back for as long as there are some."""
    process, looks = made("naps"), list[float]()
    with pytest.raises(FunctionFailed):
        process.call_of(0)(records())
    process.while_waiting = lambda: looks.append(time.monotonic())
    calls = 20
    for _ in range(calls):
        with pytest.raises(FunctionFailed):
            process.call_of(0)(records())
    assert 3 <= len(looks) < calls


def test_a_batch_that_is_larger_than_the_socket_does_not_hold_it_up(made: Any) -> None:
    process = made("is_killed", "same")
    process.call_of(1)(records())
    process._running._process.send_signal(signal.SIGSTOP)

    class Enough(Exception):
        pass

    def leave() -> None:
        raise Enough

    process.while_waiting = leave
    with pytest.raises(Enough):
        process.call_of(1)(records(1000, 10_000))


def test_changed_code_is_not_used(made: Any, module: str, tmp_path: Path) -> None:
    process = made("same")
    (tmp_path / f"{module}.py").write_text(CODE + "\nLATER = 1\n")
    with pytest.raises(FunctionNotLoaded, match=f"the code of {module}:same has changed since the copy began"):
        process.call_of(0)(records())


SPOILED = {
    "raises": "import no_such_module_of_a_user",
    "leaves": "import os\nwith open(__file__ + '.tries', 'a') as tries:\n    tries.write('x')\nos._exit(3)",
    "crashes": "import ctypes\nctypes.string_at(0)",
    "sleeps": "import time\n\n\ndef wait():\n    time.sleep(600)\n\n\nwait()",
    "searches": "import re\nre.match('(a+)+b', 'a' * 64)",
}


@pytest.fixture
def spoiled(module: str, tmp_path: Path, opened: list[FunctionProcess]) -> Any:
    """A process with two functions of a module whose import is spoiled, and a good one of another module."""

    def make(way: str) -> tuple[FunctionProcess, str]:
        name = unique(way).replace("-", "_")
        (tmp_path / f"{name}.py").write_text(f"{SPOILED[way]}\n\n\ndef same(records):\n    return records\n")
        bad = function(name, "same", tmp_path)
        opened.append(FunctionProcess([bad, bad, function(module, "same", tmp_path)], [str(tmp_path)]))
        return opened[-1], name

    return make


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("raises", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module_of_a_user'"),
        ("leaves", f"cannot be imported: its process ended {MOST_CRASHES} times in a row (exit code 3)"),
        ("crashes", f"cannot be imported: its process ended {MOST_CRASHES} times in a row (SIGSEGV)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_and_spoils_no_other(
    spoiled: Any, way: str, said: str, tmp_path: Path
) -> None:
    process, name = spoiled(way)
    for number in (0, 1, 0):
        with pytest.raises(FunctionNotLoaded) as refused:
            process.call_of(number)(records())
        assert str(refused.value) == f"the module {name} {said}"
        assert list(process.call_of(2)(records()).rows) == [0, 1, 2]
    if way == "leaves":
        assert (tmp_path / f"{name}.py.tries").read_text() == "x" * MOST_CRASHES, "it is not tried for each topic"


@pytest.mark.parametrize(("way", "place"), [("sleeps", "wait (NAME.py:5), called by <module> (NAME.py:8), "),
                                            ("searches", "match (__init__.py:")])  # fmt: skip
def test_an_import_that_does_not_end_is_ended_in_time_and_spoils_no_other(spoiled: Any, way: str, place: str) -> None:
    process, name = spoiled(way)
    patience = process._loading_seconds
    for number in (0, 1):
        assert list(process.call_of(2)(records()).rows) == [0, 1, 2], "its process is there: only the import takes time"
        process._loading_seconds = 1.0
        process._functions = [f._replace(timeout=1.0) for f in process._functions]
        began = time.monotonic()
        with pytest.raises(FunctionTimedOut) as late:
            process.call_of(number)(records())
        assert time.monotonic() - began < 20
        assert late.value.place.startswith(place.replace("NAME", name))
        assert late.value.place.endswith("the import of its module")
        process._loading_seconds = patience
    assert list(process.call_of(2)(records()).rows) == [0, 1, 2]


def test_a_function_that_ends_its_process_again_and_again_is_told_once(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_limit, "MOST_CRASHES_OF_A_TOPIC", most := 4)
    process = made("leaves", "same")
    process._limit = CrashLimit()
    for number in range(1, 2 * most + 1):
        often = number % most == 0
        with pytest.raises(FunctionCrashesOften if often else FunctionCrashed, match="exit code 3"):
            process.call_of(0)(records())
        if number == 2:
            assert list(process.call_of(1)(records()).rows) == [0, 1, 2]


def test_crashes_are_counted_topic_by_topic_and_forgotten_in_time() -> None:
    clock = FakeClock()
    limit = CrashLimit(clock)
    most = MOST_CRASHES_OF_A_TOPIC
    assert [limit.is_reached("a") for _ in range(most - 1)] == [False] * (most - 1)
    assert not limit.is_reached("b")
    clock.sleep(60.0 * MINUTES)
    assert not limit.is_reached("a")
    assert [limit.is_reached("a") for _ in range(most - 1)] == [False] * (most - 2) + [True]
    assert not limit.is_reached("a"), "the count begins anew"


def test_it_ends_with_its_parent_whatever_its_function_does(module: str, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, module, str(tmp_path), str(told)])
    try:
        wait_until(lambda: told.exists() and told.read_text(), 120, "the function to run")
        parent.kill()
        pid = int(told.read_text())
        wait_until(lambda: _is_gone(pid), 120, "the process to end with its parent")
    finally:
        parent.kill()
        parent.wait()


PARENT = """
import sys
from k2k_assets.functions.module_source import code_of
from k2k_assets.functions.process import FunctionProcess
from k2k_assets.functions.watch import RuleFunction
from k2k_assets_tests.functions.test_process import records
module, folder, told = sys.argv[1:]
name = f"{module}:tells"
FunctionProcess([RuleFunction("transform[0]", name, code_of(name, [folder]), 600), ], [folder]).call_of(0)(
    records(1, value=told.encode())
)
"""


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_a_process_that_was_used_ends_with_the_last_that_knows_it(module: str, tmp_path: Path) -> None:
    """Garbage collection of a long run comes late, and each process takes memory as a Python with pyarrow does."""
    process: Any = FunctionProcess([function(module, "same", tmp_path)], [str(tmp_path)])
    process.while_waiting = lambda: None
    process.call_of(0)(records())
    pid = process._running._process.pid
    gc.disable()
    try:
        del process
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        gc.enable()


def test_an_unused_process_ends_when_it_is_closed(made: Any) -> None:
    process = made("same")
    process.start()
    pid = process._running._process.pid
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
