"""A slot is one copy task: it runs sessions one after the other, until its work is done.

How it reacts to errors:

- retriable: librdkafka retries by itself within the deadlines;
- abortable, ambiguous, fatal, fenced: the session is thrown away, and the next one starts at step 1;
- superseded: the slot leaves a partition to the owner with the higher claim, and goes on with the others;
- a partition that cannot go on: the next session leaves its topic out and releases it with its reason.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination import fencing_rules
from k2k_assets.core.errors import ClusterUnreachable, K2KError, NotAllowed
from k2k_assets.core.log_fields import about
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.records import RecordRefused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.read_back import count_records, ends_of_committed
from k2k_assets.registry.schemas import MoreToRegister
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.target_chain import ForeignWriter, TargetChain
from k2k_assets.replication.slot.dead_letter_topics import without_dead_letter_topic
from k2k_assets.replication.slot.read.throttled_source import Limits, ThrottledSource
from k2k_assets.replication.slot.reporter import SlotReporter
from k2k_assets.replication.slot.session import Session
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.replication.slot.write_permissions import revoked
from k2k_assets.stages import LongStage, isolated_functions_of, stages_of
from k2k_assets.transport.errors import Forbidden, NotByTransport, Restart, RetryAtOnce, SourceStopped, Undeliverable
from k2k_assets.transport.factory import records_transport_of, transport_of, tries_batches
from k2k_assets.transport.interface import Sink, Sinks, Source, Transport

log = logging.getLogger("k2k.replication")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A run with an end gives up when nothing was committed for this long; a continuous one never does.
_PATIENCE_SECONDS = 120.0
# A slot that was told to stop, but cannot commit and release, leaves after so many seconds.
_LEAVE_SECONDS = 10.0
# Of the reason why not by batches, which each commit record holds.
_LONGEST_REASON = 300


@contextmanager
def quiet_garbage_collection() -> Iterator[None]:
    """Turns automatic garbage collection off in its body.

    Messages are many and form no reference cycles; searching them for cycles costs a third of the loop's time. The
    session collects between transactions instead. Objects that exist already are frozen, so that this is fast.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        gc.collect()


class Slot:
    """Runs the sessions of one slot.

    Args:
        plan: The slot's plan.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self._plan = plan
        self._memory = SlotMemory(started=time.monotonic())
        self._reporter = SlotReporter(plan)
        self._transport = transport_of(plan.pipeline, self._reporter.statistics)
        self._memory.transport = "batches" if tries_batches(plan.pipeline) else None
        self._sinks = self._opened_sinks()
        self._functions = isolated_functions_of(plan.pipeline)
        self._stages = stages_of(plan.pipeline, plan.cluster, plan.target_cluster, self._functions)
        throttle = plan.pipeline.throttle
        self._limits = Limits(throttle, plan.sharing) if throttle.is_set else None
        self._id = ""
        self._quiet_since = time.monotonic()
        self._pause = _FIRST_PAUSE

    def run(self) -> SlotMemory:
        """Copies until the end, or until others have taken over all partitions.

        Returns:
            The stopped partitions, and those that others have taken over.

        Raises:
            Superseded: A newer instance has copied since, and is gone.
            K2KError: The slot cannot go on; it left no open transaction behind.
        """
        pipeline = self._plan.pipeline
        with ExitStack() as stack:
            stack.enter_context(quiet_garbage_collection())
            stack.callback(self._reporter.close)
            stack.callback(self._close_sinks)
            if self._functions:
                stack.callback(self._functions.process.close)
                self._functions.process.start()
            source = stack.enter_context(Cluster("source", pipeline.client_properties("source", "admin")))
            target = stack.enter_context(Cluster("target", pipeline.client_properties("target", "admin")))
            while True:
                commits = self._memory.commits
                try:
                    with ExitStack() as session_stack:
                        if self._session(session_stack, source, target):
                            return self._memory
                except NotByTransport as found:
                    self._go_on_by_records(found)
                except RetryAtOnce as again:
                    log.debug("slot %d goes on in another way: %s", self._plan.slot, again)
                except (Restart, ClusterUnreachable, NotAllowed) as error:
                    if isinstance(error, NotAllowed) and not isinstance(self._plan.extent, Continuous):
                        raise
                    if self._has_to_leave(error):
                        return self._memory
                    cause = self._cause(error, target)
                    source.renew_if_disturbed()
                    target.renew_if_disturbed()
                    more = isinstance(error, MoreToRegister)
                    self._wait(cause, progressed=more or self._memory.commits > commits)
                except ForeignWriter as error:
                    self._stop([error.source], error.reason)
                except SourceStopped as error:
                    self._stop(self._of_topic(error.partition.topic), error.reason)
                except Undeliverable as error:
                    self._refused(error, target, progressed=self._memory.commits > commits)
                gc.collect()

    def _session(self, stack: ExitStack, source: Cluster, target: Cluster) -> bool:
        """Runs one session; returns whether it was the last one."""
        stack.callback(lambda: self._memory.budget.given_up(time.monotonic()))
        tail = stack.enter_context(AssignmentTail(self._plan.pipeline, target))
        tail.catch_up()  # a fenced slot must know the newest claims before it initialises an id, which may be taken
        self._id = self._free_id(tail)
        form = "whole batches" if self._transport.capabilities.keeps_batches else "records"
        log.info("slot %d copies by %s from now on", self._plan.slot, form)
        sink = self._sink()
        stack.callback(sink.close)
        reader = self._source()
        stack.callback(reader.close)
        clusters, chain = (source, target), self._chain(target)
        capabilities = self._transport.capabilities
        session = Session(
            self._plan, self._memory, reader, sink, clusters, tail, self._id, chain, capabilities, self._stages,
            last=self._functions.are_for if self._functions else None, listener=self._reporter.commits,
        )  # fmt: skip
        if self._functions:
            self._functions.process.while_waiting = session.while_function_runs
        for stage in self._stages:
            if isinstance(stage, LongStage):
                stage.call_while_working(session.while_stage_works)
        with self._reporter.session(lambda: session.has_records):
            return session.copy() if session.start() else True

    def _free_id(self, tail: AssignmentTail) -> str:
        plan, pipeline, state = self._plan, self._plan.pipeline, tail.state
        used = fencing_rules.ids_above(pipeline.group, plan.generation, state.claims.values(), state.instances)
        return fencing_rules.free_id(pipeline.name, pipeline.group, plan.slot, plan.slots, used)

    def _close_sinks(self) -> None:
        """Closes the sinks; drops queued records if others copy these partitions now: they would be duplicates."""
        self._sinks.close(
            discard=all(plan.source in self._memory.claims.superseded_by for plan in self._plan.partitions)
        )

    def _opened_sinks(self) -> Sinks:
        try:
            return self._transport.open_sinks(self._plan.one_to_one, self._plan.batch_bytes)
        except NotByTransport as found:
            self._transport = self._records_transport(found)
            return self._transport.open_sinks(self._plan.one_to_one, self._plan.batch_bytes)

    def _go_on_by_records(self, why: NotByTransport) -> None:
        """Copies through the other transport from the next session on, which begins at what the target holds."""
        self._close_sinks()
        self._transport = self._records_transport(why)
        self._sinks = self._opened_sinks()

    def _records_transport(self, why: NotByTransport) -> Transport:
        demanded = self._plan.pipeline.transport.form == "batches"
        told = "slot %d copies record by record, not by whole batches: %s"
        log.log(logging.WARNING if demanded else logging.INFO, told, self._plan.slot, why)
        self._memory.transport = f"records: {why}"[:_LONGEST_REASON]
        return records_transport_of(self._plan.pipeline, self._reporter.statistics)

    def _source(self) -> Source:
        if self._limits is None:
            return self._transport.open_source()
        return ThrottledSource(self._transport.open_source, self._limits, self._transport.capabilities.needs_decoding)

    def _sink(self) -> Sink:
        return self._sinks.open_sink(self._id)

    def _chain(self, target: Cluster) -> TargetChain | None:
        if not self._plan.one_to_one:
            return None
        pipeline = self._plan.pipeline
        reader = pipeline.client_properties("target", "consumer")
        return TargetChain(
            fail=pipeline.error_handling.on_foreign_writer != "ignore",
            markers=1 if pipeline.features.exactly_once else 0,
            read_back=partial(count_records, target, reader),
            ends_of_committed=partial(ends_of_committed, target, reader),
        )

    def _refused(self, error: Undeliverable, target: Cluster, progressed: bool) -> None:
        """Stops the topic of a record that the target refuses, once it is known which record it is."""
        if not error.final or error.index is None:
            self._wait(self._cause(Restart(error.why), target), progressed)
            return
        sent = error.sent
        offset = sent.offsets[error.index]
        reason = RecordRefused(sent.source, offset, error.size, sent.target_topic, error.why)
        self._stop(self._of_topic(sent.source.topic), reason)

    def _cause(self, error: Exception, target: Cluster) -> Exception:
        """Stops topics that cannot be written any more; returns the cause of an error, or the error."""
        if not isinstance(error, Restart):
            return error
        try:
            stopped: dict[TopicPartition, StopReason] = {**without_dead_letter_topic(self._plan, target)}
            if isinstance(error, Forbidden):
                stopped |= revoked(self._plan, target, error)
        except (Forbidden, K2KError) as more:
            return more if isinstance(error, Forbidden) else error
        for tp, reason in stopped.items():
            if tp not in self._memory.stopped.reasons:
                self._stop([tp], reason)
        return error

    def _of_topic(self, topic: str) -> list[TopicPartition]:
        return [plan.source for plan in self._plan.partitions if plan.source.topic == topic]

    def _stop(self, partitions: Iterable[TopicPartition], reason: StopReason) -> None:
        for tp in partitions:
            log.error("%s is stopped: %s", tp, render(reason), extra=about(reason=reason))
            self._memory.stopped.stop(tp, reason)

    def _has_to_leave(self, error: Exception) -> bool:
        """Whether a slot that was told to stop leaves although it cannot release; others will fence it."""
        told = self._memory.told_to_stop
        if told is None or time.monotonic() - told < _LEAVE_SECONDS:
            return False
        log.warning("slot %d ends without releasing what it has claimed: %s", self._plan.slot, error)
        return True

    def _wait(self, error: Exception, progressed: bool) -> None:
        """Waits before the next session; raises the error if a run with an end has made no progress for long."""
        now = time.monotonic()
        if progressed:
            self._quiet_since, self._pause = now, _FIRST_PAUSE
        extent = self._plan.extent
        limit = _PATIENCE_SECONDS
        if isinstance(extent, Window):
            limit = max(limit, extent.duration.total_seconds())
        if not isinstance(extent, Continuous) and now - self._quiet_since > limit:
            what = "caught up" if isinstance(extent, UntilCaughtUp) else "its window"
            raise ClusterUnreachable(f"slot {self._plan.slot} gave up before {what}: {error}") from None
        log.warning("slot %d starts again in %.1f s: %s", self._plan.slot, self._pause, error)
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
