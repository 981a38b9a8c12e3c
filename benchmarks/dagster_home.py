"""Measures what Dagster writes while a pipeline is copied, and how long records wait for their copy meanwhile.

    python -m benchmarks.dagster_home                 # 20 minutes: 3 topics, 50 records/s, 2 consumer groups
    python -m benchmarks.dagster_home --minutes 5     # to try the benchmark itself
    python -m benchmarks.dagster_home --append        # the same, appended to RESULTS.md
    python -m benchmarks.dagster_home --minutes 10 --window 2   # a run of two minutes after the other

`dagster dev` runs with the settings that are shipped (`k2k_assets/orchestration/dagster.yaml`) in a home of its own.
Sizes are taken when everything has settled, and again at the end; what lies between is taken for the steady state.
Records are read on the target meanwhile: the longest that one has waited is the pause when the next run of the sync job
takes over, once in `sync.window`, an hour, unless `--window` says otherwise.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from benchmarks import machine, report
from benchmarks.dagster_lab import GROUPS, PARTITIONS, RATE, TOPICS, Arrivals, dagster_dev, prepared, traffic
from benchmarks.lab import Lab

SETTLED_MINUTES = 5.0
_LARGEST = 25
_WORST_MINUTES = 5
_DAY, _HOUR, _MINUTE = 86_400.0, 3600.0, 60.0

Sizes = Counter[str]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dagster_home", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--settle", type=float, default=SETTLED_MINUTES, help="minutes before the first look")
    parser.add_argument("--window", type=float, default=60.0, help="minutes of a run of the sync job")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    with Lab() as lab:
        home = prepared(lab, options.window)
        with traffic(lab), dagster_dev(lab, home):
            _wait(options.settle, home)
            first, began = _looked(home), time.time()
            with Arrivals(lab) as arrivals:
                _wait(options.minutes, home)
            last, seconds = _looked(home), time.time() - began
        written = _sections(first, last, seconds, _runs_since(home, began), options.settle)
        sections = [*written, _arrivals(arrivals.waits), _ticks(home, began), _contents(home)]
    report.publish(sections, options.append)


def _arrivals(waited: Sequence[tuple[float, float]]) -> str:
    """How long records waited, and the longest that one waited in each of the worst minutes."""
    waits = np.array([wait for _, wait in waited])
    figures = [f"{np.percentile(waits, at):,.0f}" for at in (50, 90, 99, 99.9, 100)]
    by_minute: dict[int, float] = {}
    for when, wait in waited:
        minute = int((when - waited[0][0]) // _MINUTE)
        by_minute[minute] = max(wait, by_minute.get(minute, 0.0))
    worst = sorted(by_minute.values(), reverse=True)[:_WORST_MINUTES]
    head = ["records", "median ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "max of the worst minutes"]
    return report.table(head, [[f"{len(waits):,}", *figures, ", ".join(f"{each:,.0f}" for each in worst)]])


def _ticks(home: Path, began: float) -> str:
    """How long ticks of each sensor took."""
    with closing(sqlite3.connect(home / "schedules" / "schedules.db")) as database:
        question = "select tick_body from job_ticks where timestamp > datetime(?, 'unixepoch')"
        bodies = [json.loads(body) for (body,) in database.execute(question, (began,)).fetchall()]
    took: dict[str, list[float]] = {}
    for body in bodies:
        if body.get("end_timestamp"):
            took.setdefault(body["job_name"], []).append(body["end_timestamp"] - body["timestamp"])
    rows = [
        [name, str(len(seconds)), *(f"{np.percentile(seconds, at):.2f}" for at in (50, 99, 100))]
        for name, seconds in sorted(took.items())
    ]
    return report.table(["sensor", "ticks", "median s", "p99 s", "max s"], rows)


def _wait(minutes: float, home: Path) -> None:
    """Tells of the home's size once a minute."""
    until = time.monotonic() + minutes * _MINUTE
    pause = threading.Event()
    while (left := until - time.monotonic()) > 0:
        pause.wait(min(_MINUTE, left))
        report.progress(f"{sum(_looked(home).values()) / 1e6:.2f} MB")


# -- what is looked at -------------------------------------------------------------------------------------------------


def _looked(home: Path) -> Sizes:
    """Bytes of the files of Dagster's home, by kind."""
    sizes: Sizes = Counter()
    for path in home.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                sizes[_kind(path.relative_to(home))] += path.stat().st_blocks * 512
    return sizes


def _kind(path: Path) -> str:
    name = path.name
    if name.startswith("index.db"):
        return "index of asset events (history/runs/index.db)"
    if name.startswith(".db"):
        return "events without a run (history/runs/.db)"
    if path.parts[:2] == ("history", "runs"):
        return "events of runs (history/runs/<run>.db)"
    if path.parts[0] == "history":
        return "runs and snapshots (history/runs.db)"
    if path.parts[0] == "schedules":
        return "sensors and ticks (schedules/schedules.db)"
    if path.parts[0] == "storage":
        return "what runs print (storage/<run>)"
    return f"others ({path.parts[0]})"


def _runs_since(home: Path, began: float) -> Counter[str]:
    """How many runs of each job were created since then."""
    with closing(sqlite3.connect(home / "history" / "runs.db")) as database:
        rows = database.execute(
            "select pipeline_name, count(*) from runs where create_timestamp > datetime(?, 'unixepoch') group by 1",
            (began,),
        )
        return Counter(dict(rows.fetchall()))


def _sections(first: Sizes, last: Sizes, seconds: float, runs: Counter[str], settle: float) -> list[str]:
    title = (
        f"### What Dagster writes\n\n{len(TOPICS)} topics of {PARTITIONS} partitions, {RATE:g} records/s, "
        f"{len(GROUPS)} groups that commit each second; {seconds / _MINUTE:.0f} minutes after the first {settle:g}"
    )
    words = machine.listed()
    rows = [[kind, *_grown(first[kind], last[kind], seconds)] for kind in sorted(last)]
    rows.append(["all", *_grown(sum(first.values()), sum(last.values()), seconds)])
    head = ["kind", "KB when settled", "KB at the end", "KB an hour", "MB a day"]
    of_jobs: Sequence[Sequence[str]] = [
        [job, str(count), f"{count * _HOUR / seconds:.1f}"] for job, count in sorted(runs.items())
    ]
    total = sum(runs.values())
    all_runs = ["all", str(total), f"{total * _HOUR / seconds:.1f}"]
    return [
        f"{title}\n\n{words}",
        report.table(head, rows),
        report.table(["job", "runs", "an hour"], [*of_jobs, all_runs]),
    ]


def _contents(home: Path) -> str:
    """What the rows of the databases hold, the whole time: how many, and the bytes of their bodies."""
    found: dict[str, tuple[int, int]] = {}

    def note(file: Path, question: str, prefix: str) -> None:
        with closing(sqlite3.connect(file)) as database:
            for kind, count, size in database.execute(question).fetchall():
                before = found.get(f"{prefix} {kind}", (0, 0))
                found[f"{prefix} {kind}"] = before[0] + count, before[1] + (size or 0)

    by_type = "select coalesce(dagster_event_type, 'a line of the log'), count(*), sum(length(event)) from event_logs"
    for file in (home / "history" / "runs").glob("*.db"):
        where = {"index": "index:", ".db": "without a run:"}.get(file.stem, "in runs:")
        note(file, f"{by_type} group by 1", where)
    runs = home / "history" / "runs.db"
    note(runs, "select snapshot_type, count(*), sum(length(snapshot_body)) from snapshots group by 1", "snapshot:")
    note(runs, "select 'run', count(*), sum(length(run_body)) from runs", "record:")
    ticks = "select status, count(*), sum(length(tick_body)) from job_ticks group by 1"
    note(home / "schedules" / "schedules.db", ticks, "tick:")
    largest = sorted(found.items(), key=lambda item: -item[1][1])[:_LARGEST]
    rows = [[kind, f"{count:,}", f"{size / 1000:,.0f}"] for kind, (count, size) in largest]
    return report.table(["rows, from the beginning", "count", "KB"], rows)


def _grown(first: int, last: int, seconds: float) -> list[str]:
    rate = (last - first) / seconds
    return [
        f"{first / 1000:,.0f}",
        f"{last / 1000:,.0f}",
        f"{rate * _HOUR / 1000:,.0f}",
        f"{rate * _DAY / 1e6:,.1f}",
    ]


if __name__ == "__main__":
    main()
