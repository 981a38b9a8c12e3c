"""What is said of an error of Spark."""

from __future__ import annotations

import pytest

from k2k_assets.spark.error_cause import error_cause

_HEAD = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
_TASK = (
    ": org.apache.spark.SparkException: [TASK_FAILED] Job aborted due to stage failure: Task 2 in stage 0.0 failed 1 "
    "times, most recent failure: Lost task 2.0 in stage 0.0 (TID 2) (host executor driver): "
)
_FRAMES = (
    "\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)\n\nDriver stacktrace:\n\tat x.Y(Z)\n"
)
_PYTHON = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n    process()\n'
    '  File "slot.py", line 2, in run\n    copy(records)\n         ^^^^^^^^^\n'
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (_HEAD + _TASK + _PYTHON + "KeyError: 'orders'\n\n" + _FRAMES, "KeyError: 'orders'"),
        (
            _HEAD + _TASK + _PYTHON + "k2k_assets.core.errors.Refused: two\nlines\n\n" + _FRAMES,
            "k2k_assets.core.errors.Refused: two lines",
        ),
        (_HEAD + _TASK + _PYTHON + "AssertionError\n" + _FRAMES, "AssertionError"),
        (
            _HEAD + _TASK + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n" + _FRAMES,
            "Lost task 2.0 in stage 0.0 (TID 2) (host executor driver): org.apache.spark.SparkException: Python worker "
            "exited unexpectedly (crashed)",
        ),
        ("the connection to Java is gone\nmore", "the connection to Java is gone"),
        (
            _HEAD + ": org.apache.spark.SparkException: Job 0 cancelled\n" + _FRAMES,
            "org.apache.spark.SparkException: Job 0 cancelled",
        ),
        (
            "An exception was thrown from the Python worker. Please see the stack trace below.\n"
            + _PYTHON.partition(": ")[2]
            + "ValueError: of a query\n SQLSTATE: 38000\n\nJVM stacktrace:\n"
            + _FRAMES,
            "ValueError: of a query",
        ),
    ],
)
def test_the_error_of_the_task_is_told(text: str, told: str) -> None:
    assert error_cause(RuntimeError(text)) == told


def test_an_error_without_a_text_is_told_by_its_name() -> None:
    assert error_cause(ConnectionError()) == "ConnectionError"
