"""What telemetry costs a copy: the same copies with and without it, in turns.

    python -m benchmarks.telemetry                    # some fifteen minutes, on a quiet machine
    python -m benchmarks.telemetry --append           # the same, appended to RESULTS.md
    python -m benchmarks.telemetry --records 500000 --pairs 2

With it: metrics scraped each five seconds, statistics of clients each ten, as with `k2k start -t`. What runs first
changes from pair to pair. CPU is that of driver, Java and workers, between the first and the last commit.
"""

from __future__ import annotations

import argparse
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from statistics import median

from benchmarks import machine, report
from benchmarks.copying import Copied, copy
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.pipelines import DEFAULT, LARGE, Settings
from benchmarks.sampling import require_proc
from benchmarks.sizes import FULL, Load

HEADERS = ["batchSize", "without, us", "with, us", "pairs: median of the differences", "least to most", "records/s"]
SCRAPE_SECONDS = 5.0
STATISTICS = "10 seconds"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    parser.add_argument("--records", type=int, default=8_000_000, help="records of 100 B in a copy")
    parser.add_argument("--pairs", type=int, default=8, help="how many pairs of copies with each batchSize")
    options = parser.parse_args()
    require_proc()
    head = machine.listed()
    load = Load("bench-telemetry", 100, options.records)
    with Lab() as lab, DriverProcess(lab.folder / "driver.log") as driver:
        lab.ensure_loaded(FULL.warm_up)
        lab.ensure_loaded(load)
        copy(lab, driver, FULL.warm_up, Settings(exactly_once=True))
        rows = [_row(lab, driver, load, size, options.pairs) for size in (LARGE, DEFAULT)]
    how = f"{load.title}, exactly once; CPU of driver, JVM and workers a record; {options.pairs} pairs, in turns"
    sections = [f"### Telemetry on and off\n\n{how}\n\n{head}", report.table(HEADERS, rows)]
    report.publish(sections, options.append)


def _row(lab: Lab, driver: DriverProcess, load: Load, size: int, pairs: int) -> list[str]:
    off: list[Copied] = []
    on: list[Copied] = []
    for number in range(pairs):
        for is_on in (False, True) if number % 2 else (True, False):
            (on if is_on else off).append(copied(lab, driver, load, size, is_on))
        report.progress(f"batchSize {size}, pair {number + 1}: {_cost(off[-1]):.3f} and {_cost(on[-1]):.3f} us")
    differences = sorted(_cost(with_it) / _cost(without) - 1 for without, with_it in zip(off, on, strict=True))
    speeds = [f"{median(run.per_second for run in runs):,.0f}" for runs in (off, on)]
    return [
        f"{size:,}",
        f"{median(map(_cost, off)):.3f}",
        f"{median(map(_cost, on)):.3f}",
        f"{median(differences):+.1%}",
        f"{differences[0]:+.1%} to {differences[-1]:+.1%}",
        " and ".join(speeds),
    ]


def copied(lab: Lab, driver: DriverProcess, load: Load, size: int, is_on: bool) -> Copied:
    settings = with_telemetry(Settings(exactly_once=True, batch_size=size), is_on)
    with exported(is_on) as variables:
        return copy(lab, driver, load, settings, variables)


def with_telemetry(settings: Settings, is_on: bool) -> Settings:
    """The same settings, with statistics of clients if telemetry is on."""
    return replace(settings, client_statistics=STATISTICS) if is_on else settings


@contextmanager
def exported(is_on: bool) -> Iterator[dict[str, str] | None]:
    """Scrapes as Prometheus does; yields the variables by which metrics are exported, None if telemetry is off."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    variables = {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": port,
    }
    with _scraping(f"http://127.0.0.1:{port}/metrics") if is_on else nullcontext():
        yield variables if is_on else None


def _cost(run: Copied) -> float:
    return run.cost("workers", "driver", "JVM")


@contextmanager
def _scraping(address: str) -> Iterator[None]:
    """Reads the metrics now and then, as Prometheus does."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(SCRAPE_SECONDS):
            with suppress(OSError), urllib.request.urlopen(address, timeout=SCRAPE_SECONDS) as answer:
                answer.read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2 * SCRAPE_SECONDS)


if __name__ == "__main__":
    main()
