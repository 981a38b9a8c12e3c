"""Measures what a running sync in Dagster feels like: take-overs, clicks on Materialize, restarts and killed workers.

    python -m benchmarks.dagster_live                  # some seven minutes
    python -m benchmarks.dagster_live --minutes 2      # to try the benchmark itself
    python -m benchmarks.dagster_live --append         # the same, appended to RESULTS.md

`dagster dev` runs with the settings that are shipped while 50 records/s are written to three topics; a run of the sync
job has a window of a minute. The longest that a record has waited while one run takes over from another is the pause
of that take-over. One of them follows a reload of the code location. The first run is killed while its Spark starts.
After the minutes a run that copies is killed, and then `dagster dev` with all its processes, which is started again at
once. Each of them is killed once, because runs that fail one after the other are asked for less and less often.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import dagster as dg
import psutil

from benchmarks import machine, report
from benchmarks.dagster_lab import MODULE, NAME, RATE, TOPICS, Arrivals, dagster_dev, prepared, traffic
from benchmarks.graphql import GraphQL, free_port
from benchmarks.lab import Lab
from k2k_assets.core.deadline import wait_until
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.run_process import PROCESS_TAG

NAMES = AssetNames(NAME)
WINDOW_MINUTES = 1.0
_PATIENCE = 120.0
_BETWEEN_CLICKS = 20.0
_GOALS = {"take-over": 2.0, "click": 10.0, "restart": 30.0, "killed": 30.0}


@dataclass
class Figures:
    """What was measured, seconds.

    Attributes:
        takeovers: The longest that a record waited during each take-over.
        reloaded: The same, of the first take-over after a reload of the code location.
        clicks: From each click on Materialize to the success of its run.
        restarts: From the new start of `dagster dev` to the next copied record.
        killed: From the death of the worker that copied to the next copied record.
        starting: From the death of the worker whose Spark was starting to the next copied record.
    """

    takeovers: list[float] = field(default_factory=list)
    reloaded: list[float] = field(default_factory=list)
    clicks: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    starting: list[float] = field(default_factory=list)

    def rows(self) -> list[list[str]]:
        """Rows of the table."""
        named: list[tuple[str, str, Sequence[float]]] = [
            ("a run takes over: longest wait of a record", "take-over", self.takeovers),
            ("the same, after a reload of the code location", "take-over", self.reloaded),
            ("a click on Materialize of one topic is answered", "click", self.clicks),
            ("`dagster dev` is killed as a whole and started again: copying is on", "restart", self.restarts),
            ("a run that copies is killed: copying is on", "killed", self.killed),
            ("a run whose Spark starts is killed: copying is on", "killed", self.starting),
        ]
        return [
            [what, str(len(values)), f"{median(values):.2f}", f"{max(values):.2f}", f"{_GOALS[goal]:g}"]
            for what, goal, values in named
            if values
        ]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dagster_live", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=4.0, help="of take-overs and clicks")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    figures = Figures()
    with Lab() as lab:
        home = prepared(lab, WINDOW_MINUTES, reportsPerDay=50_000)
        ui = GraphQL(free_port(), MODULE)
        with traffic(lab), Arrivals(lab) as arrivals, _Dev(lab, home, ui) as dev:
            figures.starting.append(_killed(_await_worker(home), arrivals))
            report.progress("copying is on")
            _clicks_and_takeovers(dev, home, arrivals, figures, options.minutes)
            figures.killed.append(_killed(_await_worker(home), arrivals))
            figures.restarts.append(_restarted(dev, arrivals))
    title = (
        f"### A sync in Dagster\n\n{len(TOPICS)} topics, {RATE:g} records/s, exactly once, window of "
        f"{WINDOW_MINUTES:g} minute; seconds\n\n{machine.listed()}"
    )
    report.publish(
        [title, report.table(["what", "times", "median", "max", "goal: under"], figures.rows())], options.append
    )


class _Dev:
    """`dagster dev`, which can be killed and started again."""

    def __init__(self, lab: Lab, home: Path, ui: GraphQL) -> None:
        self.ui = ui
        self._lab, self._home = lab, home
        self._stack = ExitStack()

    def __enter__(self) -> _Dev:
        self.process = self._stack.enter_context(dagster_dev(self._lab, self._home, self.ui.port))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill(self) -> None:
        """Kills it with all that it has started."""
        _kill_with_children(psutil.Process(self.process.pid))
        self.process.wait(_PATIENCE)
        self._stack.close()


def _kill_with_children(root: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        for each in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                each.kill()


# -- take-overs and clicks ---------------------------------------------------------------------------------------------


def _clicks_and_takeovers(dev: _Dev, home: Path, arrivals: Arrivals, figures: Figures, minutes: float) -> None:
    wait_until(dev.ui.has_loaded, _PATIENCE, "the web server")
    until, reloaded = time.monotonic() + 60 * minutes, 0.0
    while time.monotonic() < until:
        began = time.monotonic()
        run = dev.ui.materialize(NAMES.topic_key(TOPICS[0]).path, {})
        wait_until(partial(dev.ui.has_ended, run), _PATIENCE, "the click to be answered", interval=0.1)
        figures.clicks.append(time.monotonic() - began)
        report.progress(f"click: {figures.clicks[-1]:.1f} s")
        if not reloaded and time.monotonic() > until - 30 * minutes:
            reloaded = time.time()
            dev.ui.reload()
            report.progress("the code location was loaded anew")
        time.sleep(max(0.0, began + _BETWEEN_CLICKS - time.monotonic()))
    for began, ended in _takeovers(home):
        waits = [wait / 1000 for when, wait in list(arrivals.waits) if began <= when <= ended + _BETWEEN_CLICKS / 2]
        figures.takeovers.append(max(waits))
        if reloaded and began > reloaded and not figures.reloaded:
            figures.reloaded.append(figures.takeovers.pop())
    report.progress(f"{figures}")


def _takeovers(home: Path) -> list[tuple[float, float]]:
    """Of each run of the sync job but the first: its begin, and the end of the one before it."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        records = instance.get_run_records(dg.RunsFilter(job_name=NAMES.sync_job), ascending=True)
    times = [(each.start_time, each.end_time) for each in records]
    pairs = [(after[0], before[1]) for before, after in pairwise(times)]
    return [(began, ended) for began, ended in pairs if began is not None and ended is not None]


# -- kills -------------------------------------------------------------------------------------------------------------


def _await_copied(arrivals: Arrivals, since: float) -> float:
    """When the first record that was written after a moment was visible on the target."""

    def first() -> float | None:
        return next((when for when, wait in list(arrivals.waits)[-500:] if when - wait / 1000 >= since), None)

    wait_until(lambda: first() is not None, _PATIENCE, "a record to be copied", interval=0.05)
    found = first()
    assert found is not None
    return found


def _restarted(dev: _Dev, arrivals: Arrivals) -> float:
    dev.kill()
    began = time.time()
    dev.__enter__()
    return _await_copied(arrivals, began) - began


def _killed(worker: psutil.Process, arrivals: Arrivals) -> float:
    _kill_with_children(worker)
    began = time.time()
    return _await_copied(arrivals, began) - began


def _await_worker(home: Path) -> psutil.Process:
    """The process of the newest run of the sync job, when it has noted it: then Spark begins to start."""

    def worker() -> psutil.Process | None:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            runs = instance.get_runs(dg.RunsFilter(job_name=NAMES.sync_job), limit=1)
        tag = runs[0].tags.get(PROCESS_TAG, "") if runs else ""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(int(tag.split()[0])) if tag else None
        return None

    wait_until(lambda: worker() is not None, _PATIENCE, "a run", interval=0.1)
    found = worker()
    assert found is not None
    return found


if __name__ == "__main__":
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    main()
