"""Notes the process of a run in its tags, so that a sensor on the same machine sees at once that it has ended.

Dagster's default launcher starts runs on the sensors' machine, and does not watch them. Heartbeats tell the same
everywhere, but only after a while without any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import dagster as dg

from k2k_assets.core.digest import digest

PROCESS_TAG = "k2k/process"
_PROC = Path("/proc")
# After the name in parentheses: state is field 3 of `proc_pid_stat`, the start time in clock ticks field 22.
_STATE, _START = 3 - 3, 22 - 3
_ENDED_STATES, _STOPPED_STATES = ("Z", "X"), ("T", "t")


def note_process(context: dg.AssetExecutionContext) -> None:
    """Adds a tag that names this process to the run; does nothing where the system has no `/proc`.

    Call it only in a run that has no other process: the steps of other executors may end before the run does.

    Args:
        context: Context of the step.
    """
    if tags := process_tags():
        context.instance.add_run_tags(context.run_id, tags)


def process_tags() -> dict[str, str]:
    """The tag of this process; empty where the system has no `/proc`."""
    stat, place = _stat(os.getpid()), _place()
    return {PROCESS_TAG: f"{os.getpid()} {stat[_START]} {place}"} if stat and place else {}


def is_gone(tags: Mapping[str, str]) -> bool:
    """Whether the process of a run has certainly ended: it was one of this machine, and is not there any more.

    Args:
        tags: Tags of the run.
    """
    state = _state(tags)
    return state is not None and (not state or state in _ENDED_STATES)


def is_there(tags: Mapping[str, str]) -> bool:
    """Whether the process of a run certainly lives now: on this machine, and not stopped by a signal.

    Args:
        tags: Tags of the run.
    """
    state = _state(tags)
    return bool(state) and state not in (*_ENDED_STATES, *_STOPPED_STATES)


def _state(tags: Mapping[str, str]) -> str | None:
    """The state of a run's process; empty if it does not exist, None if it is not known here."""
    pid, start, place = (*tags.get(PROCESS_TAG, "").split(), "", "", "")[:3]
    if not pid.isdigit() or not place or place != _place():
        return None
    stat = _stat(int(pid))
    return stat[_STATE] if stat and stat[_START] == start else ""


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name; empty if it does not exist."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return []


@cache
def _place() -> str:
    """Where process ids have one meaning: this boot of the machine, and the namespace, which a container has too."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return digest(f"{boot} {os.readlink(_PROC / 'self/ns/pid')}")
    except OSError:
        return ""
