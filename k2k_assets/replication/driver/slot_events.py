"""Emits the events of slots when their records are read from the control topics."""

from __future__ import annotations

from collections.abc import Mapping

from k2k_assets.coordination.peers import Peers
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.events import Committed, Listener, PartitionClaimed, PartitionStopped
from k2k_assets.replication.driver.progress import OwnCommit, ProgressReader


class SlotEvents:
    """Turns claims and commits into events.

    Args:
        progress: Follows the commit topic.
        peers: Follows the assignment topic.
        listener: Called with each event.
    """

    def __init__(self, progress: ProgressReader, peers: Peers, listener: Listener) -> None:
        self._progress = progress
        self._peers = peers
        self._listener = listener
        self._generation = -1
        self._unclaimed: dict[TopicPartition, str] = {}
        self._has_begun = False

    @property
    def has_begun(self) -> bool:
        """Whether a slot of the newest generation has claimed anything."""
        return self._has_begun

    def begin(self, generation: int, partitions: Mapping[TopicPartition, str]) -> None:
        """Begins with the claims of a new generation.

        Args:
            generation: Number of the generation.
            partitions: The partitions that its slots will claim, with their source topic ids.
        """
        self._generation = generation
        self._unclaimed = dict(partitions)
        self._has_begun = False

    def tell(self) -> None:
        """Reads both control topics, and emits the new events.

        Raises:
            K2KError: A control topic cannot be read.
        """
        for commit in self._progress.read():
            self._tell_commit(commit)
        for note in self._progress.new_stops():
            if note.generation == self._generation:
                self._tell_claim(note.source, note.slot)
            self._listener(PartitionStopped(note.source, note.reason))
        self._tell_claims()

    def _tell_commit(self, commit: OwnCommit) -> None:
        """Emits a commit of this instance, or a stop."""
        record, before = commit.record, commit.before
        if record.generation == self._generation:
            self._tell_claim(record.source, record.slot)  # a short-lived slot has released its claim by now
        records, bytes_, runs = (before.records, before.bytes_, before.runs) if before else (0, 0, 0)
        if record.reason is None:
            self._listener(
                Committed(
                    partition=record.source,
                    position=record.position,
                    target_end=record.target_end,
                    records=record.records - records,
                    bytes=record.bytes_ - bytes_,
                    runs=record.runs - runs,
                    generation=record.generation,
                    slot=record.slot,
                    time=record.time,
                )
            )
        elif before is None or before.reason is None:
            self._listener(PartitionStopped(record.source, record.reason))

    def _tell_claims(self) -> None:
        """Emits the new claims of the newest generation, until its slots have claimed everything."""
        if self._unclaimed:
            self._peers.refresh()
            for tp, slot in self._peers.claimed_by_newest(self._unclaimed).items():
                self._tell_claim(tp, slot)

    def _tell_claim(self, tp: TopicPartition, slot: int) -> None:
        if self._unclaimed.pop(tp, None):
            self._has_begun = True
            self._listener(PartitionClaimed(tp, self._generation, slot))
