"""Runs a pipeline: one instance, from the checks before the first record to what the commit log says at the end.

Order is sacred: write the instance record, fence the slots of all instances before it, and only then read the commit
topic. The slots repeat the same for themselves (`session.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from k2k_assets import errors
from k2k_assets.errors import K2KError, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.announce import announce
from k2k_assets.replication.assignment import AssignmentTail, write_stop
from k2k_assets.replication.commit_log import CommitLog, read_commit_log
from k2k_assets.replication.extent import Continuous, Extent
from k2k_assets.replication.outcome import Outcome, PartitionOutcome, TopicOutcome
from k2k_assets.replication.plan import SlotPlan, slots_for
from k2k_assets.replication.planning import Ground, plan_slots, prepare
from k2k_assets.replication.progress import PartitionProgress, Progress, ProgressReader
from k2k_assets.replication.task import SlotResult, run_slots
from k2k_assets.replication.task_slots import free_cores
from k2k_assets.replication.traces import ensure_new_group
from k2k_assets.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Runner = Callable[[Sequence[SlotPlan]], list[SlotResult]]

log = logging.getLogger("k2k.replication")

_LOOK_SECONDS = 0.25
_OBSERVE_SECONDS = 1.0
# A Spark job that fails (a killed worker, a lost executor) is run again under a new generation, this often in a row.
_MOST_FAILURES = 5


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
) -> Outcome:
    """As `replicate`, on anything that runs slots at the same time.

    Args:
        runner: Runs one slot for each plan and returns when all have ended.
        cores: How many it runs at once.
    """
    with ExitStack() as stack:
        source = stack.enter_context(Cluster("source", pipeline.client_properties("source", "admin")))
        target = stack.enter_context(Cluster("target", pipeline.client_properties("target", "admin")))
        ground = prepare(pipeline, source, target, topics)
        slots = slots_for(pipeline, len(ground.partitions), cores)
        progress = ProgressReader(pipeline, ground.cluster_id, source, target, ground.partitions)
        stack.callback(progress.close)
        run = _Run(pipeline, runner, extent, ground, slots, source, target, progress)
        return run.until_done(stop or threading.Event(), observer)


@dataclass(slots=True)
class _Run:
    pipeline: Pipeline
    runner: Runner
    extent: Extent
    ground: Ground
    slots: int
    source: Cluster
    target: Cluster
    progress: ProgressReader

    def until_done(self, stop: threading.Event, observer: Callable[[Progress], None] | None) -> Outcome:
        started = time.monotonic()
        failures = 0
        while True:
            plans = self._take_over(stop)
            job = _Job(self.runner, plans)
            copied_before = self._copied()
            self._watch(job, plans[0].generation, stop, observer)
            if job.failure is None:
                stopped = _judge(job.results)
                return self._outcome(plans[0].generation, stopped, time.monotonic() - started)
            self._ensure_not_superseded(plans[0].generation)
            failures = 1 if self._copied() > copied_before else failures + 1
            if stop.is_set() or (failures >= _MOST_FAILURES and not isinstance(self.extent, Continuous)):
                raise K2KError(f"the Spark job failed {failures} times in a row: {_first_line(job.failure)}")
            log.warning("the Spark job failed and is run again: %s", _first_line(job.failure))
            stop.wait(min(0.5 * 2.0**failures, 30.0))

    def _take_over(self, stop: threading.Event) -> list[SlotPlan]:
        """Announces a new generation, fences the older ones, plans."""
        generation = announce(self.pipeline, self.target, self.slots, self.ground.commit_topic_id)
        commit_log = read_commit_log(
            self.pipeline, self.ground.cluster_id, self.target, keep_waiting=lambda: _ensure_not_stopped(stop)
        )
        self.progress.begin(commit_log)
        self.progress.counts_for(generation)
        _ensure_newer(self.pipeline, generation, commit_log)
        if not commit_log.positions:
            ensure_new_group(self.pipeline, self.target)
        known = frozenset(tp.topic for tp in commit_log.positions)
        plans = plan_slots(self.pipeline, self.ground, self.source, generation, self.slots, self.extent, known)
        log.info(
            "generation %d: %d partitions of %d topics in %d slots",
            generation, len(self.ground.partitions), len(self.ground.topics), len(plans),
        )  # fmt: skip
        return plans

    def _ensure_not_superseded(self, generation: int) -> None:
        """A new generation is drawn only by who is still the newest: else two instances would depose each other."""
        with AssignmentTail(self.pipeline, self.target) as tail:
            tail.catch_up()
            tail.ensure_newest(generation)

    def _watch(
        self, job: _Job, generation: int, stop: threading.Event, observer: Callable[[Progress], None] | None
    ) -> None:
        asked = False
        next_look = 0.0
        while not job.done.wait(_LOOK_SECONDS):
            self._read_progress()
            if stop.is_set() and not asked:
                asked = True
                write_stop(self.pipeline, generation)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + _OBSERVE_SECONDS
                self._observe(observer)
        self._read_progress()
        self._observe(observer)

    def _read_progress(self) -> None:
        """What cannot be seen now is seen later: a target that restarts is the slots' matter."""
        try:
            self.progress.read()
        except K2KError as error:
            log.warning("progress is not known: %s", error)

    def _observe(self, observer: Callable[[Progress], None] | None) -> None:
        """A source that does not answer now is the slots' matter, not a reason to end."""
        try:
            progress = self.progress.refresh()
        except K2KError as error:
            log.warning("progress is not known: %s", error)
            progress = self.progress.current()
        if observer:
            observer(progress)

    def _copied(self) -> int:
        return sum(p.records for p in self.progress.current().partitions.values())

    def _outcome(self, generation: int, stopped: dict[TopicPartition, str], seconds: float) -> Outcome:
        """From the commit log as it is now: nobody's memory."""
        commit_log = read_commit_log(self.pipeline, self.ground.cluster_id, self.target)
        for newest in commit_log.positions.values():
            self.progress.apply(newest)
        partitions = self.progress.current().partitions
        topics: dict[str, TopicOutcome] = {}
        for topic, (target_topic, count) in self.ground.topics.items():
            names = [TopicPartition(topic, p) for p in range(count)]
            outcomes = {}
            for tp in names:
                record = commit_log.positions.get(tp)
                target_end = record.target_end if record else None
                outcomes[tp.partition] = _partition_outcome(partitions[tp], self.progress.starts.get(tp), target_end)
            reasons = [f"{tp}: {stopped[tp]}" for tp in names if tp in stopped]
            topics[topic] = TopicOutcome(target_topic, outcomes, "; ".join(reasons) or None, seconds)
        return Outcome(topics, generation, seconds)


def _ensure_not_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise K2KError("stopped while the commit topic was held by somebody else's transaction; nothing was copied")


def _ensure_newer(pipeline: Pipeline, generation: int, commit_log: CommitLog) -> None:
    """Generations are offsets of the assignment topic: after it was lost they would start again below the old ones."""
    newest = max((record.generation for record in commit_log.positions.values()), default=-1)
    if newest >= generation:
        raise Refused(
            f"the assignment topic {pipeline.coordination.assignment.topic} was deleted and created anew: this run "
            f"would be generation {generation}, but group {pipeline.group} has committed as generation {newest}, and "
            "of two records the higher generation counts. To copy everything from the start, use a new group.id"
        )


class _Job:
    """The slots, run in a thread of its own: its rows come only when all slots have ended."""

    def __init__(self, runner: Runner, plans: list[SlotPlan]) -> None:
        self.done = threading.Event()
        self.results: list[SlotResult] = []
        self.failure: Exception | None = None
        threading.Thread(target=self._run, args=(runner, plans), name="k2k-slots", daemon=True).start()

    def _run(self, runner: Runner, plans: list[SlotPlan]) -> None:
        try:
            self.results = runner(plans)
        except Exception as error:
            self.failure = error
        finally:
            self.done.set()


def _partition_outcome(progress: PartitionProgress, start: int | None, target_end: int | None) -> PartitionOutcome:
    return PartitionOutcome(
        start=progress.position if start is None else start,
        position=progress.position,
        target_end=target_end,
        stable_end=max(0, progress.stable_end),
        records=progress.records,
        bytes=progress.bytes,
        runs=progress.runs,
    )


def _judge(results: list[SlotResult]) -> dict[TopicPartition, str]:
    """The stopped partitions of all slots; a slot's own error is raised, a takeover before anything else."""
    for result in sorted(results, key=lambda r: r.error != "Superseded"):
        if result.error:
            kind = getattr(errors, result.error, K2KError)
            raise kind(result.message)
    return {tp: reason for result in results for tp, reason in result.stopped.items()}


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
