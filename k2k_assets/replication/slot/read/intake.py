"""Takes in what a poll has brought: each chunk goes through the stages, and into the open transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from k2k_assets.transport.chunk import Chunk, Records
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
            fault = self._take(taken, states[taken.source], now) or fault
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

    def _take(self, taken: Chunk, state: PartitionState, now: float) -> SourceStopped | None:
        """Takes a chunk, one piece after the other where it is too large to be decoded at once; returns its fault."""
        # Each piece is a chunk of its own, so that nothing holds its decoded records when the next one is decoded.
        piece: Chunk | None = replace(taken)
        while piece is not None and taken.source not in self.held:
            try:
                rest, why = self._take_piece(piece, state, now)
            except RegistryUnreachable as error:
                self.held[taken.source] = error
                break
            except SourceStopped as stopped:
                if stopped.partition != taken.source or not isinstance(stopped.reason, BatchUnreadable):
                    raise
                return stopped
            if why is not None:
                return SourceStopped(taken.source, why)
            piece = None if rest is None else replace(taken, records=rest, rest=None)
        return None

    def _take_piece(self, piece: Chunk, state: PartitionState, now: float) -> tuple[Records | None, StopReason | None]:
        """Takes a chunk; returns what was not decoded of it, and why no more of the partition can be copied."""
        source = piece.source
        if piece.first_offset < state.next:
            raise SourceStopped(source, SourceDiverged(source, state.next, piece.first_offset))
        chunk, why = self._staged(piece)
        if chunk is None:
            return None, why
        why = self._write(chunk, now) or why
        if isinstance(chunk.awaited, RegistryUnreachable):
            self.held[source] = chunk.awaited
        state.take(chunk)
        if chunk.count:
            size = chunk.records.size()
            self._memory.budget.take(chunk.count, size, now)
            state.records += chunk.count
            state.bytes += size
        for aside in chunk.aside:
            self._memory.budget.take(aside.count, aside.records.size(), now)
        self.last_record = now
        return chunk.rest, why

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
