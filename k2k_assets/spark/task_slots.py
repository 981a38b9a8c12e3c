"""Computes how many tasks a Spark session runs at once, because a slot without a core would silently not copy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from k2k_assets.core.cores import usable_cores
from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def task_slots(master: str, executors: int | None, cores: int | None, most: int | None, of_task: int = 1) -> int | None:
    """Number of tasks that run at once; None if the settings do not tell it (a cluster that grows by itself).

    Args:
        master: `spark.master`.
        executors: `spark.executor.instances`, or `spark.dynamicAllocation.maxExecutors` where Spark asks for executors
            only when tasks wait for them.
        cores: `spark.executor.cores`.
        most: `spark.cores.max`.
        of_task: `spark.task.cpus`.
    """
    found = _told_by_settings(master, executors, cores, most, of_task)
    return None if found is None else max(1, found)


def _told_by_settings(
    master: str, executors: int | None, cores: int | None, most: int | None, of_task: int
) -> int | None:
    if master == "local":
        return 1
    local = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", master)
    if local:
        return (usable_cores() if local[1] == "*" else int(local[1])) // of_task
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster:
        return int(cluster[1]) * (int(cluster[2]) // of_task)
    if most is not None:
        return most // of_task
    return executors * ((cores or of_task) // of_task) if executors is not None else None


def free_cores(pipeline: Pipeline, spark: SparkSession) -> int:
    """Number of task slots of a session, see `cores_with`."""
    return cores_with(pipeline, lambda name: spark.conf.get(name, None))


def cores_with(pipeline: Pipeline, setting: Callable[[str], str | None]) -> int:
    """Number of task slots of Spark, checked against the number that the pipeline asks for.

    Args:
        pipeline: The pipeline.
        setting: Returns a setting of Spark; None if it is not set.

    Raises:
        Refused: The pipeline asks for more than Spark runs at once.
    """
    master = setting("spark.master") or ""
    grows = (setting("spark.dynamicAllocation.enabled") or "").lower() == "true"
    found = task_slots(
        master,
        _number(setting("spark.dynamicAllocation.maxExecutors" if grows else "spark.executor.instances")),
        _number(setting("spark.executor.cores")),
        _number(setting("spark.cores.max")),
        _number(setting("spark.task.cpus")) or 1,
    )
    wanted = pipeline.slots
    if found is not None and wanted is not None and wanted > found:
        raise Refused(
            f"{pipeline.slots_key} is {wanted}, but Spark ({master}) runs only "
            f"{found} tasks at once, and a slot without a core would not copy. Lower it, or give Spark more cores"
        )
    return found or wanted or 1


def _number(value: str | None) -> int | None:
    return int(value) if value and value.isdigit() else None
