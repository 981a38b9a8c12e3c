"""Runs a pipeline on a Spark session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import Extent
from k2k_assets.spark.slot_task import run_slots
from k2k_assets.spark.task_slots import free_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replicate(
    pipeline: Pipeline,
    spark: SparkSession,
    extent: Extent,
    *,
    topics: Collection[str] | None = None,
    stop: threading.Event | None = None,
    observer: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Copies a pipeline's topics.

    Args:
        pipeline: What to copy, and how.
        spark: Runs the slots; classic or Connect.
        extent: When to end.
        topics: Only these source topics; all that the pipeline selects if None.
        stop: When set, the slots commit what they have and end.
        observer: Called about once a second, from another thread.

    Returns:
        What was copied; topics that were stopped loudly are in it, with their reason.

    Raises:
        ClusterUnreachable: A cluster does not answer.
        Refused: Something stands against it; nothing was copied.
        Superseded: A newer instance of the group has taken over.
    """
    return replicate_with(
        partial(run_slots, spark),
        free_cores(pipeline, spark),
        pipeline,
        extent,
        topics=topics,
        stop=stop,
        observer=observer,
    )
