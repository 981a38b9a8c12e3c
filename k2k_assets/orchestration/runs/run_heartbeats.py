"""The heartbeats of a run that updates and checks the offset mappings.

Dagster's default launcher does not watch its processes: the record of a run whose process was killed stays in progress.
The sensor would wait for it, and meanwhile nobody would update or check the mappings.
"""

from __future__ import annotations

from k2k_assets.control.assignment_records import run_heartbeat_key, time_value
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination.heartbeats import Heartbeats
from k2k_assets.pipeline import Pipeline

SILENT_SECONDS = 60.0
"""A run that has written no heartbeat for so long is dead. From one step to the next a process may have to start."""


def run_heartbeats(pipeline: Pipeline, run_id: str) -> Heartbeats:
    """The heartbeats of a run, to be written while one of its steps works.

    Args:
        pipeline: The pipeline.
        run_id: Id of the run.
    """
    key = run_heartbeat_key(pipeline.group, run_id)
    return Heartbeats(pipeline, lambda: (key, time_value(now_ms())), leaves_none=True)
