"""Watches the memory of copy tasks: few and many records, one partition and a hundred, new workers and used ones."""

from __future__ import annotations

from benchmarks.copying import Copied, copy
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.pipelines import BATCHES, LARGE, RECORDS, Settings
from benchmarks.report import say
from benchmarks.sizes import Load, Sizes

HEADERS = ["load", "partitions", "slots", "peak RSS", "peak PSS", "peak USS", "of at most", "records/s"]
_LIMIT_MB = {RECORDS: 512, BATCHES: 256}


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of memory: the largest worker beside the JVM, MB."""
    rows = []
    with DriverProcess(lab.folder / "memory-driver.log") as driver:
        for load in sizes.memory:
            lab.ensure_loaded(load)
            for form in (RECORDS, BATCHES):
                settings = Settings(exactly_once=True, batch_size=LARGE, fresh_workers=True, form=form)
                rows.append(_row(load, f"{load.title}, by {form}", copy(lab, driver, load, settings), form))
            if load is not sizes.memory[-1]:
                lab.remove(load)
        for run in range(1, sizes.again + 1):
            copied = copy(lab, driver, load, Settings(exactly_once=True, batch_size=LARGE))
            if run in (1, sizes.again // 2, sizes.again):
                rows.append(_row(load, f"{load.title}, run {run} of the same workers", copied))
        lab.remove(load)
    return rows


def _row(load: Load, title: str, copied: Copied, form: str = RECORDS) -> list[str]:
    largest = copied.peaks[0]
    figures = [f"{mb:.0f}" for mb in (largest.rss, largest.pss, largest.uss, _LIMIT_MB[form])]
    row = [title, str(load.partitions), str(copied.slots), *figures, f"{copied.per_second:,.0f}"]
    say(" | ".join(row))
    return row
