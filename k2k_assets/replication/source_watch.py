"""Watches a source that says nothing: is it there, and does the consumer bring what it holds?

librdkafka waits for a source that is down without a word, and has been seen to stand still beside one that is up. Only
complete silence is looked into, so a source that is read from costs nothing here.

The question runs in a thread: a slot that waits for an answer still hears that it is to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from k2k_assets.errors import K2KError
from k2k_assets.kafka.answers import begun
from k2k_assets.kafka.cluster import Cluster, Which
from k2k_assets.replication.extent import Continuous
from k2k_assets.replication.partition_state import PartitionState
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.transactions import SlotMemory
from k2k_assets.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.replication")

# After this long without a word from the source it is asked, and again after each further time.
SILENCE_SECONDS = 15.0
# A slow link may need long for one batch: what is there may stay out for twice as long each time, up to this.
MOST_SECONDS = 600.0
_MOST_DOUBLINGS = 10
# Partitions that a message names.
_NAMED = 5


class SourceWatch:
    """Asks a silent source where it ends, and compares that with what has come.

    Args:
        plan: The slot.
        memory: What outlives the session.
        cluster: The source.
    """

    def __init__(self, plan: SlotPlan, memory: SlotMemory, cluster: Cluster) -> None:
        self._memory = memory
        self._cluster = cluster
        self._waits_for_it = isinstance(plan.extent, Continuous)
        isolation = plan.pipeline.client_properties("source", "consumer").get("isolation.level", "read_committed")
        self._which: Which = "stable" if isolation == "read_committed" else "latest"
        self._due = 0.0
        self._owing_since: float | None = None
        self._asked: Future[dict[TopicPartition, int]] | None = None
        self._told = False

    def heard(self, now: float) -> None:
        """Something came: a record, or word that a partition ends here.

        Args:
            now: Monotonic seconds.
        """
        self._due = now + SILENCE_SECONDS
        self._owing_since = self._asked = None
        self._told = False

    def look(self, states: Mapping[TopicPartition, PartitionState], now: float) -> None:
        """Nothing came: asks the source when that has been so for long, and looks at its answer when that is there.

        Args:
            states: The partitions that are copied.
            now: Monotonic seconds.

        Raises:
            ClusterUnreachable: The source does not answer; a continuous slot waits for it.
            Restart: The source has had something to read for a long time, and it does not come.
        """
        if self._asked is None:
            if now >= self._due:
                self._asked = begun(partial(self._cluster.offsets, list(states), self._which))
        elif self._asked.done():
            answer, self._asked = self._asked, None
            self._due = now + SILENCE_SECONDS
            self._compare(answer, states, now)

    def _compare(
        self, answer: Future[dict[TopicPartition, int]], states: Mapping[TopicPartition, PartitionState], now: float
    ) -> None:
        try:
            ends = answer.result()
        except K2KError as error:
            if not self._waits_for_it:
                raise
            if not self._told:
                log.warning("nothing comes from the source, and it does not say where it ends: %s", error)
                self._told = True
            self._owing_since = None  # while it is away nothing can come
            return
        owed = {tp: end for tp, end in ends.items() if tp in states and end > states[tp].next}
        if not owed:
            self._owing_since = None
        elif self._owing_since is None:
            self._owing_since = now  # it may have been written a moment ago
        elif now - self._owing_since >= self._longest():
            self._memory.stalls, self._memory.commits_at_stall = self._stalls() + 1, self._memory.commits
            raise Restart(f"the source has records that do not come: {_positions(owed, states)}")

    def _longest(self) -> float:
        """How long what is there may stay out, in seconds."""
        return min(SILENCE_SECONDS * 2 ** min(self._stalls(), _MOST_DOUBLINGS), MOST_SECONDS)

    def _stalls(self) -> int:
        """Sessions since the last commit that ended like that."""
        return self._memory.stalls if self._memory.commits == self._memory.commits_at_stall else 0


def _positions(owed: Mapping[TopicPartition, int], states: Mapping[TopicPartition, PartitionState]) -> str:
    named = [f"{tp} stands at {states[tp].next} of {end}" for tp, end in sorted(owed.items())[:_NAMED]]
    rest = len(owed) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")
