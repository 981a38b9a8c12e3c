"""Tags of runs: Dagster must not retry them, and sensors read their windows, and whether they have worked."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
from dagster._core.storage.tags import HIDDEN_TAG_PREFIX, MAX_RETRIES_TAG

HIDDEN = f"{HIDDEN_TAG_PREFIX}k2k/"
"""How tags begin that only sensors read: Dagster's pages do not show them."""
WINDOW_TAG = "k2k/window_seconds"
WORKED_TAG = f"{HIDDEN}worked"


def asked_for_by_sensor(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags of a job whose runs a sensor requests: Dagster does not launch them again when they fail.

    The sensor itself requests the next run when it is time. A retry by Dagster would run beside it, and the sensor
    would not know it as its own.

    Args:
        tags: Tags that identify the job.
    """
    return {**tags, MAX_RETRIES_TAG: "0"}


def window_tags(seconds: float) -> dict[str, str]:
    """The tag of a run whose window is not `sync.window`.

    Args:
        seconds: Length of the window.
    """
    return {WINDOW_TAG: f"{seconds:.0f}"}


def window_of(tags: Mapping[str, str]) -> float | None:
    """The window of a run in seconds; None if it is `sync.window`."""
    try:
        return float(tags[WINDOW_TAG])
    except (KeyError, ValueError):
        return None


def note_worked(context: dg.AssetExecutionContext) -> None:
    """Adds a tag to the run: it has started, and does its work.

    A sensor that finds it dead later does not count it among those that fail to start, and waits for nothing.

    Args:
        context: Context of the step.
    """
    context.instance.add_run_tags(context.run_id, worked_tags(context.run_id))


def worked_tags(run_id: str) -> dict[str, str]:
    """The tag of a run that has worked.

    Args:
        run_id: The run. A run that is executed again begins with the tags of the former one.
    """
    return {WORKED_TAG: run_id}


def has_worked(run: dg.DagsterRun) -> bool:
    """Whether a run has done any of its work.

    Args:
        run: The run.
    """
    return run.tags.get(WORKED_TAG) == run.run_id
