"""The generations of one instance: when a new one is needed, and how it is drawn.

A generation is drawn in one order: read who copies what, write the instance record (its offset is the generation), read
the committed positions to their end, and plan the slots.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from k2k_assets.control.assignment_records import InstanceRecord
from k2k_assets.control.assignment_tail import AssignmentTopicLost
from k2k_assets.control.assignment_writing import new_instance
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.traces import ensure_new_group, mapped_so_far
from k2k_assets.coordination.orphaned_transactions import OrphanedTransactions
from k2k_assets.coordination.peers import Peers
from k2k_assets.coordination.takeover import Takeover
from k2k_assets.core.errors import ClusterUnreachable, K2KError, NotAllowed, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.event_log import log_event
from k2k_assets.replication.driver.events import GenerationStarted, HandedOver, Listener
from k2k_assets.replication.driver.first_starts import hold_first_starts
from k2k_assets.replication.driver.new_topics import NewTopics
from k2k_assets.replication.driver.planning import ClusterSnapshot, plan_slots
from k2k_assets.replication.driver.progress import ProgressReader
from k2k_assets.replication.driver.reported_stops import ReportedStops
from k2k_assets.replication.driver.slot_count import SlotCount
from k2k_assets.replication.driver.slot_events import SlotEvents
from k2k_assets.replication.extent import Continuous, Extent
from k2k_assets.replication.plan import SlotPlan, spread

log = logging.getLogger("k2k.replication")

LONGEST_PAUSE = 30.0
"""Longest wait between two attempts, in seconds."""


@dataclass(slots=True)
class Generations:
    """Draws one generation after the other.

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
        stops: The partitions that slots have stopped.
        slot_events: Is told which partitions the slots of a generation will claim.
        number: Number of the newest generation; -1 before the first one.
        topics: All topics of all generations: source topic -> target topic and number of source partitions.
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
    stops: ReportedStops = field(init=False)
    slot_events: SlotEvents = field(init=False)
    number: int = -1
    topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    _instance: InstanceRecord | None = None
    _begun_with: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Makes what follows the slots: their stops, and their events from the control topics."""
        self.stops = ReportedStops(self.progress)
        self.slot_events = SlotEvents(self.progress, self.peers, self.listener)

    def draw_next(self, stop: threading.Event) -> list[SlotPlan]:
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
                if self.number < 0 or not isinstance(self.extent, Continuous) or stop.is_set():
                    raise
                log.warning("waiting for a cluster: %s", error)
                stop.wait(pause)
                for cluster in self.clusters:
                    cluster.renew_if_disturbed()
                pause = min(pause * 2, LONGEST_PAUSE)

    def _take_over(self, stop: threading.Event) -> list[SlotPlan]:
        """Draws a generation for all partitions that no newer instance copies, and plans the slots."""
        self.peers.catch_up()
        self.snapshot = self.snapshot.seen_again(*self.clusters)
        elsewhere = self.takeover.take(self.snapshot.topic_ids)
        if elsewhere and not isinstance(self.extent, Continuous):
            raise superseded_by_others(elsewhere)
        mine = [tp for tp in self.snapshot.partitions if tp not in elsewhere]
        self._begun_with = self._begun_with or frozenset(self.snapshot.topics)
        self.topics.update(self.snapshot.topics)
        self.progress.follow(self.snapshot.partitions)
        if elsewhere:
            self.listener(HandedOver(elsewhere, nothing_left=not mine))
        if not mine:
            return []
        shares = spread(mine, self.slots.plan(len(mine)))
        self.number = self.peers.draw_generation(self._as_instance(len(shares)))
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
        begins_at = hold_first_starts(
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
            self.number,
            shares,
            self.extent,
            known,
            begins_at,
            dead=dead,
        )
        claimable = {tp: topic_id for tp, topic_id in self.snapshot.topic_ids.items() if tp not in elsewhere}
        self.slot_events.begin(self.number, claimable)
        self.listener(GenerationStarted(self.number, len(mine), len(plans)))
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
        self.progress.counts_for(self.number)
        return commit_log

    def taken_over(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Those of some partitions that newer continuous instances have claimed, each with its instance."""
        ids = self.snapshot.topic_ids
        return self.peers.taken_over({tp: ids[tp] for tp in partitions if tp in ids})

    def is_new_one_needed(self, copying: bool) -> bool:
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
            self.progress.follow(changed.partitions)
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
        return vacant or any(tp in mine and generation > self.number for tp, generation in by_hand)

    def _would_stop_again(self) -> set[TopicPartition]:
        """As `ReportedStops.would_stop_again`; a stop is committed before its partition is released, so it is read."""
        self.slot_events.tell()
        return self.stops.would_stop_again()


def superseded_by_others(elsewhere: Mapping[TopicPartition, str]) -> Superseded:
    """The error of a run with an end, some of whose partitions newer instances copy.

    Args:
        elsewhere: These partitions, each with its instance.
    """
    shown = abbreviate(map(str, elsewhere))
    return Superseded(f"a newer instance has taken over {shown}: {', '.join(sorted(set(elsewhere.values())))}")


class _StoppedMeanwhile(K2KError):
    """The instance was asked to stop while it read the commit topic."""


def _ensure_not_stopped(stop: threading.Event) -> None:
    if stop.is_set():
        raise _StoppedMeanwhile
