"""A session is one life of a slot's clients: claim, fence, read the committed position, check, seek, copy.

After any error the session is thrown away and a new one starts from what the target holds; nothing is taken from
memory. The steps are numbered as in `docs/architecture.md`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import reduce

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.log_fields import about
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.source_log import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit_pace import IDLE_SECONDS, CommitPace
from k2k_assets.replication.slot.hanging_transactions import HangingTransactions
from k2k_assets.replication.slot.offline_partitions import LeftOut
from k2k_assets.replication.slot.partition_state import PartitionState
from k2k_assets.replication.slot.paused_topics import PausedTopics
from k2k_assets.replication.slot.silent_source import SilentSourceWatch
from k2k_assets.replication.slot.slot_claims import SlotClaims
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.replication.slot.start_checks import resolve_starts
from k2k_assets.replication.slot.start_commits import StartCommits, ensure_newest, last_sequence
from k2k_assets.replication.slot.target_chain import ForeignWriter, TargetChain
from k2k_assets.replication.slot.topic_identity import ask_topic_ids
from k2k_assets.replication.slot.transactions import Transactions
from k2k_assets.stages import Stage
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Polled, Sink, Source

log = logging.getLogger("k2k.replication")

# Records that one poll takes: more adds memory, not speed.
_CHUNK = 1000
# How often to look for higher claims and for the stop record.
_POLL_SECONDS = 0.25
# How often to check the topic ids of idle topics.
_TOPICS_SECONDS = 10.0
# How often to collect garbage: errors and futures leave reference cycles behind.
_COLLECT_SECONDS = 5.0
# A mapping record stays well below the usual limit of 1 MB with this many runs.
_MOST_RUNS = 20_000


class _AskedToStop(Exception):
    """The stop record came while the session waited."""


class Session:
    """Copies the partitions of one slot until the end or an error.

    Args:
        plan: The slot.
        memory: The state that outlives the session.
        source: Reads the source.
        sink: Writes to the target.
        clusters: Source and target, for metadata.
        tail: Follows the assignment topic.
        transactional_id: The sink's transactional id.
        chain: Finds foreign writers; None where they cannot be detected.
        capabilities: The capabilities of the transport.
        stages: The stages of the pipeline. They outlive the session, with what they have learned of schemas.
        clock: The clock.
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
        stages: Sequence[Stage],
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
        self._paused = PausedTopics(plan.slot, memory, tail)
        self._left_out = LeftOut(plan, memory, self._source_cluster, self._target_cluster, clock)
        self._pipeline = plan.pipeline
        self._commit = plan.pipeline.coordination.commit
        self._stages = stages
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
            Whether there is anything to copy; false if the slot was asked to stop, or others copy all its partitions.

        Raises:
            Superseded: A newer instance has copied since, and is gone.
            Restart: The target refused a step, or did not answer.
            K2KError: The slot cannot go on.
        """
        # If the start fails or is cut short, nothing was copied under these claims, so they are released.
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
        self._sink.open()  # 1: fences the former holder, and aborts its open transaction
        self._slot_claims.claim(wanted)  # 2
        self._slot_claims.release_left()
        if not wanted:
            return False
        self._slot_claims.settle(self._keep_waiting)
        commit_log = read_commit_log(  # 3
            self._pipeline, self._plan.cluster, self._target_cluster, keep_waiting=self._wait_for_others
        )
        ensure_newest(self._plan, self._slot_claims.partitions, commit_log, self._tail.state)
        self._memory.sequence = max(self._memory.sequence, last_sequence(self._plan, commit_log))
        elsewhere = {plan.source for plan in self._plan.partitions} - set(self._slot_claims.partitions)
        starts = resolve_starts(  # 4
            self._plan,
            elsewhere.union(self._memory.stopped.reasons, self._paused.begin(self._slot_claims.partitions)),
            commit_log,
            self._source_cluster,
            self._target_cluster,
        )
        starts.stop(self._hanging_transactions.stopped(starts.states.values(), self._wait_for_others))
        for tp, reason in starts.stopped.items():
            self._memory.stopped.stop(tp, reason)
            log.error("%s is stopped: %s", tp, render(reason), extra=about(reason=reason))
        self._states = starts.states
        waiting = self._paused.partitions if self._waits_for_paused else ()
        self._left_out.begin(starts.offline_partitions, [*self._states, *waiting])
        commits = StartCommits(self._plan, self._memory, self._transactions, self._clock)
        commits.write(starts, commit_log, held=self._slot_claims.partitions)
        if self._chain:
            self._chain.start(self._states)
        # The leader epoch makes the broker check that its log is still the same; a new client knows none itself.
        self._source.assign({tp: state.reading_from for tp, state in self._states.items()})
        return True

    @property
    def has_records(self) -> bool:
        """Whether it has records in hand that are not committed."""
        return self._transactions.records > 0

    # -- copying ------------------------------------------------------------------------------------------------

    def copy(self) -> bool:
        """Step 5: consume a chunk, run the stages, produce, and close transactions, until the end. Then step 7.

        Returns:
            Whether the slot's work is done; false if a new session has to follow, because partitions that were left
            out have a leader again, because topics were paused or resumed, or for the partitions that are left after a
            hand-over.
        """
        monotonic = self._clock.monotonic
        self._transactions.last_commit = self._last_record = monotonic()
        self._silent_source.heard(self._last_record)
        dry = False
        while self._states or self._waits_for_paused:
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
                if (paused := self._paused.changed(self._slot_claims.partitions)) is not None:
                    self._close(releasing=paused)
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

    @property
    def _waits_for_paused(self) -> bool:
        """Whether to wait for paused topics to be resumed, as a run with an end does not."""
        return bool(self._paused.partitions) and isinstance(self._plan.extent, Continuous)

    def _poll(self, limit: int) -> Polled:
        """Polls the source; if that fails, it checks the topic ids first.

        For a topic that was created anew the client reports only an offset out of range.
        """
        try:
            return self._source.poll(limit, self._patience())
        except SourceStopped as stopped:
            states = [state for tp, state in self._states.items() if tp == stopped.partition]
            with suppress(K2KError, Restart):  # if the ids cannot be checked now, the client's error stands
                self._ask_topic_ids(states)()
            raise

    def _ensure_source_answers(self, polled: Polled, now: float) -> None:
        """Watches for a silent source: librdkafka waits for a source that is down without reporting an error.

        Raises:
            ClusterUnreachable: The source does not answer.
            Restart: The source has records that the client does not return.
        """
        if polled.chunks or polled.ends or polled.passed or polled.is_held_back:
            self._silent_source.heard(now)
        else:
            self._silent_source.refresh(self._states, now)
        self._silent_source.look_for_leaders(self._states, now)

    def _let_records_gather(self) -> None:
        """Sleeps before the next poll, so that a steady stream takes a few polls for each commit, not one a record."""
        records = self._transactions.records
        wait = self._pace.gathering(records, self._pipeline.features.exactly_once, self._clock.monotonic())
        if wait > 0:
            self._clock.sleep(wait)

    def _patience(self) -> float:
        """Longest wait of the next poll, in seconds."""
        records = self._transactions.records
        if not (records or self._moved_past_markers):
            return IDLE_SECONDS
        return self._pace.until_due(records, self._clock.monotonic())

    def _take(self, polled: Polled, now: float) -> None:
        fault: SourceStopped | None = None
        if polled.passed or polled.is_held_back:
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
            state.take(chunk)
            if chunk.count:
                size = chunk.records.size()
                self._memory.budget.take(chunk.count, size, now)
                state.records += chunk.count
                state.bytes += size
            for aside in chunk.aside:
                self._memory.budget.take(aside.count, aside.records.size(), now)
            self._last_record = now
        if fault is not None:
            # The stop reason promises that all records before the unreadable one are copied. `polled.ends` lie behind.
            self._close()
            raise fault
        for tp, end in polled.ends.items():
            state = self._states[tp]
            if end > state.next:
                state.next = end
            self._moved_past_markers |= state.moved

    def _staged(self, taken: Chunk) -> tuple[Chunk | None, StopReason | None]:
        """Applies the stages; returns as `Chunk.readable`, but decodes only if a stage or the sink needs it."""
        chunk = reduce(_apply, self._stages, taken)
        return (chunk, None) if chunk.unchanged and not self._needs_decoding else chunk.readable()

    def _is_full(self, now: float) -> bool:
        """Whether the transaction has reached its largest size or its longest time."""
        current = self._transactions
        if not current.records:
            return False
        full = current.records >= self._commit.batch_size or current.possible_runs >= _MOST_RUNS
        return full or self._memory.budget.spent or now - current.opened >= self._batch_seconds

    def _is_due(self, dry: bool, now: float) -> bool:
        """Whether to close a small transaction: the source has run dry, and the pause since the last commit is over."""
        records = self._transactions.records
        worth_it = dry if records else self._moved_past_markers
        return worth_it and now >= self._pace.due(records)

    def _close(self, releasing: Collection[TopicPartition] = (), small: bool = False) -> None:
        began = self._clock.monotonic()
        moved = [state for tp, state in self._states.items() if state.moved or tp in releasing]
        # The topic ids are requested now, arrive during the flush, and are checked before the commit.
        try:
            self._transactions.close(moved, self._ask_topic_ids(moved), releasing)
        except ForeignWriter as error:
            # Outside transactions, a slot that was frozen takes the records of its successor for foreign ones.
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
        """Checks the topic ids of all topics now and then; each commit checks only topics with new records."""
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
        """Whether a stop record was seen; remembered, because the record may be removed before the slot ends."""
        if self._memory.told_to_stop is None and self._plan.generation in self._tail.state.stops:
            self._memory.told_to_stop = self._clock.monotonic()
        return self._memory.told_to_stop is not None

    def _heartbeat(self) -> None:
        """Writes a heartbeat if one is due; it closes the open transaction first, because heartbeats have their own."""
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
        """Step 7: makes the last commit, and only then writes the releases."""
        self._close(releasing=self._states)
        self._slot_claims.release()

    def _hand_over(self, partitions: Collection[TopicPartition]) -> None:
        """Commits all records in hand, then releases some partitions to their new owners."""
        self._close(releasing=partitions)
        self._slot_claims.yield_to(partitions)


def _apply(chunk: Chunk, stage: Stage) -> Chunk:
    return stage(chunk)
