"""Describes the content of Dagster's home after a storm."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dagster as dg


def runs_in_words(home: Path) -> str:
    """How many runs each job had, how they ended, and how large the home has become."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = Counter((run.job_name, run.status.value.lower()) for run in instance.get_runs())
    size = sum(path.stat().st_blocks * 512 for path in home.rglob("*") if path.is_file())
    return f"{size / 1e6:.1f} MB; " + ", ".join(f"{count} x {job} {how}" for (job, how), count in sorted(runs.items()))
