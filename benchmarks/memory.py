"""Watches the memory of the copy tasks: few and many records, one partition and a hundred."""

from __future__ import annotations

from benchmarks.copying import copy
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.pipelines import LARGE, Settings
from benchmarks.report import say
from benchmarks.sizes import Sizes

HEADERS = ["load", "partitions", "slots", "peak RSS", "peak PSS", "peak USS", "of at most", "records/s"]
_LIMIT_MB = 512


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of memory: the largest worker beside the JVM, MB."""
    rows = []
    with DriverProcess(lab.folder / "memory-driver.log") as driver:
        for load in sizes.memory:
            lab.ensure_loaded(load)
            copied = copy(lab, driver, load, Settings(exactly_once=True, batch_size=LARGE, fresh_workers=True))
            lab.remove(load)
            largest = copied.peaks[0]
            figures = [f"{mb:.0f}" for mb in (largest.rss, largest.pss, largest.uss, _LIMIT_MB)]
            rows.append([load.title, str(load.partitions), str(copied.slots), *figures, f"{copied.per_second:,.0f}"])
            say(" | ".join(rows[-1]))
    return rows
