"""Finds open transactions that do not end in target partitions, where none of our own is open.

Such a transaction blocks all read_committed readers of the partition. A foreign writer's transaction ends in time. A
transaction whose marker a broker has lost (Kafka 4.3.1 can lose it in a restart) never ends: the coordinator takes it
for ended, and the partition does not. The next marker of the same producer would end it too, and so show aborted
records or hide committed ones. So nothing may be written beside it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.target_log import OpenTransaction, open_transaction_found, open_transaction_to_do
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline.clients import guarantees
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState

log = logging.getLogger("k2k.replication")

# How often to look whether a transaction has ended while waiting for it.
_POLL_SECONDS = 0.2
# How often to look while records are copied.
_WATCH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """The offsets that an open transaction hides from read_committed readers.

    Attributes:
        at: Last stable offset, which is the first record of the open transaction.
        end: High watermark.
    """

    at: int
    end: int


class HangingTransactions:
    """Watches the target partitions of one slot.

    Args:
        plan: The slot.
        target: The target cluster.
        strict: Whether nobody else may write there, so that an open transaction stops its partition.
        told: Transactions that were logged already, by target partition and first offset.
    """

    def __init__(self, plan: SlotPlan, target: Cluster, strict: bool, told: set[tuple[TopicPartition, int]]) -> None:
        self._plan = plan
        self._target = target
        self._strict = strict
        self._patience = patience_seconds(plan)
        self._next: float | None = None
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        self._told = told

    def stopped(
        self, states: Collection[PartitionState], keep_waiting: Callable[[], None]
    ) -> Mapping[TopicPartition, StopReason]:
        """Waits until all transactions that are open now have ended; only if nobody else may write (`strict`).

        It is called before the slot opens its first transaction.

        Args:
            states: The partitions to copy.
            keep_waiting: Called while it waits; may raise.

        Returns:
            The source partitions that cannot be copied, with the reason.
        """
        if not self._strict:
            return {}
        by_target = {_target_of(state): state for state in states}
        ends = self._target.offsets(by_target, "latest")
        deadline = Deadline(self._patience)
        while (held := _held(ends, self._target.offsets(ends, "stable"))) and not deadline.expired():
            keep_waiting()
            time.sleep(min(_POLL_SECONDS, deadline.remaining()))
        return {
            by_target[tp].plan.source: OpenTransaction(
                by_target[tp].plan.source, tp, found.at, found.end, by_target[tp].target_end, self._patience
            )
            for tp, found in held.items()
        }

    def watch(self, states: Collection[PartitionState], now: float) -> None:
        """Logs, once, each transaction that has been open for longer than any of our own may be.

        If the target does not answer now, it is asked again later.
        """
        if self._next is not None and now < self._next:
            return
        first, self._next = self._next is None, now + _WATCH_SECONDS
        if first:
            return
        try:
            partitions = self._partitions(states)
            # Partitions without a leader are left to the next session: the copy loop must not wait here.
            ends, without_end = self._target.led_offsets(partitions, "latest")
            stable, without_stable = self._target.led_offsets(ends, "stable")
        except K2KError as error:
            log.debug("whether transactions hang is not known: %s", error)
            return
        if not stable and (offline := without_end | without_stable):
            log.debug("whether transactions hang is not known: %s", next(iter(offline.values())))
            return
        held = _held(ends, stable)
        self._since = {
            tp: self._since[tp] if self._since.get(tp, (-1, 0.0))[0] == found.at else (found.at, now)
            for tp, found in held.items()
        }
        for tp, (at, since) in self._since.items():
            if now - since >= self._patience and (tp, at) not in self._told:
                self._told.add((tp, at))
                found = open_transaction_found(tp, at, held[tp].end, now - since)
                log.error("%s. %s", found, open_transaction_to_do(tp, at))

    def _partitions(self, states: Collection[PartitionState]) -> Collection[TopicPartition]:
        """The target partitions, and the partitions of commit and mapping topic."""
        pipeline, control = self._plan.pipeline, self._plan.control
        bookkeeping = {
            *(TopicPartition(pipeline.coordination.commit.topic, p) for p in range(control.commit)),
            *(TopicPartition(pipeline.offset_mapping.topic, p) for p in range(control.mapping)),
        }
        if self._plan.one_to_one:
            return bookkeeping | {_target_of(state) for state in states}
        return bookkeeping.union(self._target.partitions_of({state.plan.target_topic for state in states}))


def patience_seconds(plan: SlotPlan) -> float:
    """After so many seconds the target has aborted any transaction that a dead writer with our settings left open."""
    return (plan.pipeline.transaction_timeout + guarantees.SYNC_MARGIN).total_seconds()


def _held(
    ends: Mapping[TopicPartition, int], stable: Mapping[TopicPartition, int]
) -> dict[TopicPartition, HangingTransaction]:
    return {tp: HangingTransaction(stable[tp], end) for tp, end in ends.items() if stable.get(tp, end) < end}


def _target_of(state: PartitionState) -> TopicPartition:
    return TopicPartition(state.plan.target_topic, state.plan.source.partition)
