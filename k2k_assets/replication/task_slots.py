"""How many tasks a Spark session runs at once: a slot without a core would silently not copy."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from k2k_assets.errors import Refused
from k2k_assets.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def task_slots(master: str, executors: int | None, cores: int | None, most: int | None) -> int | None:
    """Tasks that run at once; None where the settings do not tell (a cluster that grows by itself).

    Args:
        master: `spark.master`.
        executors: `spark.executor.instances`.
        cores: `spark.executor.cores`.
        most: `spark.cores.max`.
    """
    if master == "local":
        return 1
    local = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", master)
    if local:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster:
        return int(cluster[1]) * int(cluster[2])
    if most is not None:
        return most
    return executors * (cores or 1) if executors is not None else None


def free_cores(pipeline: Pipeline, spark: SparkSession) -> int:
    """Task slots of a session, checked against what the pipeline asks for.

    Raises:
        Refused: `configuration.partitionParallelism` is more than Spark runs at once.
    """
    found = task_slots(
        _setting(spark, "spark.master") or "",
        _number(spark, "spark.executor.instances"),
        _number(spark, "spark.executor.cores"),
        _number(spark, "spark.cores.max"),
    )
    wanted = pipeline.configuration.partition_parallelism
    if found is not None and wanted is not None and wanted > found:
        raise Refused(
            f"configuration.partitionParallelism is {wanted}, but Spark ({_setting(spark, 'spark.master')}) runs only "
            f"{found} tasks at once, and a slot without a core would not copy. Lower it, or give Spark more cores"
        )
    return found or wanted or 1


def _number(spark: SparkSession, name: str) -> int | None:
    value = _setting(spark, name)
    return int(value) if value and value.isdigit() else None


def _setting(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)
