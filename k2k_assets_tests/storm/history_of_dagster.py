"""Describes the content of Dagster's home after a storm, and compares its size with what is promised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dagster as dg

# What is promised of a pipeline that runs for days, with the ticks that are kept for a day: MB a day.
_A_DAY = 50.0 + 25.0
# What Dagster writes before the first run: files of its tables, snapshots of the definitions and of the jobs.
_AT_FIRST = 1.5
# What a further run costs: its file of events, what it prints, and a report of each of a dozen topics or groups, which
# Dagster keeps twice.
_A_RUN = 0.3
_DAY_SECONDS = 86_400.0


def runs_in_words(home: Path, seconds: float) -> str:
    """How many runs each job had, how they ended, how large the home has become, and how large it may be.

    Args:
        home: Dagster's home.
        seconds: How long Dagster has run.
    """
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = Counter((run.job_name, run.status.value.lower()) for run in instance.get_runs())
    sizes = _sizes(home)
    kinds = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in sizes.most_common(5))
    ended = ", ".join(f"{count} x {job} {how}" for (job, how), count in sorted(runs.items()))
    return f"{sizes.total() / 1e6:.1f} MB ({kinds}), at most {_allowed(seconds, runs.total()):.1f}; {ended}"


def too_large(home: Path, seconds: float) -> list[str]:
    """Says that the home has become larger than is promised, if it has."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = instance.get_runs_count()
    size, allowed = _sizes(home).total() / 1e6, _allowed(seconds, runs)
    said = f"Dagster's home has {size:.1f} MB after {seconds:.0f} s and {runs} runs, which is more than {allowed:.1f}"
    return [said] if size > allowed else []


def _allowed(seconds: float, runs: int) -> float:
    return _AT_FIRST + _A_DAY * seconds / _DAY_SECONDS + _A_RUN * runs


def _sizes(home: Path) -> Counter[str]:
    """Bytes on the disk by the first two folders."""
    sizes: Counter[str] = Counter()
    for path in home.rglob("*"):
        if path.is_file():
            sizes["/".join(path.relative_to(home).parts[:2][:-1]) or path.name] += path.stat().st_blocks * 512
    return sizes
