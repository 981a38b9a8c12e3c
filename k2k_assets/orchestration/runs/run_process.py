"""Notes the process of a run in its tags, so that a sensor on the same machine sees at once that it has ended.

Dagster's default launcher starts runs on the sensors' machine, and does not watch them. Heartbeats tell the same
everywhere, but only after a while without any.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import dagster as dg

from k2k_assets.core.digest import digest
from k2k_assets.orchestration.runs.run_tags import HIDDEN

PROCESS_TAG = f"{HIDDEN}process"
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
    if tags := process_tags(context.run_id):
        context.instance.add_run_tags(context.run_id, tags)


def process_tags(run_id: str) -> dict[str, str]:
    """The tag of this process; empty where the system has no `/proc`.

    Args:
        run_id: The run that it executes. A run that is executed again begins with the tags of the former one.
    """
    stat, place = _stat(os.getpid()), _place()
    return {PROCESS_TAG: f"{os.getpid()} {stat[_START]} {place} {run_id}"} if stat and place else {}


def is_gone(run: dg.DagsterRun) -> bool:
    """Whether the process of a run has certainly ended: it was one of this machine, and is not there any more.

    Args:
        run: The run.
    """
    state = _state(run)
    return state is not None and (not state or state in _ENDED_STATES)


def is_there(run: dg.DagsterRun) -> bool:
    """Whether the process of a run certainly lives now: on this machine, and not stopped by a signal.

    Args:
        run: The run.
    """
    state = _state(run)
    return bool(state) and state not in (*_ENDED_STATES, *_STOPPED_STATES)


def _state(run: dg.DagsterRun) -> str | None:
    """The state of a run's process; empty if it does not exist, None if it is not known here."""
    pid, start, place, noted = (*run.tags.get(PROCESS_TAG, "").split(), "", "", "", "")[:4]
    if not pid.isdigit() or not place or place != _place() or noted != run.run_id:
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
