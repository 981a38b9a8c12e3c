"""One life of a slot's clients: claim, fence, read the committed position, check, seek, copy.

After any error the session is thrown away and a new one starts from what the target holds; nothing is taken from
memory. The steps are numbered as in `docs/architecture.md`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import reduce

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog, now_ms, read_commit_log
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Superseded
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.replication.extent import UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit_pace import CommitPace
from k2k_assets.replication.slot.hanging_transactions import HangingTransactions
from k2k_assets.replication.slot.offline_partitions import LeftOut
from k2k_assets.replication.slot.partition_state import PartitionState, stopped_record
from k2k_assets.replication.slot.silent_source import SilentSourceWatch
from k2k_assets.replication.slot.slot_claims import SlotClaims
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.replication.slot.start_checks import resolve_starts
from k2k_assets.replication.slot.target_chain import ForeignWriter, TargetChain
from k2k_assets.replication.slot.topic_identity import ask_topic_ids
from k2k_assets.replication.slot.transactions import Transactions
from k2k_assets.stages import Stage, stages_of
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Polled, Sink, Source

log = logging.getLogger("k2k.replication")

# Records that one poll takes: more adds memory, not speed.
_CHUNK = 1000
# How long an idle poll waits; a record ends it at once.
_IDLE_SECONDS = 0.1
# How long not to poll while there is time: the consumer's queue holds far more than comes meanwhile.
_GATHER_SECONDS = 0.005
# How often to look for higher claims and for the stop record.
_POLL_SECONDS = 0.25
# How long a poll waits at least, while there is something to commit.
_SHORTEST_WAIT = 0.001
# How often to look whether idle topics still are the same.
_TOPICS_SECONDS = 10.0
# How often to collect garbage: errors and futures leave cycles behind.
_COLLECT_SECONDS = 5.0
# A mapping record stays well below the usual limit of 1 MB with this many runs.
_MOST_RUNS = 20_000


class _AskedToStop(Exception):
    """The stop record came while something was waited for."""


class Session:
    """Copies the partitions of one slot until the end or an error.

    Args:
        plan: The slot.
        memory: What outlives the session.
        source: Reads.
        sink: Writes.
        clusters: Source and target, for metadata.
        tail: The assignment topic.
        transactional_id: That of the sink.
        chain: Finds foreign writers; None where that cannot be told.
        capabilities: What the transport of source and sink can do.
        clock: Its clock.
    """

    def __init__(
        self,
        plan: SlotPlan,
        memory: SlotMemory,
        source: Source,
        sink: Sink,
        clusters: tuple[Cluster, Cluster],
        tail: AssignmentTail,
        transactional_id: str,
        chain: TargetChain | None,
        capabilities: Capabilities,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._memory = memory
        self._source = source
        self._sink = sink
        self._needs_decoding = capabilities.needs_decoding
        one_stretch = plan.one_to_one or capabilities.reports_batches
        self._transactions = Transactions(plan, memory, sink, chain, one_stretch, clock)
        self._source_cluster, self._target_cluster = clusters
        self._silent_source = SilentSourceWatch(plan, memory, self._source_cluster)
        self._tail = tail
        self._slot_claims = SlotClaims(plan, memory.claims, self._transactions, tail, transactional_id, clock)
        self._chain = chain
        strict = chain is not None and chain.strict
        self._hanging_transactions = HangingTransactions(plan, self._target_cluster, strict, told=memory.hanging)
        self._left_out = LeftOut(plan, memory, self._source_cluster, self._target_cluster, clock)
        self._pipeline = plan.pipeline
        self._commit = plan.pipeline.coordination.commit
        self._stages = stages_of(plan.pipeline)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._moved_past_markers = False
        now = self._clock.monotonic()
        self._last_record = now
        self._next_look = now
        self._next_collection = now + _COLLECT_SECONDS
        self._next_topics = now + _TOPICS_SECONDS
        self._batch_seconds = self._commit.batch_timeout.total_seconds()
        if plan.pipeline.features.exactly_once:  # a transaction that is open for longer may time out
            self._batch_seconds = min(self._batch_seconds, plan.pipeline.transaction_timeout.total_seconds() / 2)
        self._pace = CommitPace(self._pipeline.sync.min_commit_interval.total_seconds(), now)

    # -- starting -----------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Steps 1 to 4: claim the id and the partitions, read the commit topic, check, commit fresh starts.

        Returns:
            Whether there is anything to do: not if the slot was asked to stop, or others copy all that it would.

        Raises:
            Superseded: A newer instance has copied since, and is gone.
            Restart: The target did not take a step.
            K2KError: The slot cannot go on.
        """
        # Where it ends before it has begun, nothing was copied under its claims, and nothing will be.
        try:
            return self._start()
        except _AskedToStop:
            self._slot_claims.release()
            return False
        except ClusterUnreachable:
            raise
        except K2KError:
            with suppress(Restart, ClusterUnreachable):
                self._slot_claims.release()
            raise

    def _start(self) -> bool:
        wanted = self._slot_claims.wanted()
        if self._told_to_stop():
            wanted = []
        if not wanted and not self._slot_claims.left():
            return False
        self._sink.open()  # 1: fences the former holder, aborts what it left open
        self._slot_claims.claim(wanted)  # 2
        self._slot_claims.release_left()
        if not wanted:
            return False
        self._slot_claims.settle(self._keep_waiting)
        commit_log = read_commit_log(  # 3
            self._pipeline, self._plan.cluster, self._target_cluster, keep_waiting=self._wait_for_others
        )
        self._ensure_newest(commit_log)
        self._memory.sequence = max(self._memory.sequence, self._last_sequence(commit_log))
        elsewhere = {plan.source for plan in self._plan.partitions} - set(self._slot_claims.partitions)
        starts = resolve_starts(  # 4
            self._plan,
            elsewhere.union(self._memory.stopped.reasons),
            commit_log,
            self._source_cluster,
            self._target_cluster,
        )
        starts.stop(self._hanging_transactions.stopped(starts.states.values(), self._wait_for_others))
        for tp, reason in starts.stopped.items():
            self._memory.stopped.stop(tp, reason)
            log.error("%s is stopped: %s", tp, render(reason))
        self._states = starts.states
        self._left_out.begin(starts.offline_partitions, self._states)
        self._commit_starts(starts.fresh, commit_log)
        if self._chain:
            self._chain.start(self._states)
        # New clients know no leader epoch of their own: it makes the broker check that its log is still the same.
        self._source.assign({tp: state.reading_from for tp, state in self._states.items()})
        return True

    def _ensure_newest(self, commit_log: CommitLog) -> None:
        """Commit records of an older generation would count for nothing: this instance was superseded."""
        for tp in self._slot_claims.partitions:
            record = commit_log.positions.get(tp)
            if record and record.generation > self._plan.generation:
                raise Superseded(
                    f"{tp} was copied by {self._tail.state.describe(record.generation)} meanwhile; this one is "
                    f"generation {self._plan.generation}"
                )

    def _commit_starts(self, fresh: list[PartitionState], commit_log: CommitLog) -> None:
        """A start position is committed before the first record is consumed: a crash then cannot move it.

        Outside transactions what is sent may come late, so the newest record has to tell even before the first commit
        that somebody copies. Partitions that were stopped are released with their reason, at the position they have.
        """
        held = self._slot_claims.partitions
        to_note = self._memory.stopped.to_note()
        stopped = {tp: reason for tp, reason in to_note.items() if tp in commit_log.positions and tp in held}
        released = [s for tp, s in self._states.items() if tp in commit_log.positions and not s.unreleased]
        again = self._with_ends(commit_log) if self._pipeline.features.exactly_once else released
        starting = [*fresh, *again]
        if not (starting or stopped):
            return
        self._transactions.begin()
        self._memory.sequence += 1
        for state in starting:
            self._transactions.write_commit(state, "start")
        for tp, reason in stopped.items():
            # As it stands in the log, topic ids too: what made it stop has to make the next run stop as well.
            record = commit_log.positions[tp]
            self._transactions.write_commit_record(
                stopped_record(self._plan, record, self._memory.sequence, now_ms(self._clock), reason)
            )
        self._transactions.commit()

    def _with_ends(self, commit_log: CommitLog) -> list[PartitionState]:
        """Where others feed the target too, an end that was noted before they did is no longer one."""
        if self._plan.one_to_one:
            return []
        noted = {tp for tp, record in commit_log.positions.items() if record.target_end is not None}
        return [state for tp, state in self._states.items() if tp in noted]

    def _last_sequence(self, commit_log: CommitLog) -> int:
        """Of this slot in this generation: should Spark run its task a second time, the numbers still rise."""
        mine = [
            r.sequence
            for plan in self._plan.partitions
            if (r := commit_log.positions.get(plan.source)) and r.generation == self._plan.generation
        ]
        return max([*mine, commit_log.sequences_below])

    # -- copying ------------------------------------------------------------------------------------------------

    def copy(self) -> bool:
        """Step 5: consume a chunk, run the stages, produce; close transactions; until the end. Then step 7.

        Returns:
            Whether that was the end: not if partitions went to somebody else and the others are to be gone on with, or
            if some that were left out are back.
        """
        monotonic = self._clock.monotonic
        self._transactions.last_commit = self._last_record = monotonic()
        self._silent_source.heard(self._last_record)
        dry = False
        while self._states:
            limit = min(_CHUNK, self._commit.batch_size - self._transactions.records, self._memory.budget.room())
            if dry:
                self._let_records_gather()
            polled = self._poll(limit)
            now = monotonic()
            dry = sum(chunk.count for chunk in polled.chunks) + polled.passed < limit
            self._take(polled, now)
            self._ensure_source_answers(polled, now)
            if self._is_full(now):
                self._close()
            elif self._is_due(dry, now):
                self._close(small=True)
            if now >= self._next_look:
                self._next_look = now + _POLL_SECONDS
                self._tail.refresh()
                if self._told_to_stop():
                    break
                if superseded := self._slot_claims.superseded():
                    self._hand_over(superseded)
                    return False
                if self._left_out.are_back(now):
                    self._close()
                    return False
                self._heartbeat()
                self._ensure_idle_topics(now)
                self._hanging_transactions.watch(self._states.values(), now)
            if self._at_the_end(now) and self._left_out.are_given_up(now):
                break
        self._release()
        return True

    def _poll(self, limit: int) -> Polled:
        """What came; of a topic that was created anew the client says only that an offset is out of range."""
        try:
            return self._source.poll(limit, self._patience())
        except SourceStopped as stopped:
            states = [state for tp, state in self._states.items() if tp == stopped.partition]
            with suppress(K2KError, Restart):  # what cannot be asked now is told as the client says it
                self._ask_topic_ids(states)()
            raise

    def _ensure_source_answers(self, polled: Polled, now: float) -> None:
        """librdkafka waits for a source that is down without a word; who waits for an end has to know.

        Raises:
            ClusterUnreachable: The source does not answer.
            Restart: It does, and has what does not come.
        """
        if polled.chunks or polled.ends or polled.passed:
            self._silent_source.heard(now)
        else:
            self._silent_source.refresh(self._states, now)
        self._silent_source.look_for_leaders(self._states, now)

    def _let_records_gather(self) -> None:
        """Before the next commit is due a steady stream is taken in a few polls, not in one for each record.

        Exactly once a transaction begins with the last of these polls. Begun at once after the last commit, it would
        be refused while the target writes that one's markers (CONCURRENT_TRANSACTIONS), and the client asks again only
        20 ms later. At least once a record is visible as soon as it is sent, so nothing waits before the first.
        """
        if self._transactions.records:
            longest = _GATHER_SECONDS
        elif self._pipeline.features.exactly_once:
            longest = _IDLE_SECONDS
        else:
            return
        wait = self._pace.due(self._transactions.records) - self._clock.monotonic()
        if wait > 0:
            self._clock.sleep(min(wait, longest))

    def _patience(self) -> float:
        """How long the next poll may wait for a record."""
        if not (self._transactions.records or self._moved_past_markers):
            return _IDLE_SECONDS
        return max(
            _SHORTEST_WAIT, min(self._pace.due(self._transactions.records) - self._clock.monotonic(), _IDLE_SECONDS)
        )

    def _take(self, polled: Polled, now: float) -> None:
        fault: SourceStopped | None = None
        if polled.passed:
            self._last_record = now
        for taken in polled.chunks:
            state = self._states[taken.source]
            if taken.first_offset < state.next:
                raise SourceStopped(taken.source, SourceDiverged(taken.source, state.next, taken.first_offset))
            chunk, why = self._staged(taken)
            if why is not None:
                fault = SourceStopped(taken.source, why)
            if chunk is None:
                continue
            self._transactions.write(chunk, now)
            state.next = chunk.last_offset + 1
            state.leader_epoch, state.epoch_end = chunk.records.leader_epoch, state.next
            size = chunk.records.size()
            self._memory.budget.take(chunk.count, size, now)
            state.records += chunk.count
            state.bytes += size
            self._last_record = now
        if fault is not None:
            # The reason says that all before the record is copied. An end that was seen lies behind it.
            self._close()
            raise fault
        for tp, end in polled.ends.items():
            state = self._states[tp]
            if end > state.next:
                state.next = end
            self._moved_past_markers |= state.moved

    def _staged(self, taken: Chunk) -> tuple[Chunk | None, StopReason | None]:
        """A chunk behind the stages, as `Chunk.readable`; decoded only where a stage or the sink needs it."""
        chunk = reduce(_apply, self._stages, taken)
        return (chunk, None) if chunk.unchanged and not self._needs_decoding else chunk.readable()

    def _is_full(self, now: float) -> bool:
        """Whether the transaction holds as much as it may, or is as old as it may become."""
        current = self._transactions
        if not current.records:
            return False
        full = current.records >= self._commit.batch_size or current.possible_runs >= _MOST_RUNS
        return full or self._memory.budget.spent or now - current.opened >= self._batch_seconds

    def _is_due(self, dry: bool, now: float) -> bool:
        """Nothing more is there now: a lone record is visible at once, and a steady stream soon."""
        records = self._transactions.records
        worth_it = dry if records else self._moved_past_markers
        return worth_it and now >= self._pace.due(records)

    def _close(self, releasing: Collection[TopicPartition] = (), small: bool = False) -> None:
        began = self._clock.monotonic()
        moved = [state for tp, state in self._states.items() if state.moved or tp in releasing]
        # Topic ids are asked for now, answered while the flush runs, and looked at before the commit.
        try:
            self._transactions.close(moved, self._ask_topic_ids(moved), releasing)
        except ForeignWriter as error:
            # Outside transactions records of a new owner look like those of a stranger to one that has slept.
            self._tail.catch_up()
            if not self._slot_claims.still_holds(error.source):
                raise Restart(f"{error.source} was taken over meanwhile") from None
            raise
        self._moved_past_markers = False
        self._pace.committed(began, self._transactions.last_commit, small)
        if self._transactions.last_commit >= self._next_collection:
            self._next_collection = self._transactions.last_commit + _COLLECT_SECONDS
            gc.collect()

    def _ask_topic_ids(self, states: Iterable[PartitionState]) -> Callable[[], None]:
        plans = [state.plan for state in states]
        return ask_topic_ids(self._plan, self._source_cluster, self._target_cluster, plans)

    def _ensure_idle_topics(self, now: float) -> None:
        """A topic that moves is looked at with each commit; one that was deleted while nothing came, here."""
        if now >= self._next_topics:
            self._next_topics = now + _TOPICS_SECONDS
            self._ask_topic_ids(self._states.values())()

    # -- ending -------------------------------------------------------------------------------------------------

    def _wait_for_others(self) -> None:
        self._slot_claims.heartbeat_if_due()
        self._tail.refresh()
        self._keep_waiting()

    def _keep_waiting(self) -> None:
        if self._told_to_stop():
            raise _AskedToStop

    def _told_to_stop(self) -> bool:
        """Remembered: before the slot has ended, the record may be removed, or be out of reach."""
        if self._memory.told_to_stop is None and self._plan.generation in self._tail.state.stops:
            self._memory.told_to_stop = self._clock.monotonic()
        return self._memory.told_to_stop is not None

    def _heartbeat(self) -> None:
        """A heartbeat has a transaction of its own, so one that is open is closed before."""
        if self._slot_claims.heartbeat_is_due:
            if self._transactions.records:
                self._close()
            self._slot_claims.heartbeat_if_due()

    def _at_the_end(self, now: float) -> bool:
        extent = self._plan.extent
        if isinstance(extent, UntilCaughtUp):
            return all(state.committed >= state.plan.readable_end for state in self._states.values())
        if isinstance(extent, Window):
            over = now - self._memory.started >= extent.duration.total_seconds()
            idle = now - self._last_record >= extent.idle.total_seconds()
            return over or (idle and not self._transactions.records)
        return False

    def _release(self) -> None:
        """Step 7: the last commit, and only then the releases."""
        self._close(releasing=self._states)
        self._slot_claims.release()

    def _hand_over(self, partitions: Collection[TopicPartition]) -> None:
        """Commits all that is in hand, then lets go of some partitions."""
        self._close(releasing=partitions)
        self._slot_claims.yield_to(partitions)


def _apply(chunk: Chunk, stage: Stage) -> Chunk:
    return stage(chunk)
