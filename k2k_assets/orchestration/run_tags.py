"""Tags of runs that tell Dagster what not to do with them, and the sensors how long they stay."""

from __future__ import annotations

from collections.abc import Mapping

from dagster._core.storage.tags import MAX_RETRIES_TAG

WINDOW_TAG = "k2k/window_seconds"


def asked_for_by_sensor(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags of a job whose runs a sensor asks for: Dagster does not launch them again when they fail.

    The sensor asks for the next one itself, when it is time. Another would run beside it, and the sensor would take it
    for one that it has not asked for.

    Args:
        tags: That tell which job it is.
    """
    return {**tags, MAX_RETRIES_TAG: "0"}


def window_tags(seconds: float) -> dict[str, str]:
    """The tag of a run whose window is not `sync.window`.

    Args:
        seconds: Its window.
    """
    return {WINDOW_TAG: f"{seconds:.0f}"}


def window_of(tags: Mapping[str, str]) -> float | None:
    """The window of a run, seconds; None where it is `sync.window`."""
    try:
        return float(tags[WINDOW_TAG])
    except (KeyError, ValueError):
        return None
