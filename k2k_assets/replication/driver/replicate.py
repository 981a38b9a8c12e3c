"""Runs a pipeline as one instance, from the checks before the first record to the outcome from the commit log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination.peers import Peers
from k2k_assets.coordination.takeover import Takeover
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.event_log import log_event
from k2k_assets.replication.driver.events import Listener, to_all
from k2k_assets.replication.driver.first_look import FirstLook, look_at_clusters
from k2k_assets.replication.driver.generations import Generations
from k2k_assets.replication.driver.instance import Instance
from k2k_assets.replication.driver.job import Runner
from k2k_assets.replication.driver.new_topics import NewTopics
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.planning import create_missing
from k2k_assets.replication.driver.progress import ProgressReader
from k2k_assets.replication.driver.slot_count import SlotCount
from k2k_assets.replication.extent import Extent
from k2k_assets.replication.plan import ReportAddress

log = logging.getLogger("k2k.replication")


def replicate_with(
    runner: Runner,
    cores: int | Callable[[], int],
    pipeline: Pipeline,
    extent: Extent,
    *,
    topics: Collection[str] | None = None,
    look: FirstLook | None = None,
    stop: threading.Event | None = None,
    listener: Listener | None = None,
    run: str | None = None,
    await_runner: Callable[[], object] | None = None,
    reports: ReportAddress | None = None,
) -> Outcome:
    """Copies a pipeline's topics with a runner, which can run several slots at once.

    Args:
        runner: Runs one slot for each plan, and returns when all have ended.
        cores: Number of slots that the runner can run at once; a function, if that may change. It is not called before
            the runner can be used.
        pipeline: The pipeline to copy.
        extent: When the replication ends.
        topics: Only these source topics; None: all that the pipeline selects.
        look: A first look at the same topics that the caller has taken; its clients are used, and not closed.
        stop: When set, the slots commit what they have and end.
        listener: Called with each event, in this thread.
        run: Id of the Dagster run; None outside Dagster.
        await_runner: Returns when the runner can be used, or raises if it never can. It is called when all else is
            prepared, and before anything is taken over from other instances.
        reports: Where the slots report to; None: nowhere.
    """
    for info in pipeline.infos:
        log.info("%s", info)
    for warning in pipeline.warnings:
        log.warning("%s", warning)
    with ExitStack() as stack:
        if look is None:
            look = look_at_clusters(pipeline, *stack.enter_context(both_clusters(pipeline)), topics)
        if look.doubt:
            log.warning("%s", look.doubt)
        source, target = look.source, look.target
        snapshot = create_missing(pipeline, look)
        progress = ProgressReader(pipeline, snapshot.cluster_id, source, target, snapshot.partitions)
        stack.callback(progress.close)
        tail = stack.enter_context(AssignmentTail(pipeline, target))
        if await_runner:
            await_runner()
        peers = Peers(pipeline, tail)
        generations = Generations(
            pipeline=pipeline,
            extent=extent,
            snapshot=snapshot,
            slots=SlotCount(pipeline, cores if callable(cores) else _always(pipeline, cores)),
            clusters=(source, target),
            progress=progress,
            peers=peers,
            takeover=Takeover(pipeline, peers),
            new_topics=NewTopics(pipeline, source, target, topics),
            listener=to_all(log_event, listener) if listener else log_event,
            run=run,
        )
        return Instance(generations).until_done(_reporting(runner, reports), stop or threading.Event())


def _always(pipeline: Pipeline, cores: int) -> Callable[[], int]:
    """A fixed number of slots, which the caller has checked against the one that is configured."""
    number = max(cores, pipeline.slots or 0)
    return lambda: number


def _reporting(runner: Runner, reports: ReportAddress | None) -> Runner:
    if reports is None:
        return runner
    return lambda plans: runner([replace(plan, reports=reports) for plan in plans])
