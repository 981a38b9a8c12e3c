"""Leaves partitions without a leader, on the source or on the target, out of a session, so that the others are copied.

These partitions stay claimed and keep their committed positions. When they have a leader again, the session is ended in
the ordinary way, and the next one begins with them as with all others: claim, fence, read the position, seek. A run
with an end waits some time for them, and then stops them by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.stops.reason import render
from k2k_assets.core.stops.reasons.offline_partitions import LeaderMissing
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.kafka.answers import in_thread
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import ELECTION_SECONDS
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Continuous, Window
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.replication.slot.slot_memory import SlotMemory

log = logging.getLogger("k2k.replication")


# How often to look whether partitions have a leader again.
_POLL_SECONDS = 10.0
# How long a run with an end waits for a leader; a broker that restarts is back by then.
_PATIENCE_SECONDS = 60.0


def without_leader(
    pipeline: Pipeline,
    plans: Sequence[PartitionPlan],
    target: Cluster,
    there: Mapping[str, TopicDescription],
    patience: float = ELECTION_SECONDS,
) -> dict[TopicPartition, str]:
    """Source partitions whose target partition has no leader; they would delay whole transactions.

    Args:
        pipeline: Says which target partition records go to: the one with the same number, or any.
        plans: Partitions to copy.
        target: The target cluster.
        there: The target topics.
        patience: Seconds to wait for leaders.
    """
    feeds = {
        plan.source: [TopicPartition(plan.target_topic, plan.source.partition)]
        if pipeline.routing.keeps_partition(plan.source.topic)
        else [TopicPartition(plan.target_topic, p) for p in range(there[plan.target_topic].partitions)]
        for plan in plans
    }
    partitions = list(dict.fromkeys(tp for to in feeds.values() for tp in to))
    found = target.led_offsets(partitions, "latest", patience).offline
    return {source: next(found[tp] for tp in to if tp in found) for source, to in feeds.items() if found.keys() & to}


class LeftOut:
    """The partitions that a slot leaves out because they have no leader.

    Args:
        plan: The slot.
        memory: Remembers since when each is left out, and which partitions are stopped.
        source: The source cluster.
        target: The target cluster.
        clock: Monotonic seconds.
    """

    def __init__(
        self, plan: SlotPlan, memory: SlotMemory, source: Cluster, target: Cluster, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._memory = memory
        self._clusters = source, target
        self._reasons: dict[TopicPartition, str] = {}
        self._next_look = 0.0
        self._asked: Future[set[TopicPartition]] | None = None

    def begin(self, found: Mapping[TopicPartition, str], others: Collection[TopicPartition]) -> None:
        """Begins a session without some partitions.

        Args:
            found: The partitions without a leader, with the reason.
            others: The partitions that the session copies.

        Raises:
            ClusterUnreachable: There are no others, and a leader may yet be elected.
        """
        now = self._clock.monotonic()
        known = self._memory.offline_since
        if fresh := found.keys() - known.keys():
            log.warning("slot %d goes on without %s: %s", self._plan.slot, abbreviate(fresh), found[min(fresh)])
        if back := [tp for tp in known if tp not in found and tp not in self._memory.stopped.reasons]:
            log.info("slot %d goes on with %s", self._plan.slot, abbreviate(back))
        self._memory.offline_since = {tp: known.get(tp, now) for tp in found}
        self._reasons = dict(found)
        self._next_look = now + _POLL_SECONDS
        if not isinstance(self._plan.extent, Continuous):
            self._stop_overdue(now)
        if self._reasons and not others:
            raise ClusterUnreachable(
                f"nothing else is to be copied than {abbreviate(self._reasons)}: {self._reasons[min(self._reasons)]}"
            )

    def are_back(self, now: float) -> bool:
        """Whether one of the partitions has a leader again; it asks now and then, in a thread, and never waits.

        Args:
            now: Monotonic seconds.
        """
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            self._next_look = now + _POLL_SECONDS
            try:
                return bool(asked.result())
            except K2KError as error:
                log.debug("whether partitions have a leader again is not known: %s", error)
        if self._reasons and self._asked is None and now >= self._next_look:
            self._asked = in_thread(partial(self._with_leader, list(self._reasons)))
        return False

    def are_given_up(self, now: float) -> bool:
        """Stops the partitions that have been left out for long enough; returns whether none is left to wait for.

        It is called when a run with an end has copied everything else.

        Args:
            now: Monotonic seconds.
        """
        self._stop_overdue(now)
        return not self._reasons

    def _stop_overdue(self, now: float) -> None:
        """Stops the partitions that have been left out for long enough.

        The commit log gets no stop record: once they have a leader, nothing is wrong with them, and an idle partition
        might show the stop for long.
        """
        extent = self._plan.extent
        is_over = isinstance(extent, Window) and now - self._memory.started >= extent.duration.total_seconds()
        patience = 0.0 if is_over else _PATIENCE_SECONDS
        for tp in [tp for tp in self._reasons if now - self._memory.offline_since[tp] >= patience]:
            reason = LeaderMissing(self._reasons.pop(tp))
            log.error("%s is stopped: %s", tp, render(reason))
            self._memory.stopped.stop(tp, reason, is_noted=False)

    def _with_leader(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        source, target = self._clusters
        for cluster in self._clusters:
            cluster.topics()  # else the client goes on with the leaders that it knows
        plans = [plan for plan in self._plan.partitions if plan.source in partitions]
        there = target.describe({plan.target_topic for plan in plans})
        gone = {plan.source for plan in plans if plan.target_topic not in there}  # the next session stops these
        plans = [plan for plan in plans if plan.source not in gone]
        on_target = without_leader(self._plan.pipeline, plans, target, there, patience=0)
        on_source = source.led_offsets([plan.source for plan in plans], "latest").offline
        return set(partitions) - on_target.keys() - on_source.keys()
