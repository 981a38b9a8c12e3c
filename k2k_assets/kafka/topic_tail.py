"""Follows a topic of the target from given offsets on, each committed record once, and notices what it cannot read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.log_reader import LogReader
from k2k_assets.kafka.messages import Message

_SETTLE_SECONDS = 5.0


class Replaced(Refused):
    """A topic is not the one that was followed any more, and never will be again."""


class TopicTail:
    """A topic of the target, followed with a read_committed consumer that is assigned, never subscribed.

    Args:
        topic: Its description; the topic is refused as soon as it is another one.
        target: The target cluster.
        properties: Consumer settings, librdkafka names.
        starts: Next offset to read, by partition; partitions that are not named are read from their log start.

    Raises:
        Replaced: It ends before an offset that was read.
        ClusterUnreachable: The target does not answer.
    """

    def __init__(
        self, topic: TopicDescription, target: Cluster, properties: Mapping[str, object], starts: Mapping[int, int]
    ) -> None:
        self._topic = topic
        self._target = target
        self._properties = properties
        self._next = dict(starts)
        self._reader: LogReader | None = None
        self._lost: list[tuple[int, int, int]] = []
        self._connect()

    def ensure_same(self, found: TopicDescription | None) -> None:
        """Compares the topic with what the cluster says now; new partitions are read from their start.

        Raises:
            Replaced: It was created anew: its records, and what they prove, are gone.
            Refused: It is not there; a broker that is starting may not know it yet.
        """
        if found is None:
            raise Refused(f"the topic {self._topic.name} on the {self._target} was deleted while it was followed")
        if found.topic_id != self._topic.topic_id:
            raise Replaced(
                f"the topic {self._topic.name} on the {self._target} was deleted and created anew while it was "
                f"followed (topic id {self._topic.topic_id} is now {found.topic_id}). Nothing was committed since; "
                "start again to go by what there is now"
            )
        if found.partitions > self._topic.partitions:
            self._topic = found
            self._disconnect()

    def ends(self) -> dict[TopicPartition, int]:
        """High watermarks: the end with what open transactions have written."""
        return self._target.offsets(self._partitions(), "latest")

    def take_lost(self) -> list[tuple[int, int, int]]:
        """Records deleted before they were read, told once: partition, first offset, offset after the last."""
        lost, self._lost = self._lost, []
        return lost

    def log_starts(self) -> dict[int, int]:
        """First offset that there is, by partition."""
        return {tp.partition: start for tp, start in self._target.offsets(self._partitions(), "earliest").items()}

    def read_until(self, ends: Mapping[TopicPartition, int], patience: float) -> Iterator[list[Message]]:
        """Batches of records until each partition was read up to its end.

        Args:
            ends: High watermarks.
            patience: Seconds without a record after which it is given up: a transaction hangs, or nobody answers.

        Raises:
            ClusterUnreachable: Given up.
        """
        reader = self._connect()
        deadline = Deadline(patience)
        while behind := {tp: end for tp, end in ends.items() if reader.reached[tp] < end}:
            if deadline.expired():
                where = ", ".join(f"{tp} at {reader.reached[tp]} of {end}" for tp, end in behind.items())
                raise ClusterUnreachable(
                    f"{self._topic.name} on the {self._target} was not read to its end: nothing came for {patience:g} "
                    f"s ({where}). Either the target does not answer, or a transaction is open there"
                )
            batch = self._poll(reader, min(0.5, deadline.remaining()))
            if batch:
                deadline = Deadline(patience)
                yield batch

    def close(self) -> None:
        """Lets go of the client."""
        self._disconnect()

    def _poll(self, reader: LogReader, timeout: float) -> list[Message]:
        try:
            return reader.poll(timeout)
        except ClusterUnreachable:
            self._disconnect()  # the next reading looks first where the log begins now
            raise

    def _connect(self) -> LogReader:
        if self._reader is None:
            self._ensure_not_cut_off()
            at: dict[TopicPartition, int] = {}
            for partition, start in self.log_starts().items():
                wanted = self._next.get(partition, 0)
                if wanted < start:
                    self._lost.append((partition, wanted, start))
                at[TopicPartition(self._topic.name, partition)] = max(wanted, start)
            self._reader = LogReader(self._properties, at, committed_only=True, follow=True)
        return self._reader

    def _ensure_not_cut_off(self) -> None:
        """A broker that has just come back may still find its end."""
        deadline = Deadline(_SETTLE_SECONDS)
        while beyond := {tp: end for tp, end in self.ends().items() if self._next.get(tp.partition, 0) > end}:
            if deadline.expired():
                where = ", ".join(f"{tp} up to {self._next[tp.partition]}, ends at {e}" for tp, e in beyond.items())
                raise Replaced(
                    f"the topic {self._topic.name} on the {self._target} was cut off: read were {where}. What it holds "
                    "cannot be trusted to follow on what was read"
                )
            time.sleep(0.1)

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._next.update({tp.partition: offset for tp, offset in self._reader.reached.items()})
            self._reader.close()
            self._reader = None

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic.name, p) for p in range(self._topic.partitions)]
