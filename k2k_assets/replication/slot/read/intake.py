"""Takes in what a poll has brought: each chunk goes through the stages, and into the open transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.registry.schemas import RegistryUnreachable
from k2k_assets.replication.slot.commit.committer import Committer
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.stages import Stage
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Polled


class Intake:
    """Takes the chunks of one session.

    Args:
        memory: The state that outlives the session.
        transactions: The transactions of the session.
        committer: Commits them.
        stages: The stages of the pipeline.
        needs_decoding: Whether the sink needs decoded chunks.
        now: Monotonic seconds.
        last: Tells of a topic whether its stages may take long: others do not wait for them. None: of no topic.

    Attributes:
        last_record: When the last record came, monotonic seconds.
        held: Partitions of which nothing more is taken in this session, because a registry that their next record needs
            does not answer.
    """

    def __init__(
        self,
        memory: SlotMemory,
        transactions: Transactions,
        committer: Committer,
        stages: Sequence[Stage],
        needs_decoding: bool,
        now: float,
        last: Callable[[str], bool] | None = None,
    ) -> None:
        self._memory = memory
        self._transactions = transactions
        self._committer = committer
        self._stages = stages
        self._needs_decoding = needs_decoding
        self._last = last
        self.last_record = now
        self.held: dict[TopicPartition, RegistryUnreachable] = {}

    def take(self, polled: Polled, states: Mapping[TopicPartition, PartitionState], now: float) -> None:
        """Runs the stages and writes the records; moves the positions past markers.

        Args:
            polled: What the source has brought.
            states: The partitions of the session.
            now: Monotonic seconds.

        Raises:
            SourceStopped: A partition cannot go on; all records before the one that is at fault are committed.
        """
        fault: SourceStopped | None = None
        if polled.passed or polled.is_held_back:
            self.last_record = now
        for taken in self._in_turn(polled.chunks):
            if taken.source in self.held:
                continue
            state = states[taken.source]
            if taken.first_offset < state.next:
                raise SourceStopped(taken.source, SourceDiverged(taken.source, state.next, taken.first_offset))
            try:
                chunk, why = self._staged(taken)
                if chunk is not None:
                    why = self._write(chunk, now) or why
            except RegistryUnreachable as error:
                self.held[taken.source] = error
                continue
            except SourceStopped as stopped:
                if stopped.partition != taken.source or not isinstance(stopped.reason, BatchUnreadable):
                    raise
                fault = stopped
                continue
            if chunk is not None and isinstance(chunk.awaited, RegistryUnreachable):
                self.held[taken.source] = chunk.awaited
            if why is not None:
                fault = SourceStopped(taken.source, why)
            if chunk is None:
                continue
            state.take(chunk)
            if chunk.count:
                size = chunk.records.size()
                self._memory.budget.take(chunk.count, size, now)
                state.records += chunk.count
                state.bytes += size
            for aside in chunk.aside:
                self._memory.budget.take(aside.count, aside.records.size(), now)
            self.last_record = now
        if fault is not None:
            # The stop reason promises that all records before the unreadable one are copied. `polled.ends` lie behind.
            self._committer.commit()
            raise fault
        for tp, at in polled.epochs.items():
            states[tp].know_epoch(at)
        for tp, end in polled.ends.items():
            if tp in self.held:
                continue
            state = states[tp]
            if end > state.next:
                state.next = end
            if state.moved:
                self._committer.has_moved_past_markers = True

    def _in_turn(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks, in order for each partition, with those that may take long behind all others."""
        last = self._last
        return chunks if last is None else sorted(chunks, key=lambda chunk: last(chunk.source.topic))

    def _write(self, chunk: Chunk, now: float) -> StopReason | None:
        """Writes a chunk, up to a batch that cannot be read; returns why the rest was left out.

        Raises:
            SourceStopped: The first batch cannot be read.
        """
        try:
            self._transactions.write(chunk, now)
        except SourceStopped as stopped:
            count = chunk.count
            chunk.columns()  # decoded, it ends before that batch
            if not isinstance(stopped.reason, BatchUnreadable) or chunk.count == count:
                raise
            self._transactions.write(chunk, now)
        return chunk.fault

    def _staged(self, taken: Chunk) -> tuple[Chunk | None, StopReason | None]:
        """Applies the stages; returns as `Chunk.readable`, but decodes only if a stage or the sink needs it."""
        chunk = reduce(_apply, self._stages, taken)
        return chunk.readable() if self._needs_decoding else (chunk.unless_empty(), chunk.fault)


def _apply(chunk: Chunk, stage: Stage) -> Chunk:
    return stage(chunk)
