"""What made a Spark job fail, in one line out of the hundred that Spark says."""

from __future__ import annotations

import re

from k2k_assets.core.errors import message_lines

_TRACEBACK = "Traceback (most recent call last):"
_LOST_TASK = re.compile(r"most recent failure: (?P<what>.+)")
# A frame of Java, and the end of the text of a task.
_JAVA = re.compile(r"at [\w.$]+[(/]|Driver stacktrace:|Caused by:")


def job_failure(failure: BaseException) -> str:
    """The error that a task raised; else why Spark lost the task; else the first line of the text.

    Args:
        failure: What the job raised on the driver.
    """
    lines = message_lines(failure)
    for number, line in enumerate(lines):
        if line == _TRACEBACK or line.endswith(f" {_TRACEBACK}"):
            end = next((at for at in range(number, len(lines)) if _JAVA.match(lines[at])), len(lines))
            return _raised(lines[number + 1 : end]) or lines[0]
    lost = next((found for line in lines if (found := _LOST_TASK.search(line))), None)
    return lost["what"] if lost else lines[0]


def _raised(traceback: list[str]) -> str:
    """What comes after the last frame: a frame has a line of its file, one of code, and perhaps one of marks."""
    frames = [number for number, line in enumerate(traceback) if line.startswith('File "')]
    rest = [line for line in traceback[frames[-1] + 1 :] if set(line) - set("^~ ")] if frames else []
    return " ".join(rest[1:] or rest)
