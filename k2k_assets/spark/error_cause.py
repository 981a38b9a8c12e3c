"""Finds the one line with the cause in the long text of an error of Spark. Does not import pyspark."""

from __future__ import annotations

import re

from k2k_assets.core.errors import message_lines

_TRACEBACK = "Traceback (most recent call last):"
_LOST_TASK = re.compile(r"most recent failure: (?P<what>.+)")
# A frame of Java, and the end of the text of a task.
_JAVA = re.compile(r"at [\w.$]+[(/]|Driver stacktrace:|JVM stacktrace:|Caused by:")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+$")


def error_cause(error: BaseException) -> str:
    """The error that a task raised; else why Spark lost the task; else the Java exception; else the first line.

    Args:
        error: What Spark raised on the driver: a job that failed, a query, or a session that did not start. An error of
            something else is told by its first line.
    """
    lines = message_lines(error)
    for number, line in enumerate(lines):
        if line == _TRACEBACK or line.endswith(f" {_TRACEBACK}"):
            end = next((at for at in range(number, len(lines)) if _JAVA.match(lines[at])), len(lines))
            return _raised(lines[number + 1 : end]) or lines[0]
    if lost := next((found for line in lines if (found := _LOST_TASK.search(line))), None):
        return lost["what"]
    java = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    of_call = (line.partition("=")[2].strip(' "') for line in lines if line.startswith("details ="))
    return next(java, next(of_call, lines[0]))


def _raised(traceback: list[str]) -> str:
    """What comes after the last frame: a frame has a line of its file, one of code, and perhaps one of marks."""
    lines = [_SQL_STATE.sub("", line) for line in traceback]
    frames = [number for number, line in enumerate(lines) if line.startswith('File "')]
    rest = [line for line in lines[frames[-1] + 1 :] if set(line) - set("^~ ")] if frames else []
    return " ".join(rest[1:] or rest)
