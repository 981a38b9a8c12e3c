"""One instance from its first generation to its last.

A generation is one job: its slots copy the partitions that no newer instance copies. The instance draws a new
generation when the job failed, when the source has new topics or partitions, when partitions that others copied became
free, or when Spark has got cores for another number of slots. A continuous instance without partitions stands by until
then, and so does one all of whose partitions are stopped, which copies on what somebody puts right. The slots of the
old generation commit and release before those of the new one claim.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from functools import partial

from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.coordination.heartbeats import instance_heartbeats
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError, message_lines
from k2k_assets.core.words import plural
from k2k_assets.replication.driver.events import Ended, HandedOver, PartitionStopped, ProgressRead
from k2k_assets.replication.driver.generations import LONGEST_PAUSE, Generations, superseded_by_others
from k2k_assets.replication.driver.job import Job, Runner
from k2k_assets.replication.driver.job_watch import JobWatch
from k2k_assets.replication.driver.outcome import Outcome, outcome_of
from k2k_assets.replication.extent import Continuous

log = logging.getLogger("k2k.replication")

# A Spark job that fails (a killed worker, a lost executor) is run again under a new generation, so often in a row.
_MOST_FAILURES = 5
_MOST_DOUBLINGS = 10
_KILLED_WITH_US = (
    "the Spark job failed while it was to stop: %s. What its slots had in hand is copied by the next run. Was the "
    "signal sent to all processes? It is for this one alone"
)
# A stopped run waits so long for the commit topic to report how far it came: SIGKILL usually follows SIGTERM in 30 s.
_STOPPED_SECONDS = 5.0


class Instance:
    """Runs one instance: generation after generation, until its extent is reached.

    Args:
        generations: The generations of the instance.
    """

    def __init__(self, generations: Generations) -> None:
        self._generations = generations
        self._pipeline = generations.pipeline
        self._extent = generations.extent
        self._progress = generations.progress
        self._peers = generations.peers
        self._takeover = generations.takeover
        self._listener = generations.listener
        self._stops = generations.stops
        self._watch = JobWatch(generations)
        self._has_job = False
        self._is_idle = False

    def until_done(self, runner: Runner, stop: threading.Event) -> Outcome:
        """Runs generations until the extent is reached.

        Raises:
            Superseded: A newer instance copies partitions of a run with an end.
            K2KError: The instance cannot go on.
        """
        if not isinstance(self._extent, Continuous):
            return self._until_done(runner, stop)
        with instance_heartbeats(self._pipeline, self._generation_without_slots):
            return self._until_done(runner, stop)

    def _generation_without_slots(self) -> int | None:
        """The generation, if no slot of it writes heartbeats, and others have not taken over all."""
        has_slots = self._has_job and self._generations.slot_events.has_begun
        return None if has_slots or self._is_idle or self._generations.number < 0 else self._generations.number

    def _until_done(self, runner: Runner, stop: threading.Event) -> Outcome:
        started = time.monotonic()
        failures = superseded = 0
        while True:
            plans = self._generations.draw_next(stop)
            job = Job(runner, plans)
            copied_before, begun = self._copied(), time.monotonic()
            self._has_job = True
            asked = self._watch.until_done(job, stop)
            self._has_job = False
            job.raise_errors()
            self._tell_end(job, asked)
            superseded = superseded + 1 if job.superseded and self._copied() == copied_before else 0
            if job.superseded:
                log.info("a new generation is drawn: %s", job.superseded)
                self._takeover.await_others(stop)
            if superseded > 1:
                stop.wait(_pause(superseded))
            if job.failure is not None:
                self._watch.ask_to_end(again=not stop.is_set())  # slots may still run that Spark has lost
                if stop.is_set():
                    log.warning(_KILLED_WITH_US, message_lines(job.failure)[0])
            if job.failure is not None and not stop.is_set():
                lasted = isinstance(self._extent, Continuous) and time.monotonic() - begun > LONGEST_PAUSE
                worked = self._copied() > copied_before or lasted
                failures = 1 if worked else failures + 1
                self._pause_after(job.failure, failures, stop)
            elif stop.is_set() or self._is_over(job, asked):
                return self._outcome(time.monotonic() - started, stop.is_set())
            elif not asked and not job.superseded:
                self._stand_by(job, stop)
                if stop.is_set():
                    return self._outcome(time.monotonic() - started, stop.is_set())

    def _is_over(self, job: Job, asked: bool) -> bool:
        """Whether the extent is reached: always, after a job with an end, unless others took partitions over.

        Raises:
            Superseded: Others took over partitions of a run with an end.
        """
        if asked or job.superseded:
            return False
        if isinstance(self._extent, Continuous):
            return not (job.superseded_by or self._takeover.waited_for or job.has_stopped_all)
        if job.superseded_by:
            raise superseded_by_others(job.superseded_by)
        return True

    def _stand_by(self, job: Job, stop: threading.Event) -> None:
        """Waits until there is something to copy; with heartbeats where all is stopped, and others copy nothing."""
        if job.has_stopped_all:
            count = plural(len(job.partitions), "partition is", "partitions are")
            log.warning("%s stopped, and none is left to copy: standing by until one is put right, or is new", count)
            if self._watch.stand_by(stop, job.partitions):
                return
        self._is_idle = True
        self._watch.stand_by(stop)
        self._is_idle = False

    def _pause_after(self, failure: Exception, failures: int, stop: threading.Event) -> None:
        words = message_lines(failure)[0]
        if failures >= _MOST_FAILURES and not isinstance(self._extent, Continuous):
            raise K2KError(f"the Spark job failed {failures} times in a row: {words}")
        log.warning("the Spark job failed and is run again: %s", words)
        stop.wait(_pause(failures))

    def _tell_end(self, job: Job, asked: bool) -> None:
        """Emits the events in the slots' results: stops and hand-overs.

        Args:
            job: The job, which has ended.
            asked: Whether its slots were asked to end.
        """
        for tp, reason in job.stopped.items():
            if self._stops.add(tp, reason, self._generations.number):
                self._listener(PartitionStopped(tp, reason))  # no commit record has told this stop
        if elsewhere := job.superseded_by:
            self._listener(HandedOver(elsewhere, nothing_left=not asked and job.failure is None))

    def _copied(self) -> int:
        return sum(p.records for p in self._progress.current().partitions.values())

    def _outcome(self, seconds: float, stopped: bool) -> Outcome:
        """Sums up from the commit log, read anew, not from memory; a stopped run does not wait long for it."""
        patience = self._pipeline.coordination.commit.sync_timeout.total_seconds()
        deadline = Deadline(min(patience, _STOPPED_SECONDS) if stopped else patience)
        try:
            commit_log = read_commit_log(
                self._pipeline,
                self._generations.snapshot.cluster_id,
                self._generations.clusters[1],
                keep_waiting=partial(_ensure_in_time, deadline),
            )
        except _HeldAtTheEnd:
            log.warning("the commit topic is held by somebody else's transaction; what is told may not be the newest")
            commit_log = CommitLog(dict(self._progress.newest))
        for newest in commit_log.positions.values():
            self._progress.apply(newest)
        paused = dict(self._peers.paused)
        self._listener(ProgressRead(replace(self._progress.current(), paused=paused)))
        reasons = self._stops.still_stopped()
        outcome = outcome_of(
            self._generations.topics, commit_log, self._progress, reasons, self._generations.number, seconds, paused
        )
        self._listener(Ended(outcome))
        return outcome


def _pause(times: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(0.5 * 2.0 ** min(times, _MOST_DOUBLINGS), LONGEST_PAUSE)


class _HeldAtTheEnd(K2KError):
    """The commit topic was not read to its end in time, when it is needed for the report only."""


def _ensure_in_time(deadline: Deadline) -> None:
    if deadline.expired():
        raise _HeldAtTheEnd
