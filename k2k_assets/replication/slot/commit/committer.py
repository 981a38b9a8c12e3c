"""Commits the open transaction when it is full, or when the source has run dry and the pause after a commit is over.

Before each commit it checks the ids of the topics with new records, and now and then those of all topics.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import now_ms
from k2k_assets.control.mapping_records import MOST_RUNS
from k2k_assets.core.clock import Clock
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.commit_pace import IDLE_SECONDS, CommitPace
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.commit.target_chain import ForeignWriter
from k2k_assets.replication.slot.commit.topic_identity import ask_topic_ids
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.transport.errors import Restart

# How often to check the topic ids of idle topics.
_TOPICS_SECONDS = 10.0
# How often to collect garbage: errors and futures leave reference cycles behind.
_COLLECT_SECONDS = 5.0

CommitListener = Callable[[float, Mapping[str, float]], None]
"""Hears of each commit, in the thread of the copy loop: it must neither wait nor raise. It gets the seconds from the
first step of closing the transaction to the answer, and by source topic the age in seconds of the first record of each
partition, of which the oldest counts; topics of whose records nothing was copied, or none has a timestamp, are missing.
"""


class Committer:
    """Decides when the transactions of one session are committed, and commits them.

    Args:
        plan: The slot.
        memory: The state that outlives the session.
        transactions: The transactions of the session.
        clusters: Source and target, which are asked for topic ids.
        tail: Follows the assignment topic.
        still_holds: Whether a partition is still the slot's, as far as the tail has read.
        clock: The session's clock.
        listener: Hears of commits; None: nobody does.

    Attributes:
        has_moved_past_markers: Whether a position has moved past markers since the last commit; `Intake` sets it.
    """

    def __init__(
        self,
        plan: SlotPlan,
        memory: SlotMemory,
        transactions: Transactions,
        clusters: tuple[Cluster, Cluster],
        tail: AssignmentTail,
        still_holds: Callable[[TopicPartition], bool],
        clock: Clock,
        listener: CommitListener | None = None,
    ) -> None:
        self._plan = plan
        self._memory = memory
        self._transactions = transactions
        self._clusters = clusters
        self._tail = tail
        self._still_holds = still_holds
        self._clock = clock
        self._listener = listener
        self._exactly_once = plan.pipeline.features.exactly_once
        self._batch_size = plan.pipeline.coordination.commit.batch_size
        self._batch_seconds = plan.pipeline.coordination.commit.batch_timeout.total_seconds()
        if self._exactly_once:  # a transaction that is open for longer may time out
            self._batch_seconds = min(self._batch_seconds, plan.pipeline.transaction_timeout.total_seconds() / 2)
        now = clock.monotonic()
        self._pace = CommitPace(plan.pipeline.sync.min_commit_interval.total_seconds(), now)
        self._next_collection = now + _COLLECT_SECONDS
        self._next_topics = now + _TOPICS_SECONDS
        self._states: Mapping[TopicPartition, PartitionState] = {}
        self.has_moved_past_markers = False

    def begin(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Takes in the partitions that the session copies."""
        self._states = states

    def room(self) -> int:
        """How many more records the transaction may take."""
        return min(self._batch_size - self._transactions.records, self._memory.budget.room())

    def gathering(self) -> float:
        """Seconds to let records gather before the next poll; 0 or less: not at all.

        So a steady stream takes a few polls for each commit, not one a record.
        """
        return self._pace.gathering(self._transactions.records, self._exactly_once, self._clock.monotonic())

    def patience(self) -> float:
        """Longest wait of the next poll, in seconds."""
        records = self._transactions.records
        if not (records or self.has_moved_past_markers):
            return IDLE_SECONDS
        return self._pace.until_due(records, self._clock.monotonic())

    def commit_if_due(self, dry: bool, now: float) -> None:
        """Commits the transaction if it is full, or small and due.

        Args:
            dry: Whether the last poll brought less than was asked for.
            now: Monotonic seconds.
        """
        if self._is_full(now):
            self.commit()
        elif self._is_due(dry, now):
            self.commit(small=True)

    def _is_full(self, now: float) -> bool:
        """Whether the transaction has reached its largest size or its longest time."""
        current = self._transactions
        if not current.records:
            return False
        full = current.records >= self._batch_size or current.possible_runs >= MOST_RUNS
        return full or self._memory.budget.spent or now - current.opened >= self._batch_seconds

    def _is_due(self, dry: bool, now: float) -> bool:
        """Whether to close a small transaction: the source has run dry, and the pause since the last commit is over."""
        records = self._transactions.records
        worth_it = dry if records else self.has_moved_past_markers
        return worth_it and now >= self._pace.due(records)

    def commit(self, releasing: Collection[TopicPartition] = (), small: bool = False) -> None:
        """Commits the records in hand with the positions that moved.

        Args:
            releasing: Partitions for which this is the slot's last commit.
            small: Whether the source has run dry.

        Raises:
            Restart: Nothing was committed, or it is not known.
            ForeignWriter: Somebody else writes to a target partition.
            SourceStopped: A topic is no longer the same.
        """
        began = self._clock.monotonic()
        moved = [state for tp, state in self._states.items() if state.moved or tp in releasing]
        oldest = _oldest_of_each_topic(moved) if self._listener else {}
        # The topic ids are requested now, arrive during the flush, and are checked before the commit.
        try:
            self._transactions.close(moved, self.ask_topic_ids(moved), releasing)
        except ForeignWriter as error:
            # Outside transactions, a slot that was frozen takes the records of its successor for foreign ones.
            self._tail.catch_up()
            if not self._still_holds(error.source):
                raise Restart(f"{error.source} was taken over meanwhile") from None
            raise
        self.has_moved_past_markers = False
        self._pace.committed(began, self._transactions.last_commit, small)
        if self._listener:
            now = now_ms(self._clock)
            ages = {topic: max(0, now - oldest_ms) / 1000 for topic, oldest_ms in oldest.items()}
            self._listener(self._transactions.last_commit - began, ages)
        if self._transactions.last_commit >= self._next_collection:
            self._next_collection = self._transactions.last_commit + _COLLECT_SECONDS
            gc.collect()

    def keep_promise(self, reason: StopReason) -> None:
        """Commits what is in hand before a source stops with a reason that says that all before it is copied.

        Raises:
            Restart: Nothing was committed, or it is not known: the next session meets the reason again.
        """
        if isinstance(reason, BatchUnreadable) and self._transactions.records:
            self.commit()

    def ask_topic_ids(self, states: Iterable[PartitionState]) -> Callable[[], None]:
        """Asks both clusters for the ids of some partitions' topics.

        Returns:
            Waits for the answers, and raises if a topic is no longer the same.
        """
        plans = [state.plan for state in states]
        return ask_topic_ids(self._plan, *self._clusters, plans)

    def ensure_idle_topics(self, now: float) -> None:
        """Checks the topic ids of all topics now and then; each commit checks only topics with new records."""
        if now >= self._next_topics:
            self._next_topics = now + _TOPICS_SECONDS
            self.ask_topic_ids(self._states.values())()


def _oldest_of_each_topic(states: Iterable[PartitionState]) -> dict[str, int]:
    """By source topic the oldest of the timestamps of the first records in hand, in milliseconds since the epoch."""
    oldest: dict[str, int] = {}
    for state in states:
        timestamp, topic = state.first_timestamp, state.plan.source.topic
        if timestamp is not None and timestamp >= 0:
            oldest[topic] = min(timestamp, oldest.get(topic, timestamp))
    return oldest
