"""One instance from its first generation to its last.

A generation is one job: its slots copy the partitions that no newer instance copies. The instance draws a new
generation when the job failed, when the source has new topics or partitions, when partitions that others copied became
free, or when Spark has got cores for another number of slots. A continuous instance without partitions stands by until
then. The slots of the old generation commit and release before those of the new one claim.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial

from k2k_assets.control.assignment_records import InstanceRecord
from k2k_assets.control.assignment_tail import AssignmentTopicLost
from k2k_assets.control.assignment_writing import new_instance, write_stop
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.traces import ensure_new_group, mapped_so_far
from k2k_assets.coordination.orphaned_transactions import OrphanedTransactions
from k2k_assets.coordination.peers import Peers
from k2k_assets.coordination.takeover import Takeover
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, NotAllowed, Superseded
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.event_log import log_event
from k2k_assets.replication.driver.events import (
    Ended,
    GenerationStarted,
    HandedOver,
    Listener,
    PartitionStopped,
    ProgressRead,
)
from k2k_assets.replication.driver.job import Job, Runner
from k2k_assets.replication.driver.job_failure import job_failure
from k2k_assets.replication.driver.latest_starts import hold_latest_starts
from k2k_assets.replication.driver.new_topics import NewTopics
from k2k_assets.replication.driver.outcome import Outcome, outcome_of
from k2k_assets.replication.driver.planning import ClusterSnapshot, plan_slots
from k2k_assets.replication.driver.progress import ProgressReader
from k2k_assets.replication.driver.slot_count import SlotCount
from k2k_assets.replication.driver.slot_events import SlotEvents
from k2k_assets.replication.extent import Continuous, Extent
from k2k_assets.replication.plan import SlotPlan, spread

log = logging.getLogger("k2k.replication")

_POLL_SECONDS = 0.25
_OBSERVE_SECONDS = 1.0
_ASK_AGAIN_SECONDS = 5.0
# A Spark job that fails (a killed worker, a lost executor) is run again under a new generation, so often in a row.
_MOST_FAILURES = 5
_LONGEST_PAUSE = 30.0
_MOST_DOUBLINGS = 10
_KILLED_WITH_US = (
    "the Spark job failed while it was to stop: %s. What its slots had in hand is copied by the next run. Was the "
    "signal sent to all processes? It is for this one alone"
)
# A stopped run waits so long for the commit topic to report how far it came: SIGKILL usually follows SIGTERM in 30 s.
_STOPPED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Stop:
    """A stop of a partition: the reason, the generation, and the newest commit record at that time."""

    reason: StopReason
    generation: int
    newest: CommitRecord | None


@dataclass(slots=True)
class Instance:
    """Runs one instance: generation after generation, until its extent is reached.

    Attributes:
        pipeline: The pipeline to copy.
        extent: When the instance ends.
        snapshot: The clusters at the last look.
        slots: Tells the number of slots of a generation.
        clusters: Source and target.
        progress: Follows the commit topic.
        peers: The other instances.
        takeover: Decides when partitions of others are taken over.
        new_topics: Looks for new topics and partitions.
        listener: Called with each event.
        run: Id of the Dagster run; None outside Dagster.
    """

    pipeline: Pipeline
    extent: Extent
    snapshot: ClusterSnapshot
    slots: SlotCount
    clusters: tuple[Cluster, Cluster]
    progress: ProgressReader
    peers: Peers
    takeover: Takeover
    new_topics: NewTopics
    listener: Listener = log_event
    run: str | None = None
    _instance: InstanceRecord | None = None
    _generation: int = -1
    _stopped: dict[TopicPartition, _Stop] = field(default_factory=dict)
    _topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    _begun_with: frozenset[str] = frozenset()
    _next_observation: float = 0.0
    _asks_again: float = 0.0
    _slot_events: SlotEvents = field(init=False)

    def __post_init__(self) -> None:
        """Makes the source of slot events, which reads claims and commits from the control topics."""
        self._slot_events = SlotEvents(self.progress, self.peers, self.listener)

    def until_done(self, runner: Runner, stop: threading.Event) -> Outcome:
        """Runs generations until the extent is reached.

        Raises:
            Superseded: A newer instance copies partitions of a run with an end.
            K2KError: The instance cannot go on.
        """
        started = time.monotonic()
        failures = superseded = 0
        while True:
            plans = self._next_generation(stop)
            job = Job(runner, plans)
            copied_before, begun = self._copied(), time.monotonic()
            asked = self._watch(job, stop)
            job.raise_errors()
            self._tell_end(job, asked)
            superseded = superseded + 1 if job.superseded and self._copied() == copied_before else 0
            if job.superseded:
                log.info("a new generation is drawn: %s", job.superseded)
            if superseded > 1:
                stop.wait(_pause(superseded))
            if job.failure is not None:
                self._ask_to_end(again=not stop.is_set())  # slots may still run that Spark has lost
                if stop.is_set():
                    log.warning(_KILLED_WITH_US, job_failure(job.failure))
            if job.failure is not None and not stop.is_set():
                lasted = isinstance(self.extent, Continuous) and time.monotonic() - begun > _LONGEST_PAUSE
                worked = self._copied() > copied_before or lasted
                failures = 1 if worked else failures + 1
                self._pause_after(job.failure, failures, stop)
            elif stop.is_set() or self._is_over(job, asked):
                return self._outcome(time.monotonic() - started, stop.is_set())
            elif not asked and not job.superseded:
                self._stand_by(stop)
                if stop.is_set():
                    return self._outcome(time.monotonic() - started, stop.is_set())

    # -- generations --------------------------------------------------------------------------------------------

    def _next_generation(self, stop: threading.Event) -> list[SlotPlan]:
        """Takes over and plans. After its first generation a continuous instance waits for unreachable clusters here.

        It waits for missing permissions too.
        """
        pause = 0.5
        while True:
            try:
                return self._take_over(stop)
            except _StoppedMeanwhile:
                log.warning("stopped while the commit topic was held by somebody else's transaction")
                return []
            except (ClusterUnreachable, NotAllowed) as error:
                if self._generation < 0 or not isinstance(self.extent, Continuous) or stop.is_set():
                    raise
                log.warning("waiting for a cluster: %s", error)
                stop.wait(pause)
                for cluster in self.clusters:
                    cluster.renew_if_disturbed()
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _take_over(self, stop: threading.Event) -> list[SlotPlan]:
        """Draws a generation for all partitions that no newer instance copies, and plans the slots."""
        self.peers.catch_up()
        self.snapshot = self.snapshot.seen_again(*self.clusters)
        elsewhere = self.takeover.take(self.snapshot.topic_ids)
        if elsewhere and not isinstance(self.extent, Continuous):
            raise _superseded(elsewhere)
        mine = [tp for tp in self.snapshot.partitions if tp not in elsewhere]
        self._begun_with = self._begun_with or frozenset(self.snapshot.topics)
        self._topics.update(self.snapshot.topics)
        self.progress.follow(self.snapshot.partitions)
        if elsewhere:
            self.listener(HandedOver(elsewhere, nothing_left=not mine))
        if not mine:
            return []
        shares = spread(mine, self.slots.plan(len(mine)))
        self._generation = self.peers.draw_generation(self._as_instance(len(shares)))
        mapped = mapped_so_far(self.pipeline, self.clusters[1])
        commit_log = self._read_commit_log(stop, len(shares))
        self.peers.catch_up()  # reading the commit topic may have taken long, and slots may be dead by now
        dead = self.peers.dead()
        self.peers.ensure_not_lost(max((r.generation for r in commit_log.positions.values()), default=-1))
        if commit_log.is_whole and not (commit_log.positions or commit_log.passed_over):
            ensure_new_group(self.pipeline, self.clusters[1], mapped)
        # Topics that appeared while this instance ran start at their beginning, like new partitions of known topics.
        appeared = self.snapshot.topics.keys() - self._begun_with
        known = frozenset(tp.topic for tp in commit_log.positions) | appeared
        begins_at = hold_latest_starts(
            self.pipeline,
            self.snapshot,
            self.clusters[0],
            self.peers.first_starts,
            {*commit_log.positions, *commit_log.unreadable},
            appeared,
            all_is_known=commit_log.tells_all,
        )
        plans = plan_slots(
            self.pipeline,
            self.snapshot,
            self.clusters[0],
            self._generation,
            shares,
            self.extent,
            known,
            begins_at,
            dead=dead,
        )
        claimable = {tp: topic_id for tp, topic_id in self.snapshot.topic_ids.items() if tp not in elsewhere}
        self._slot_events.begin(self._generation, claimable)
        self.listener(GenerationStarted(self._generation, len(mine), len(plans)))
        return plans

    def _as_instance(self, slots: int) -> InstanceRecord:
        continuous = isinstance(self.extent, Continuous)
        commit_topic_id = self.snapshot.control.commit_topic_id
        own = self._instance or new_instance(self.pipeline, slots, commit_topic_id, continuous, self.run)
        self._instance = replace(own, slots=slots, commit_topic_id=commit_topic_id)
        return self._instance

    def _read_commit_log(self, stop: threading.Event, slots: int) -> CommitLog:
        target = self.clusters[1]
        dead = OrphanedTransactions(self.pipeline, target, self.peers, slots)

        def while_waiting() -> None:
            _ensure_not_stopped(stop)
            dead.fence()

        commit_log = read_commit_log(self.pipeline, self.snapshot.cluster_id, target, keep_waiting=while_waiting)
        self.progress.begin(commit_log)
        self.progress.counts_for(self._generation)
        return commit_log

    def _is_over(self, job: Job, asked: bool) -> bool:
        """Whether the extent is reached: always, after a job with an end, unless others took partitions over.

        Raises:
            Superseded: Others took over partitions of a run with an end.
        """
        if asked or job.superseded:
            return False
        if isinstance(self.extent, Continuous):
            return not job.superseded_by and not self.takeover.waited_for
        if job.superseded_by:
            raise _superseded(job.superseded_by)
        return True

    def _pause_after(self, failure: Exception, failures: int, stop: threading.Event) -> None:
        words = job_failure(failure)
        if failures >= _MOST_FAILURES and not isinstance(self.extent, Continuous):
            raise K2KError(f"the Spark job failed {failures} times in a row: {words}")
        log.warning("the Spark job failed and is run again: %s", words)
        stop.wait(_pause(failures))

    # -- while the slots work -----------------------------------------------------------------------------------

    def _watch(self, job: Job, stop: threading.Event) -> bool:
        """Waits for the end of a job; stops the slots when `stop` is set, and when a new generation is needed.

        Returns:
            Whether a new generation is needed.
        """
        asked = stopping = False
        while not job.done.wait(_POLL_SECONDS):
            self._read_progress()
            if stop.is_set() and not stopping:
                stopping = True
                self._write_stop(again=False)
            elif not (stopping or asked):
                asked = self._needs_new_generation(copying=True)
                if asked:
                    self._ask_to_end(again=True)
            elif time.monotonic() >= self._asks_again:
                self._ask_to_end(again=not stopping)
            self._observe()
        self._read_progress()
        self._next_observation = 0.0
        self._observe()
        return asked

    def _write_stop(self, again: bool) -> None:
        """Writes the stop record; called again and again, because an instance that announces itself may remove it.

        It removes the records of generations that have not claimed anything yet.
        """
        self._asks_again = time.monotonic() + _ASK_AGAIN_SECONDS
        write_stop(self.pipeline, self._generation, again)

    def _ask_to_end(self, again: bool) -> None:
        """Writes the stop record; logs an error, after which the record may be there or not."""
        try:
            self._write_stop(again)
        except K2KError as error:
            log.warning("the slots cannot be asked to end: %s", error)

    def _stand_by(self, stop: threading.Event) -> None:
        """Waits until there is something to copy, or `stop` is set."""
        while not stop.wait(_POLL_SECONDS) and not self._needs_new_generation(copying=False):
            self._read_progress()
            self._observe()

    def _needs_new_generation(self, copying: bool) -> bool:
        """Whether a new generation is needed: there are new or free partitions, or cores for another number of slots.

        Args:
            copying: Whether slots are at work; then new partitions need not wait for other instances.
        """
        if not isinstance(self.extent, Continuous):
            return False
        if copying and self.slots.has_changed():
            return True
        if changed := self.new_topics.refresh(self.snapshot):
            new = set(changed.partitions) - set(self.snapshot.partitions)
            self.snapshot = changed
            if copying and self.takeover.copies_still(changed.topic_ids):
                return True
            self.progress.follow(new)
            self.takeover.appeared(new)
        try:
            vacant = self.takeover.refresh(self.snapshot.topic_ids, self._would_stop_again)
        except K2KError as error:
            if isinstance(error, AssignmentTopicLost) and not copying:
                raise  # an instance that copies ends only when it draws its next generation
            log.warning("what other instances do is not known: %s", error)
            return False
        # Positions that were set by hand. If the topic was created anew, other instances' claims under the new topic id
        # are not seen yet, so only partitions that nobody else had count.
        by_hand = self.progress.set_by_hand.items()
        mine = self.snapshot.topic_ids.keys() - self.takeover.waited_for if by_hand else ()
        return vacant or any(tp in mine and generation > self._generation for tp, generation in by_hand)

    def _would_stop_again(self) -> set[TopicPartition]:
        """Partitions whose newest commit record has a stop reason, or is the same as when they were stopped."""
        newest = self.progress.newest
        recorded = {tp for tp, record in newest.items() if record.reason}
        return recorded.union(tp for tp, stop in self._stopped.items() if newest.get(tp) == stop.newest)

    def _read_progress(self) -> None:
        """Reads what the slots did; logs an error only, because the slots themselves handle a target that restarts."""
        try:
            self._slot_events.tell()
        except K2KError as error:
            log.warning("progress is not known: %s", error)

    def _tell_end(self, job: Job, asked: bool) -> None:
        """Emits the events in the slots' results: stops and hand-overs.

        Args:
            job: The job, which has ended.
            asked: Whether its slots were asked to end.
        """
        for tp, reason in job.stopped.items():
            self._stopped[tp] = _Stop(reason, self._generation, self.progress.newest.get(tp))
            if (newest := self.progress.newest.get(tp)) is None or newest.reason is None:
                self.listener(PartitionStopped(tp, reason))  # no commit record has told this stop
        if elsewhere := job.superseded_by:
            self.listener(HandedOver(elsewhere, nothing_left=not asked and job.failure is None))

    def _observe(self) -> None:
        """Asks the source for its ends about once a second; logs an error only: the slots handle a silent source."""
        if time.monotonic() < self._next_observation:
            return
        self._next_observation = time.monotonic() + _OBSERVE_SECONDS
        try:
            progress = self.progress.refresh()
        except K2KError as error:
            log.warning("progress is not known: %s", error)
            progress = self.progress.current()
        self.listener(ProgressRead(replace(progress, paused=self.peers.paused)))

    def _copied(self) -> int:
        return sum(p.records for p in self.progress.current().partitions.values())

    def _outcome(self, seconds: float, stopped: bool) -> Outcome:
        """Sums up from the commit log, read anew, not from memory; a stopped run does not wait long for it."""
        patience = self.pipeline.coordination.commit.sync_timeout.total_seconds()
        deadline = Deadline(min(patience, _STOPPED_SECONDS) if stopped else patience)
        try:
            commit_log = read_commit_log(
                self.pipeline,
                self.snapshot.cluster_id,
                self.clusters[1],
                keep_waiting=partial(_ensure_in_time, deadline),
            )
        except _HeldAtTheEnd:
            log.warning("the commit topic is held by somebody else's transaction; what is told may not be the newest")
            commit_log = CommitLog(dict(self.progress.newest))
        for newest in commit_log.positions.values():
            self.progress.apply(newest)
        paused = dict(self.peers.paused)
        self.listener(ProgressRead(replace(self.progress.current(), paused=paused)))
        reasons = self._still_stopped()
        outcome = outcome_of(self._topics, commit_log, self.progress, reasons, self._generation, seconds, paused)
        self.listener(Ended(outcome))
        return outcome

    def _still_stopped(self) -> dict[TopicPartition, StopReason]:
        """Stopped partitions, without those that a newer generation or an override has continued since."""
        newest = self.progress.newest
        return {
            tp: stop.reason
            for tp, stop in self._stopped.items()
            if (record := newest.get(tp)) is None or record.reason or record.generation <= stop.generation
        }


def _pause(times: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(0.5 * 2.0 ** min(times, _MOST_DOUBLINGS), _LONGEST_PAUSE)


def _superseded(elsewhere: dict[TopicPartition, str]) -> Superseded:
    shown = abbreviate(map(str, elsewhere))
    return Superseded(f"a newer instance has taken over {shown}: {', '.join(sorted(set(elsewhere.values())))}")


class _StoppedMeanwhile(K2KError):
    """The instance was asked to stop while it read the commit topic."""


class _HeldAtTheEnd(K2KError):
    """The commit topic was not read to its end in time, when it is needed for the report only."""


def _ensure_in_time(deadline: Deadline) -> None:
    if deadline.expired():
        raise _HeldAtTheEnd


def _ensure_not_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise _StoppedMeanwhile
