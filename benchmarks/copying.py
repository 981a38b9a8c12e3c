"""Copies the loads with this project and measures what a record costs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks.commits import read_span
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab, delete_run
from benchmarks.pipelines import DEFAULT, LARGE, Settings, write_pipeline
from benchmarks.report import progress, say, table
from benchmarks.sampling import Peak, Sampler, spark_processes
from benchmarks.sizes import Load, Sizes

_RUN_SECONDS = 600.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Copied:
    """One measured copy.

    Attributes:
        seconds: Between the first and the last commit.
        records: Copied in that time.
        cpu: User and system seconds of each role in that time.
        transactions: In the whole run.
        slots: That copied.
        peaks: Memory of each worker.
    """

    seconds: float
    records: int
    cpu: Mapping[str, float]
    transactions: int = 0
    slots: int = 0
    peaks: tuple[Peak, ...] = ()

    @property
    def per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    def cost(self, *roles: str) -> float:
        """CPU microseconds a record, of the roles together."""
        return sum(self.cpu.get(role, 0.0) for role in roles) / self.records * 1e6


HEADERS = ["what", "load", "mode", "workers", "driver", "JVM", "all", "brokers", "records/s", "MB/s", "of runs", "note"]


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of copies: each load, both modes, both batch sizes."""
    rows = []
    with DriverProcess(lab.folder / "driver.log") as driver:
        for load in (sizes.warm_up, *sizes.loads):
            lab.ensure_loaded(load)
        copy(lab, driver, sizes.warm_up, Settings(exactly_once=True))
        progress("warm")
        for settings in _variants():
            for load in sizes.loads:
                runs = [copy(lab, driver, load, settings) for _ in range(sizes.repeat)]
                rows.append(row(f"k2k, batchSize {settings.batch_size}", load, settings.mode, runs, note(runs)))
                say(table(HEADERS, rows[-1:]) if len(rows) == 1 else table(HEADERS, rows[-1:]).splitlines()[-1])
    return rows


def copy(
    lab: Lab,
    driver: DriverProcess,
    load: Load,
    settings: Settings,
    telemetry: Mapping[str, str] | None = None,
) -> Copied:
    """Copies a load once, to topics that are removed afterwards.

    Args:
        lab: Where the clusters are.
        driver: The process that copies.
        load: What is copied.
        settings: How it is copied.
        telemetry: Variables by which metrics are exported; None: as without `-t`.

    Raises:
        RuntimeError: The run failed, or did not copy all.
    """
    run = f"run-{next(_numbers)}"
    pipeline = write_pipeline(lab, run, load.topic, settings)
    with ExitStack() as stack:
        stack.callback(delete_run, lab, run)
        sampler = stack.enter_context(Sampler(lambda: {**spark_processes(driver.pid), **lab.broker_processes()}))
        driver.start(pipeline, telemetry=telemetry)
        outcome = driver.result(_RUN_SECONDS)
        if outcome["records"] != load.records:
            raise RuntimeError(f"{outcome['records']} of {load.records} records were copied")
        span = read_span(lab, run)
    # The daemon that forks the workers is one of them, and by far the smallest.
    peaks = tuple(sampler.peaks_of("workers")[: span.slots])
    cpu = sampler.cpu_seconds(span.start, span.end)
    return Copied(max(span.seconds, 1e-3), max(span.records, 1), cpu, span.transactions, span.slots, peaks)


def row(what: str, load: Load, mode: str, runs: list[Copied], note: str) -> list[str]:
    """A row of the table: medians over the runs."""

    def cost(*roles: str) -> str:
        return f"{median(run.cost(*roles) for run in runs):.2f}"

    speeds = sorted(run.per_second for run in runs)
    speed = median(speeds)
    return [
        what, load.title, mode, cost("workers"), cost("driver"), cost("JVM"), cost("workers", "driver", "JVM"),
        cost("source broker", "target broker"), f"{speed:,.0f}", f"{speed * load.size / 1e6:.1f}",
        f"{len(runs)}: {speeds[0]:,.0f} to {speeds[-1]:,.0f}", note,
    ]  # fmt: skip


def _variants() -> list[Settings]:
    return [Settings(once, size) for size in (LARGE, DEFAULT) for once in (True, False)]


def note(runs: list[Copied]) -> str:
    """Transactions, slots and memory of the runs of a row."""
    last = runs[-1]
    rss = " + ".join(f"{max(p.rss for p in at):.0f}" for at in zip(*(run.peaks for run in runs), strict=False))
    return f"{last.transactions} transactions in {last.slots} slots, worker RSS {rss} MB"
