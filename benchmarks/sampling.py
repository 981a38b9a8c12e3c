"""Watches processes: CPU time (user and system) and memory, sampled often enough to be read between two moments.

Linux only: memory comes from `/proc`.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import psutil

_INTERVAL = 0.05
# Listing all processes costs some milliseconds, reading the proportional set size too.
_LOOK_SECONDS = 0.5
_MB = 1e6

Watched = Callable[[], Mapping[int, str]]


@dataclass(slots=True)
class Peak:
    """Most memory that a process held, MB.

    Attributes:
        role: What the process is.
        rss: Resident, the kernel's own high-water mark.
        pss: Resident, shared pages counted in part; sampled.
        uss: Not shared with anybody; sampled.
    """

    role: str
    rss: float = 0.0
    pss: float = 0.0
    uss: float = 0.0


class Sampler:
    """A thread that samples until the `with` block ends.

    Args:
        watched: The processes and their roles; asked again and again.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._roles: dict[int, str] = {}
        self._processes: dict[int, psutil.Process] = {}
        self._times: dict[int, list[float]] = defaultdict(list)
        self._cpu: dict[int, list[float]] = defaultdict(list)
        self.peaks: dict[int, Peak] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(10.0)

    def cpu_seconds(self, start: float, end: float) -> dict[str, float]:
        """CPU time of each role between two moments.

        Args:
            start: Seconds since the epoch.
            end: Likewise.
        """
        seconds: dict[str, float] = defaultdict(float)
        for pid, role in self._roles.items():
            if self._times[pid]:
                before, after = np.interp([start, end], self._times[pid], self._cpu[pid])
                seconds[role] += float(after - before)
        return dict(seconds)

    def peaks_of(self, role: str) -> list[Peak]:
        """Memory of all processes of a role, the largest first."""
        return sorted((p for p in self.peaks.values() if p.role == role), key=lambda peak: -peak.rss)

    def _sample(self) -> None:
        next_look = 0.0
        while not self._end.wait(_INTERVAL):
            look = time.monotonic() >= next_look
            if look:
                self._find()
                next_look = time.monotonic() + _LOOK_SECONDS
            for pid, process in list(self._processes.items()):
                try:
                    times = process.cpu_times()
                    self._times[pid].append(time.time())
                    self._cpu[pid].append(times.user + times.system)
                    if look:
                        self._look_at_memory(pid, process)
                except (psutil.Error, OSError):
                    del self._processes[pid]

    def _find(self) -> None:
        for pid, role in self._watched().items():
            if pid not in self._roles:
                try:
                    self._processes[pid] = psutil.Process(pid)
                    # Starts the kernel's high-water mark anew.
                    Path(f"/proc/{pid}/clear_refs").write_text("5")
                except (psutil.Error, OSError):
                    continue
                self._roles[pid] = role
                self.peaks[pid] = Peak(role)

    def _look_at_memory(self, pid: int, process: psutil.Process) -> None:
        peak, now = self.peaks[pid], process.memory_full_info()
        status = Path(f"/proc/{pid}/status").read_text()
        # A process that has ended but was not yet waited for has no such line.
        high = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
        peak.rss = max(peak.rss, high * 1024 / _MB)
        peak.pss = max(peak.pss, now.pss / _MB)
        peak.uss = max(peak.uss, now.uss / _MB)


def spark_processes(driver: int) -> dict[int, str]:
    """The driver, its JVM and the Python workers below that."""
    try:
        children = psutil.Process(driver).children(recursive=True)
    except psutil.Error:
        return {}
    found = {driver: "driver"}
    for child in children:
        try:
            found[child.pid] = "JVM" if child.name() == "java" else "workers"
        except psutil.Error:
            continue
    return found


def require_proc() -> None:
    """Refuses a system without Linux' `/proc`.

    Raises:
        SystemExit: It is one.
    """
    if not Path("/proc/self/status").exists():
        raise SystemExit("The benchmark reads CPU time and memory from /proc: it runs on Linux only.")
