"""Counts the cores that this process may use. Not `os.cpu_count()`: that tells those of the machine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Number of cores, as Java counts them: by the affinity of the process, and the quotas of its control groups.

    Args:
        cgroups: Where the control groups are, of version 2.
        own: The file that says which one the process is in.
    """
    by_affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([by_affinity, *_quotas(cgroups, own)])


def _quotas(cgroups: Path, own: Path) -> Iterator[int]:
    """The cores that each control group of the process allows, from its own up to the outermost one."""
    folder = cgroups
    with suppress(OSError):
        lines = own.read_text(encoding="utf-8").splitlines()
        folder = cgroups / next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    for each in (folder, *folder.parents):
        with suppress(OSError, ValueError):
            quota, period = (each / "cpu.max").read_text(encoding="utf-8").split()
            yield max(1, math.ceil(int(quota) / int(period)))  # "max": there is none
        if each == cgroups:
            return
