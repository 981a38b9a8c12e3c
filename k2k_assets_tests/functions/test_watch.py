"""What is said of a call that lasts long."""

from __future__ import annotations

import faulthandler
import tempfile

import pytest

from k2k_assets.core.log_fields import fields_of
from k2k_assets.functions.answers import FunctionTimedOut
from k2k_assets.functions.watch import CallWatch, RuleFunction, place_of
from k2k_assets_tests.functions.test_process import records
from k2k_assets_tests.support.memory.clock import FakeClock

FUNCTION = RuleFunction("transform[2]", "rules:slow", "", 600.0)


def test_it_warns_at_growing_intervals_and_ends_the_call_at_last(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    watch = CallWatch(FUNCTION, records(3), lambda: "slow (rules.py:7)", clock)
    watch.loaded()
    began, told = clock.now, []

    def look_on() -> None:
        while True:
            clock.sleep(0.25)
            before = len(caplog.records)
            watch.look()
            if len(caplog.records) > before:
                told.append(clock.now - began)

    with pytest.raises(FunctionTimedOut) as late:
        look_on()
    assert told == [10, 20, 40, 80, 160, 320]
    assert clock.now - began == 600
    assert (late.value.seconds, late.value.place) == (600.0, "slow (rules.py:7)")
    assert caplog.records[0].getMessage() == (
        "transform[2].python: the function rules:slow has been running for 10 s on orders-3, offsets 10 to 12 "
        "(3 records); it is in slow (rules.py:7); it may take 600 s (functionTimeout)"
    )
    assert caplog.records[0].levelname == "WARNING"
    fields = fields_of(caplog.records[0])
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("orders", 3, 10)


def test_a_call_that_is_soon_over_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    watch = CallWatch(FUNCTION, records(3), lambda: "nowhere", clock)
    clock.sleep(9.75)
    watch.look()
    assert caplog.records == []


def test_loading_its_module_is_no_part_of_the_time_of_a_call() -> None:
    clock = FakeClock()
    watch = CallWatch(FUNCTION._replace(timeout=2.0), records(3), lambda: "", clock)
    clock.sleep(59)
    watch.look()
    watch.loaded()
    clock.sleep(1.75)
    watch.look()
    clock.sleep(0.25)
    with pytest.raises(FunctionTimedOut):
        watch.look()
    watch = CallWatch(FUNCTION._replace(timeout=2.0), records(3), lambda: "", clock)
    clock.sleep(60)
    with pytest.raises(FunctionTimedOut):
        watch.look()


def inner(file: int) -> None:
    faulthandler.dump_traceback(file, all_threads=False)


def outer(file: int) -> None:
    middle = inner
    (lambda: middle(file))()


def test_a_stack_names_the_innermost_place_and_the_function() -> None:
    with tempfile.TemporaryFile() as file:
        outer(file.fileno())
        file.seek(0)
        lines = file.read().decode().splitlines()
    upper = next(line for line in lines if " in outer" in line)
    caller = lines[lines.index(upper) + 1 :]
    assert caller
    stack = [*lines[: lines.index(upper) + 1], '  File "/somewhere/answers.py", line 1 in call', *caller]
    place = place_of(stack, "/somewhere/answers.py")
    assert place.startswith("inner (test_watch.py:")
    assert ", called by outer (test_watch.py:" in place
    assert place_of([], "x") == ""
    assert place_of(stack[: stack.index(upper)][:2], "x").startswith("inner (test_watch.py:")
