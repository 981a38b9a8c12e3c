"""Steps 3 and 4 of a session: what the commit topic means for its sequence, and what it commits before it consumes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.commit_log import CommitLog, now_ms
from k2k_assets.core.clock import Clock
from k2k_assets.core.errors import Superseded
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState, stopped_record
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.replication.slot.start.start_checks import Starts


def ensure_newest(
    plan: SlotPlan, partitions: Iterable[TopicPartition], commit_log: CommitLog, instances: Assignments
) -> None:
    """Makes sure that no newer generation has committed: commit records of this one would not count.

    Args:
        plan: The slot.
        partitions: The partitions that it has claimed.
        commit_log: The commit log, read after all fencing.
        instances: Describes the other instance.

    Raises:
        Superseded: One has.
    """
    for tp in partitions:
        record = commit_log.positions.get(tp)
        if record and record.generation > plan.generation:
            raise Superseded(
                f"{tp} was copied by {instances.describe(record.generation)} meanwhile; this one is "
                f"generation {plan.generation}"
            )


def last_sequence(plan: SlotPlan, commit_log: CommitLog) -> int:
    """The last sequence of a slot in its generation: the sequence rises even if Spark runs its task again."""
    mine = [
        record.sequence
        for each in plan.partitions
        if (record := commit_log.positions.get(each.source)) and record.generation == plan.generation
    ]
    return max([*mine, commit_log.sequences_below])


class StartCommits:
    """Commits start positions and stops before the first record is consumed, so that no crash can move them.

    Args:
        plan: The slot.
        memory: The state that outlives the session.
        transactions: The transactions of the session.
        clock: The session's clock.
    """

    def __init__(self, plan: SlotPlan, memory: SlotMemory, transactions: Transactions, clock: Clock) -> None:
        self._plan = plan
        self._memory = memory
        self._transactions = transactions
        self._clock = clock

    def write(
        self,
        starts: Starts,
        commit_log: CommitLog,
        held: Collection[TopicPartition],
        raised: Collection[TopicPartition] = (),
    ) -> Collection[TopicPartition]:
        """Commits what is new, in one transaction; nothing if nothing is.

        In at-least-once mode it also writes a start record for each released partition, because records of this slot
        may arrive late: a later owner must know that somebody has copied since the release. Where the epoch of a
        producer id was raised, it is committed before the first record under it. Stopped partitions are released with
        their reason, at their position. Of one without a position the stop is noted: a position may not be invented.

        Args:
            starts: Where the partitions begin.
            commit_log: The commit log.
            held: The partitions that the slot has claimed.
            raised: The partitions whose states have a new producer id or epoch.

        Returns:
            The partitions that are stopped, as the commit topic says now.
        """
        stopped = {tp: reason for tp, reason in self._memory.stopped.to_note().items() if tp in held}
        starting = [*starts.fresh, *self._again(starts.states, commit_log, raised)]
        new = [tp for tp, reason in stopped.items() if not self._is_told(tp, reason, commit_log)]
        # Of a topic that is gone before anything of it was copied nothing is left to tell, nor to put right.
        new = [tp for tp in new if tp in commit_log.positions or not isinstance(stopped[tp], SourceDeleted)]
        if not (starting or new):
            return stopped
        self._transactions.begin()
        self._memory.sequence += 1
        for state in starting:
            self._transactions.write_commit(state, "start")
            if state.plan.source in commit_log.noted:
                self._transactions.remove_note(state.plan.source)
        for tp in new:
            record, reason = commit_log.positions.get(tp), stopped[tp]
            if record is None:
                self._transactions.write_note(tp, reason)
                continue
            # The record keeps the topic ids of the log, so that the next run stops for the same reason.
            now, is_newest = now_ms(self._clock), commit_log.is_newest
            self._transactions.write_commit_record(
                stopped_record(self._plan, record, self._memory.sequence, now, reason, is_newest)
            )
        self._transactions.commit()
        return stopped

    def _is_told(self, tp: TopicPartition, reason: StopReason, commit_log: CommitLog) -> bool:
        """Whether a session of this generation has committed a stop already."""
        said = commit_log.positions.get(tp) or commit_log.noted.get(tp)
        return said is not None and said.generation == self._plan.generation and said.reason == reason

    def _again(
        self, states: dict[TopicPartition, PartitionState], commit_log: CommitLog, raised: Collection[TopicPartition]
    ) -> list[PartitionState]:
        """The states of partitions that have a position and need a start record all the same."""
        noted = {tp: commit_log.positions[tp] for tp in states if tp in commit_log.positions}
        # The next record may be long in coming, and a stop that was put right would be told until then.
        needed = {tp for tp, record in noted.items() if record.reason is not None}
        # The pipeline back asks which marker the copies have from now on.
        needed |= {tp for tp, record in noted.items() if record.marker != self._plan.pipeline.marker}
        if not self._plan.pipeline.features.exactly_once:
            needed |= {tp for tp in noted if tp in raised or not states[tp].unreleased}
            # Groups are translated as if each copy were mapped, until the commit topic says that it is not.
            needed |= {tp for tp, record in noted.items() if not record.at_least_once}
        elif not self._plan.one_to_one:
            # Their target end is no longer valid, because others feed the target too.
            needed |= {tp for tp, record in noted.items() if record.target_end is not None}
        return [state for tp, state in states.items() if tp in needed]
