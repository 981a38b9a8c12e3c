"""Runs a pipeline: one instance, from the checks before the first record to what the commit log says at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination.neighbours import Neighbours
from k2k_assets.coordination.vacancies import Vacancies
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.changes import Changes
from k2k_assets.replication.extent import Extent
from k2k_assets.replication.job import Runner
from k2k_assets.replication.outcome import Outcome
from k2k_assets.replication.plan import slots_for
from k2k_assets.replication.planning import prepare
from k2k_assets.replication.progress import Progress, ProgressReader
from k2k_assets.replication.run import Run
from k2k_assets.replication.task import run_slots
from k2k_assets.replication.task_slots import free_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("k2k.replication")


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


def replicate_with(
    runner: Runner,
    cores: int,
    pipeline: Pipeline,
    extent: Extent,
    *,
    topics: Collection[str] | None = None,
    stop: threading.Event | None = None,
    observer: Callable[[Progress], None] | None = None,
    await_runner: Callable[[], object] | None = None,
) -> Outcome:
    """As `replicate`, on anything that runs slots at the same time.

    Args:
        runner: Runs one slot for each plan and returns when all have ended.
        cores: How many it runs at once.
        await_runner: Returns when the runner can be used, or raises if it never can. It is called when all else is
            prepared: nothing is taken over from others before.
    """
    for warning in pipeline.warnings:
        log.warning("%s", warning)
    with ExitStack() as stack:
        source = stack.enter_context(Cluster("source", pipeline.client_properties("source", "admin")))
        target = stack.enter_context(Cluster("target", pipeline.client_properties("target", "admin")))
        ground = prepare(pipeline, source, target, topics)
        progress = ProgressReader(pipeline, ground.cluster_id, source, target, ground.partitions)
        stack.callback(progress.close)
        tail = stack.enter_context(AssignmentTail(pipeline, target))
        if await_runner:
            await_runner()
        neighbours = Neighbours(pipeline, tail)
        run = Run(
            pipeline=pipeline,
            extent=extent,
            ground=ground,
            slots=lambda partitions: slots_for(pipeline, partitions, cores),
            clusters=(source, target),
            progress=progress,
            neighbours=neighbours,
            vacancies=Vacancies(pipeline, neighbours),
            changes=Changes(pipeline, source, target, topics),
        )
        return run.until_done(runner, stop or threading.Event(), observer)
