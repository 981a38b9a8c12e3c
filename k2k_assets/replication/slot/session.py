"""A session is one life of a slot's clients: claim, fence, read the committed position, check, seek, copy.

After any error the session is thrown away and a new one starts from what the target holds; nothing is taken from
memory. The steps are numbered as in `docs/architecture.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.copy_settings import all_marked
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.log_fields import about
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.committer import CommitListener, Committer
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.commit.target_chain import TargetChain
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.function_wait import FunctionAbandoned, FunctionWait
from k2k_assets.replication.slot.read.intake import Intake
from k2k_assets.replication.slot.read.other_topics import OtherTopics
from k2k_assets.replication.slot.read.silent_source import SilentSourceWatch
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.replication.slot.start.hanging_transactions import HangingTransactions
from k2k_assets.replication.slot.start.offline_partitions import LeftOut
from k2k_assets.replication.slot.start.paused_topics import PausedTopics
from k2k_assets.replication.slot.start.slot_claims import SlotClaims
from k2k_assets.replication.slot.start.start_checks import resolve_starts
from k2k_assets.replication.slot.start.start_commits import StartCommits, ensure_newest, last_sequence
from k2k_assets.replication.slot.start.unmarked_copies import unmarked_copies
from k2k_assets.replication.slot.stop_record import AskedToStop, StopRecordWatch
from k2k_assets.stages import Stage
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.errors import NotByTransport, Restart, SourceStopped
from k2k_assets.transport.interface import Polled, Sink, Source

log = logging.getLogger("k2k.replication")

# Records that one poll takes: more adds memory, not speed.
_CHUNK = 1000
# How often to look for higher claims and for the stop record.
_POLL_SECONDS = 0.25
# How long records in hand wait for more, where the source is known to have more.
_MORE_SECONDS = 0.05
# How long the other partitions are copied before a registry is asked again for those that it does not answer for.
_HELD_SECONDS = 5.0


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
        last: Tells of a topic whether its stages may take long; None: those of no topic do.
        listener: Hears of commits; None: nobody does.
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
        last: Callable[[str], bool] | None = None,
        listener: CommitListener | None = None,
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._memory = memory
        self._source = source
        self._sink = sink
        one_stretch = plan.one_to_one or capabilities.reports_batches
        self._transactions = Transactions(plan, memory, sink, chain, one_stretch, clock)
        self._source_cluster, self._target_cluster = clusters
        self._silent_source = SilentSourceWatch(plan, memory, self._source_cluster)
        self._tail = tail
        self._slot_claims = SlotClaims(plan, memory.claims, self._transactions, tail, transactional_id, clock)
        self._stop_record = StopRecordWatch(plan, memory, tail, clock)
        self._committer = Committer(
            plan, memory, self._transactions, clusters, tail, self._slot_claims.still_holds, clock, listener
        )
        self._intake = Intake(
            memory, self._transactions, self._committer, stages, capabilities.needs_decoding, clock.monotonic(), last
        )
        self._chain = chain
        strict = chain is not None and chain.strict
        self._hanging_transactions = HangingTransactions(plan, self._target_cluster, strict, told=memory.hanging)
        self._paused = PausedTopics(plan.slot, memory, tail)
        self._left_out = LeftOut(plan, memory, self._source_cluster, self._target_cluster, clock)
        self._pipeline = plan.pipeline
        self._states: dict[TopicPartition, PartitionState] = {}
        self._next_look = clock.monotonic()
        self._function_wait = FunctionWait(clock)
        self._more_is_under_way = False
        self._held: set[TopicPartition] = set()
        self._held_until = 0.0
        told = source, self._transactions, self._committer, self._intake, _CHUNK
        self._other_topics = OtherTopics(*told, clock, last)

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
        except AskedToStop:
            self._slot_claims.release()
            return False
        except ClusterUnreachable:
            raise
        except K2KError:
            with suppress(Restart, ClusterUnreachable):
                self._slot_claims.release()
            raise

    def _start(self) -> bool:
        wanted = self._slot_claims.wanted(given_up=self._memory.stopped.released)
        if self._stop_record.is_seen():
            wanted = []
        if not wanted and not self._slot_claims.left():
            return False
        self._sink.open()  # 1: fences the former holder, and aborts its open transaction
        self._slot_claims.claim(wanted)  # 2
        self._slot_claims.release_left()
        if not wanted:
            return False
        self._slot_claims.settle(self._stop_record.ensure_none)
        commit_log = read_commit_log(  # 3
            self._pipeline, self._plan.cluster, self._target_cluster, keep_waiting=self._wait_for_others
        )
        ensure_newest(self._plan, self._slot_claims.partitions, commit_log, self._tail.state)
        self._memory.sequence = max(self._memory.sequence, last_sequence(self._plan, commit_log))
        elsewhere = {plan.source for plan in self._plan.partitions} - set(self._slot_claims.partitions)
        marked_always = all_marked(self._tail.state.settings.values(), self._pipeline.marker)
        starts = resolve_starts(  # 4
            self._plan,
            elsewhere.union(self._memory.stopped.reasons, self._paused.begin(self._slot_claims.partitions)),
            commit_log,
            self._source_cluster,
            self._target_cluster,
            marked_always,
        )
        begun = self._plan, starts.states.values(), commit_log, marked_always
        starts.stop(unmarked_copies(*begun, self._source_cluster, self._wait_for_others))
        starts.stop(self._hanging_transactions.stopped(starts.states.values(), self._wait_for_others))
        for tp, reason in starts.stopped.items():
            self._memory.stopped.stop(tp, reason)
            log.error("%s is stopped: %s", tp, render(reason), extra=about(reason=reason))
        self._states = starts.states
        self._committer.begin(self._states)
        self._other_topics.begin(self._states)
        raised = self._raise_epochs(commit_log)
        commits = StartCommits(self._plan, self._memory, self._transactions, self._clock)
        # Before partitions without a leader can end the session: what is stopped is told, however long they have none.
        stopped = commits.write(starts, commit_log, held=self._slot_claims.partitions, raised=raised)
        waiting = self._paused.partitions if self._waits_for_paused else ()
        self._left_out.begin(starts.offline_partitions, [*self._states, *waiting])
        self._release_stopped(stopped)
        if self._chain:
            self._chain.start(self._states)
        # Seek. The leader epoch makes the broker check that its log is still the same; a new client knows none itself.
        self._source.assign({tp: s.reading_from for tp, s in self._states.items()}, self._wait_for_others)
        return True

    def _raise_epochs(self, commit_log: CommitLog) -> Collection[TopicPartition]:
        """Decides under which epochs records are written outside transactions; returns where they are new.

        Where a record was not read, the next epoch may be in use: then nothing is taken over.
        """
        is_newest = commit_log.is_newest
        raised = self._sink.raise_epochs({tp: s.producer if is_newest else None for tp, s in self._states.items()})
        for tp, producer in raised.items():
            self._states[tp].producer = producer
        return raised

    def _release_stopped(self, partitions: Collection[TopicPartition]) -> None:
        """Releases stopped partitions while the slot goes on with others: who puts them right need not fence it.

        Their stop is committed before, so nobody takes them up who would only stop again; and nothing of them is in
        hand, because this session reads none of them. A slot that has no others ends, and releases all it has.
        """
        if partitions and (self._states or self._waits_for_paused):
            self._slot_claims.release(partitions)
            self._memory.stopped.released.update(partitions)

    def _wait_for_others(self) -> None:
        self._slot_claims.heartbeat_if_due()
        self._tail.refresh()
        self._stop_record.ensure_none()

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
        self._transactions.last_commit = self._intake.last_record = monotonic()
        self._silent_source.heard(self._intake.last_record)
        dry = False
        while self._states or self._waits_for_paused:
            limit = min(_CHUNK, self._committer.room())
            if dry and (wait := self._committer.gathering()) > 0:
                self._source.gather(wait)
            polled = self._poll(limit)
            now = monotonic()
            count = sum(chunk.count for chunk in polled.chunks) + polled.passed
            # What is under way anyway is waited for a little: each transaction has its price.
            dry = count < limit and not (count and polled.has_more)
            self._more_is_under_way = polled.has_more
            try:
                self._intake.take(polled, self._states, now)
            except FunctionAbandoned:
                return self._leave_function()
            if self._function_wait.has_waited:
                self._other_topics.end()
                self._function_wait.has_waited, now = False, monotonic()
                self._intake.last_record = now  # it was at work meanwhile, not idle
            self._go_on_without_held()
            self._ensure_source_answers(polled, now)
            self._committer.commit_if_due(dry, now)
            if now >= self._next_look:
                self._next_look = now + _POLL_SECONDS
                self._tail.refresh()
                if self._stop_record.is_seen():
                    break
                if superseded := self._slot_claims.superseded():
                    self._hand_over(superseded)
                    return False
                if (paused := self._paused.changed(self._slot_claims.partitions)) is not None:
                    self._committer.commit(releasing=paused)
                    return False
                if self._left_out.are_back(now):
                    self._committer.commit()
                    return False
                self._heartbeat()
                self._committer.ensure_idle_topics(now)
                self._hanging_transactions.watch(self._states.values(), now)
            if self._at_the_end(now) and self._left_out.are_given_up(now):
                break
        self._release()
        return True

    def _go_on_without_held(self) -> None:
        """Copies the other partitions for a while when a registry does not answer for some, then lets the session end.

        Raises:
            RegistryUnreachable: The while is over, or there are no others. What is in hand is committed.
        """
        held = self._intake.held
        if not held:
            return
        now = self._clock.monotonic()  # asking the registry may have taken seconds
        rest = [tp for tp, state in self._states.items() if tp not in held and not self._is_copied(state)]
        if not self._held:
            self._held_until = now + _HELD_SECONDS
        if rest and now < self._held_until and held.keys() == self._held:
            return
        if self._transactions.records or any(state.moved for state in self._states.values()):
            self._committer.commit()
        if self._at_the_end(now):
            return
        if not rest or now >= self._held_until:
            raise next(iter(held.values()))
        self._held = set(held)
        self._source.assign({tp: self._states[tp].reading_from for tp in rest}, self._heartbeat)

    def while_function_runs(self) -> None:
        """Called a few times a second while a function of the user works on a chunk, which is not in hand yet.

        What is in hand is committed meanwhile, and heartbeats go on: so no other instance takes the partitions, which
        would only meet the same records. Topics without functions are copied on.

        Raises:
            FunctionAbandoned: The session has to end, and the function has not returned in time.
            ClusterUnreachable: The source does not answer.
            SourceStopped: A partition of another topic cannot go on.
            Restart: The target refused a step.
        """
        waited = self._function_wait.seconds()
        now = self._clock.monotonic()
        self._committer.commit_if_due(True, now)
        self._heartbeat()
        if now >= self._next_look:
            self._next_look = now + _POLL_SECONDS
            self._tail.refresh()
            paused = self._paused.changed(self._slot_claims.partitions)
            waited_for = self._stop_record.is_seen() or self._slot_claims.superseded() or paused is not None
            self._function_wait.go_on(bool(waited_for))
        if not self._function_wait.has_to_end:
            self._other_topics.go_on(waited)

    def while_stage_works(self) -> None:
        """Called now and then while a stage works on a chunk, which is not in hand yet: before each request to a schema
        registry, and while expressions are matched.

        Heartbeats go on, so that no other instance takes the partitions, which would only do the same.

        Raises:
            Restart: The target refused a step.
        """
        self._heartbeat()

    def _leave_function(self) -> bool:
        """Ends the session as `copy` does, without the chunk of the function that was abandoned."""
        if self._stop_record.is_seen():
            self._release()
            return True
        if superseded := self._slot_claims.superseded():
            self._hand_over(superseded)
        else:
            self._committer.commit(releasing=self._paused.changed(self._slot_claims.partitions) or ())
        return False

    @property
    def _waits_for_paused(self) -> bool:
        """Whether to wait for paused topics to be resumed, as a run with an end does not."""
        return bool(self._paused.partitions) and isinstance(self._plan.extent, Continuous)

    def _poll(self, limit: int) -> Polled:
        """Polls the source; if that fails, it checks the topic ids first.

        For a topic that was created anew the client reports only an offset out of range.

        What is in hand is committed before another transport takes over: outside transactions records that are under
        way could come behind those of that one, which writes under another producer id.
        """
        try:
            patience = self._committer.patience()
            return self._source.poll(limit, max(patience, _MORE_SECONDS) if self._more_is_under_way else patience)
        except SourceStopped as stopped:
            states = [state for tp, state in self._states.items() if tp == stopped.partition]
            with suppress(K2KError, Restart):  # if the ids cannot be checked now, the client's error stands
                self._committer.ask_topic_ids(states)()
            self._committer.keep_promise(stopped.reason)
            raise
        except NotByTransport:
            self._committer.commit()
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
            states = {tp: state for tp, state in self._states.items() if tp not in self._intake.held}
            self._silent_source.refresh(states, now)
        self._silent_source.look_for_leaders(self._states, now)

    # -- ending -------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        """Writes a heartbeat if one is due; it closes the open transaction first, because heartbeats have their own."""
        if self._slot_claims.heartbeat_is_due:
            if self._transactions.records:
                self._committer.commit()
            self._slot_claims.heartbeat_if_due()

    def _is_copied(self, state: PartitionState) -> bool:
        """Whether a run with an end has copied a partition up to it."""
        return isinstance(self._plan.extent, UntilCaughtUp) and state.committed >= state.plan.readable_end

    def _at_the_end(self, now: float) -> bool:
        extent = self._plan.extent
        if isinstance(extent, UntilCaughtUp):
            return all(map(self._is_copied, self._states.values()))
        if isinstance(extent, Window):
            over = now - self._memory.started >= extent.duration.total_seconds()
            idle = now - self._intake.last_record >= extent.idle.total_seconds() and not self._intake.held
            return over or (idle and not self._transactions.records)
        return False

    def _release(self) -> None:
        """Step 7: makes the last commit, and only then writes the releases."""
        self._committer.commit(releasing=self._states)
        self._slot_claims.release()

    def _hand_over(self, partitions: Collection[TopicPartition]) -> None:
        """Commits all records in hand, then releases some partitions to their new owners."""
        self._committer.commit(releasing=partitions)
        self._slot_claims.yield_to(partitions)
