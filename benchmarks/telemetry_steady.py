"""What telemetry costs, measured so that 1 % can be seen: CPU seconds a second, of a copy whose work is held steady.

    python -m benchmarks.telemetry_steady                 # some ten minutes
    python -m benchmarks.telemetry_steady --append        # the same, appended to RESULTS.md
    python -m benchmarks.telemetry_steady --pairs 4 --seconds 10
    python -m benchmarks.telemetry_steady --form records  # `transport.form`; without it auto, as `k2k start` does

Whole copies of one kind differ by 10 to 25 % here, so a hundred pairs of them would not show 1 %. But telemetry does
nothing for a record: its work comes with time (scrapes, statistics of clients, the age of what waits) and with commits.
So a copy is throttled to a little work, the same with telemetry and without, in turns, and it lags all the time, which
is the dearest case for `k2k.lag.seconds`. The difference in CPU a second is what telemetry costs, whatever else is
done in that second; it is set against the CPU a second of copies at full speed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass, replace
from statistics import mean, median, stdev

from benchmarks import machine, report
from benchmarks.commits import read_span
from benchmarks.copying import Copied, copy
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab, delete_run
from benchmarks.pipelines import AUTO, BATCHES, DEFAULT, LARGE, RECORDS, Settings, write_pipeline
from benchmarks.sampling import Sampler, require_proc, spark_processes
from benchmarks.sizes import FULL, Load
from benchmarks.telemetry import exported, with_telemetry

HEADERS = ["CPU of", "without, ms/s", "with, ms/s", "difference, ms/s", "standard error"]
SHARES = ["copy at full speed", "its CPU, ms/s", "telemetry's share of it", "at most (two standard errors)"]
_ROLES = ("driver", "JVM", "workers")
_START_SECONDS = 4.0
# Whole batches come here some 240 KB at a time: at the lower rate one would last for twelve seconds.
_RATES = {RECORDS: 20_000, BATCHES: 2_000_000, AUTO: 2_000_000}
_END_SECONDS = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Steady:
    """CPU milliseconds a second, by role and in all, and commits a second, of one stretch of steady work."""

    cpu: dict[str, float]
    commits: float

    @property
    def all(self) -> float:
        """Of all roles."""
        return sum(self.cpu.values())

    def of(self, role: str) -> float:
        """Of a role, or of `all`."""
        return self.all if role == "all" else self.cpu[role]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry_steady", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    parser.add_argument("--pairs", type=int, default=12, help="how many pairs of stretches")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a stretch")
    parser.add_argument("--form", default=AUTO, choices=(AUTO, BATCHES, RECORDS), help="transport.form")
    parser.add_argument("--rate", type=int, help="bytes a second that are copied meanwhile; as in _RATES if not given")
    options = parser.parse_args()
    rate = options.rate or _RATES[options.form]
    require_proc()
    head = machine.listed()
    load = Load("bench-telemetry", 100, 4_000_000)
    with Lab() as lab, DriverProcess(lab.folder / "driver.log") as driver:
        for one in (FULL.warm_up, load):
            lab.ensure_loaded(one)
        settings = Settings(exactly_once=True, form=options.form)
        copy(lab, driver, FULL.warm_up, settings)
        throttled = replace(settings, bytes_per_second=rate)
        off, on = _pairs(lab, driver, load, throttled, options.pairs, options.seconds)
        full = {
            size: [copy(lab, driver, load, replace(settings, batch_size=size)) for _ in range(3)]
            for size in (LARGE, DEFAULT)
        }
    cost, error = _difference("all", off, on)
    commits = mean(one.commits for one in (*off, *on))
    how = (
        f"{rate:,} B/s in records of 100 B, exactly once, transport.form {options.form}, "
        f"{commits:.0f} commits a second; "
        f"{options.pairs} pairs of {options.seconds:g} s, in turns; scraped each 5 s, statistics of clients each 10 s"
    )
    sections = [
        f"### Telemetry at steady work\n\n{how}\n\n{head}",
        report.table(HEADERS, [*(_row(role, off, on) for role in _ROLES), _row("all", off, on)]),
        report.table(SHARES, [_share(size, runs, cost, error) for size, runs in full.items()]),
    ]
    report.publish(sections, options.append)


def _pairs(
    lab: Lab, driver: DriverProcess, load: Load, settings: Settings, pairs: int, seconds: float
) -> tuple[list[Steady], list[Steady]]:
    """Stretches without and with telemetry; which comes first changes from pair to pair."""
    found: dict[bool, list[Steady]] = {False: [], True: []}
    for number in range(pairs):
        for is_on in (False, True) if number % 2 else (True, False):
            found[is_on].append(_stretch(lab, driver, load, settings, is_on, seconds))
        less, more = found[False][-1], found[True][-1]
        report.progress(f"pair {number + 1}: {less.all:.1f} and {more.all:.1f} ms/s, {more.commits:.0f} commits/s")
    return found[False], found[True]


def _stretch(lab: Lab, driver: DriverProcess, load: Load, settings: Settings, is_on: bool, seconds: float) -> Steady:
    run = f"steady-{next(_numbers)}"
    pipeline = write_pipeline(lab, run, load.topic, with_telemetry(settings, is_on))
    with exported(is_on) as variables, Sampler(lambda: spark_processes(driver.pid)) as sampler:
        driver.start(pipeline, continuous=True, telemetry=variables)
        time.sleep(_START_SECONDS)  # the start is not measured
        begun = time.time()
        time.sleep(seconds)
        ended = time.time()
        driver.ensure_running()
        driver.stop()
        driver.result(_END_SECONDS)
    span = read_span(lab, run)
    delete_run(lab, run)
    cpu = sampler.cpu_seconds(begun, ended)
    return Steady({role: cpu.get(role, 0.0) / seconds * 1000 for role in _ROLES}, span.transactions / span.seconds)


def _difference(role: str, off: list[Steady], on: list[Steady]) -> tuple[float, float]:
    """What telemetry adds to the CPU of a role, and the standard error of that."""
    differences = [more.of(role) - less.of(role) for less, more in zip(off, on, strict=True)]
    return mean(differences), stdev(differences) / len(differences) ** 0.5


def _row(role: str, off: list[Steady], on: list[Steady]) -> list[str]:
    figures = *(mean(one.of(role) for one in stretches) for stretches in (off, on)), *_difference(role, off, on)
    return [role, *(f"{figure:.1f}" for figure in figures)]


def _share(size: int, runs: list[Copied], cost: float, error: float) -> list[str]:
    busy = median(run.cost(*_ROLES) * run.per_second / 1000 for run in runs)
    speed = median(run.per_second for run in runs)
    title = f"batchSize {size:,}, {speed:,.0f} records/s"
    return [title, f"{busy:,.0f}", f"{cost / busy:.2%}", f"{(cost + 2 * error) / busy:.2%}"]


if __name__ == "__main__":
    main()
