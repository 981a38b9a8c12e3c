"""Watches a silent source: does it answer, and does the consumer return the records that it has?

librdkafka reports no error while a source is down, and it has been seen to hang although the source is up. The watch
asks only when the whole source is silent, so it costs nothing while records come. But a partition that loses its leader
falls silent alone: so a run with an end asks for the leaders of its partitions now and then, whatever else comes.

The question runs in a thread, so that the slot still sees its stop record while it waits for the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from functools import partial

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.kafka.answers import in_thread
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import ELECTION_SECONDS
from k2k_assets.replication.extent import Continuous, UntilCaughtUp
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.replication")

# After so many seconds without anything from the source the watch asks, and again after each further so many.
SILENCE_SECONDS = 15.0
# How often a run that waits for the ends of its partitions asks whether they have a leader.
LEADER_SECONDS = 15.0
# Longest wait for records that the source has. A slow link may need long for one batch, so the wait doubles each time,
# up to this.
MOST_SECONDS = 600.0
_MOST_DOUBLINGS = 10
# A message names at most so many partitions.
_NAMED = 5


class SilentSourceWatch:
    """Asks a silent source for its ends, and compares them with the positions of the session.

    Args:
        plan: The slot.
        memory: The state that outlives the session.
        cluster: The source.
    """

    def __init__(self, plan: SlotPlan, memory: SlotMemory, cluster: Cluster) -> None:
        self._memory = memory
        self._cluster = cluster
        self._waits_for_it = isinstance(plan.extent, Continuous)
        self._which = plan.pipeline.readable_end
        self._waits_for_ends = isinstance(plan.extent, UntilCaughtUp)
        self._due = 0.0
        self._owing_since: float | None = None
        self._asked: Future[LedOffsets] | None = None
        self._leaders_due: float | None = None
        self._leaders: Future[LedOffsets] | None = None
        self._told = False

    def heard(self, now: float) -> None:
        """Notes that something came: a record, or the end of a partition.

        Args:
            now: Monotonic seconds.
        """
        self._due = now + SILENCE_SECONDS
        self._owing_since = self._asked = None
        self._told = False

    def refresh(self, states: Mapping[TopicPartition, PartitionState], now: float) -> None:
        """Notes that nothing came; asks the source if it has been silent for long, and checks its answer when it comes.

        Args:
            states: The partitions that are copied.
            now: Monotonic seconds.

        Raises:
            ClusterUnreachable: The source does not answer; a continuous slot waits instead.
            Restart: The source has had records for a long time that the consumer does not return; or partitions of a
                slot with an end have lost their leader.
        """
        if self._asked is None:
            if now >= self._due:
                self._asked = in_thread(partial(self._ask, list(states)))
        elif self._asked.done():
            answer, self._asked = self._asked, None
            self._due = now + SILENCE_SECONDS
            self._compare(answer, states, now)

    def look_for_leaders(self, states: Mapping[TopicPartition, PartitionState], now: float) -> None:
        """In a run with an end: asks now and then whether the partitions that have not reached their end have leaders.

        Args:
            states: The partitions that are copied.
            now: Monotonic seconds.

        Raises:
            Restart: A partition has lost its leader; the next session leaves it out.
        """
        if not self._waits_for_ends:
            return
        if self._leaders_due is None:
            self._leaders_due = now + LEADER_SECONDS
        if self._leaders is None:
            if now >= self._leaders_due:
                self._leaders_due = now + LEADER_SECONDS
                if behind := [tp for tp, state in states.items() if state.next < state.plan.readable_end]:
                    self._leaders = in_thread(partial(self._ask, behind))
        elif self._leaders.done():
            answer, self._leaders = self._leaders, None
            try:
                _ensure_leaders(answer.result().offline)
            except K2KError as error:  # if the source is silent altogether, `refresh` finds that out
                log.debug("whether the source's partitions have leaders is not known: %s", error)

    def _ask(self, partitions: Collection[TopicPartition]) -> LedOffsets:
        return self._cluster.led_offsets(partitions, self._which, ELECTION_SECONDS)

    def _compare(self, answer: Future[LedOffsets], states: Mapping[TopicPartition, PartitionState], now: float) -> None:
        try:
            ends, offline_partitions = answer.result()
        except K2KError as error:
            if not self._waits_for_it:
                raise
            if not self._told:
                log.warning("nothing comes from the source, and it does not tell the ends of its partitions: %s", error)
                self._told = True
            self._owing_since = None  # while the source is away no records can come
            return
        if not self._waits_for_it:
            _ensure_leaders(offline_partitions)
        owed = {tp: end for tp, end in ends.items() if tp in states and end > states[tp].next}
        if not owed:
            self._owing_since = None
        elif self._owing_since is None:
            self._owing_since = now  # the records may have been written a moment ago
        elif now - self._owing_since >= self._longest():
            self._memory.stalls.add(self._memory.commits)
            raise Restart(f"the source has records that do not come: {_positions(owed, states)}")

    def _longest(self) -> float:
        """Longest wait for records that the source has, in seconds."""
        stalls = self._memory.stalls.since(self._memory.commits)
        return min(SILENCE_SECONDS * 2.0 ** min(stalls, _MOST_DOUBLINGS), MOST_SECONDS)


def _ensure_leaders(offline_partitions: Mapping[TopicPartition, str]) -> None:
    if offline_partitions:
        raise Restart(f"{abbreviate(offline_partitions)}: {offline_partitions[min(offline_partitions)]}")


def _positions(owed: Mapping[TopicPartition, int], states: Mapping[TopicPartition, PartitionState]) -> str:
    named = [f"{tp} stands at {states[tp].next} of {end}" for tp, end in sorted(owed.items())[:_NAMED]]
    rest = len(owed) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")
