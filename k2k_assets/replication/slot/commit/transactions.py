"""The transactions of one session: records, commit records and mapping records are committed together.

The letters are those of step 5 in `docs/architecture.md`: (a) flush, all deliveries good; (b) fold source and target
offsets into runs; (c) produce commit and mapping records; (d) flush again; (e) EndTxn alone, timed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from k2k_assets.control.commit_log import now_ms
from k2k_assets.control.commit_record import CommitRecord, Kind, key_bytes
from k2k_assets.control.partitions import commit_partition, mapping_partition
from k2k_assets.control.stop_notes import StopNote, note_key
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.folding import RunsByTarget, fold
from k2k_assets.replication.slot.commit.partition_state import PartitionState, commit_record, mapping_record
from k2k_assets.replication.slot.commit.target_chain import TargetChain
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import SINK_SECONDS, Delivery, Sink

Control = tuple[str, int, bytes, bytes]
"""A record for a control topic: topic, partition, key and value."""


class Transactions:
    """Writes one transaction after the other, through one sink.

    Args:
        plan: The slot.
        memory: The state that outlives the session.
        sink: Writes to the target.
        chain: Finds foreign writers; None where they cannot be detected.
        one_stretch: Whether the records of a chunk lie one behind the other on the target, unless something is wrong.
        clock: The session's clock.

    Attributes:
        records: Records in hand: in the open transaction, or left out on purpose since the last commit.
        possible_runs: The most runs and dropped ranges that these records may fold into.
        opened: When the first of these records came, monotonic seconds.
        last_commit: When the last transaction was committed, monotonic seconds.
    """

    def __init__(
        self,
        plan: SlotPlan,
        memory: SlotMemory,
        sink: Sink,
        chain: TargetChain | None,
        one_stretch: bool,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._pipeline = plan.pipeline
        self._memory = memory
        self._sink = sink
        self._chain = chain
        self._one_stretch = one_stretch
        # The sink's time-out bounds each flush, however long the transaction may be open.
        self._timeout = min(plan.pipeline.transaction_timeout.total_seconds(), SINK_SECONDS)
        self._begun = False
        self.records = self.possible_runs = 0
        self.opened = self.last_commit = clock.monotonic()

    def begin(self) -> None:
        """Begins a transaction, unless one is open."""
        if not self._begun:
            self._sink.begin()
            self._begun = True

    def write(self, chunk: Chunk, now: float) -> None:
        """Queues a chunk that has been through all stages.

        For dropped records no transaction is begun; they are noted when the next one is closed.
        """
        if not self.records:
            self.opened = now
        if chunk.count:
            self.begin()
            sent = self._sink.write(chunk)
            self.records += chunk.count
            self.possible_runs += sent.batches if chunk.contiguous and self._one_stretch else chunk.count
        for aside in chunk.aside:
            self.begin()
            self._sink.write_aside(aside)
        if chunk.dropped is not None:
            self.records += chunk.dropped.count
            self.possible_runs += chunk.dropped.range_count

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Queues a control record into the open transaction."""
        self._sink.write_control(topic, partition, key, value)

    def write_commit(self, state: PartitionState, kind: Kind) -> None:
        """Queues the commit record of a state."""
        self.write_commit_record(self._commit_record(state, kind))

    def write_commit_record(self, record: CommitRecord) -> None:
        """Queues a commit record."""
        self._sink.write_control(*self._commit_control(record))

    def write_note(self, source: TopicPartition, reason: StopReason) -> None:
        """Queues the note that a partition without a position is stopped."""
        plan, now = self._plan, now_ms(self._clock)
        whose = self._pipeline.group, plan.cluster, source, self._pipeline.name
        self._write_note(source, StopNote(*whose, plan.generation, plan.slot, now, reason).value_bytes())

    def remove_note(self, source: TopicPartition) -> None:
        """Queues the tombstone of such a note."""
        self._write_note(source, None)

    def _write_note(self, source: TopicPartition, value: bytes | None) -> None:
        group, cluster = self._pipeline.group, self._plan.cluster
        partition = commit_partition(self._pipeline, key_bytes(group, cluster, source), self._plan.control.commit)
        topic = self._pipeline.coordination.commit.topic
        self._sink.write_control(topic, partition, note_key(group, cluster, source), value)

    def _commit_record(self, state: PartitionState, kind: Kind) -> CommitRecord:
        sequence, now = self._memory.sequence, now_ms(self._clock)
        return commit_record(self._plan, state, kind, sequence, now, self._memory.transport)

    def _commit_control(self, record: CommitRecord) -> Control:
        key = record.key_bytes()
        partition = commit_partition(self._pipeline, key, self._plan.control.commit)
        return self._pipeline.coordination.commit.topic, partition, key, record.value_bytes()

    def close(
        self,
        moved: Sequence[PartitionState],
        ids_match: Callable[[], None],
        releasing: Collection[TopicPartition] = (),
    ) -> None:
        """Writes the progress of partitions, and commits it with their records.

        Args:
            moved: The partitions that get a commit record.
            ids_match: Called before the commit; raises if a topic is no longer the same.
            releasing: Partitions for which this is the slot's last commit.

        Raises:
            Restart: Nothing was committed, or it is not known; `slot.py` begins another session.
        """
        started = self._clock.monotonic()
        self.begin()
        foreseen = self._sink.foresee()
        if foreseen is not None:
            self._write_progress(moved, foreseen, releasing)
        deliveries = self._sink.settle()  # a
        if self._chain:
            self._chain.follow(deliveries)
        if foreseen is None:
            self._write_progress(moved, deliveries, releasing)
        ids_match()
        self.commit()
        self._memory.commits += 1
        self._memory.budget.committed((self.last_commit - started) / self._timeout)
        for state in moved:
            state.committed_to_next()

    def commit(self) -> None:
        """Commits the open transaction."""
        self._sink.commit()  # d and e
        self._begun = False
        self.records = self.possible_runs = 0
        self.last_commit = self._clock.monotonic()

    def _write_progress(
        self, moved: Iterable[PartitionState], deliveries: Sequence[Delivery], releasing: Collection[TopicPartition]
    ) -> None:
        runs = fold(deliveries)  # b
        self._memory.sequence += 1
        controls: list[Control] = []
        for state in moved:  # c
            of_state, follows_on = runs.get(state.plan.source, {}), state.follows_on
            self._account(state, of_state)
            controls += self._mapping_control(state, of_state, follows_on)
            kind: Kind = "release" if state.plan.source in releasing else "commit"
            controls.append(self._commit_control(self._commit_record(state, kind)))
        # All records at once: the client adds the partitions of a transaction by one request after the other.
        for control in controls:
            self._sink.write_control(*control)

    def _account(self, state: PartitionState, runs: RunsByTarget) -> None:
        state.runs += sum(map(len, runs.values()))
        if self._plan.one_to_one and runs:
            ((_, of_partition),) = runs.items()
            state.target_end = of_partition[-1].target_end

    def _mapping_control(self, state: PartitionState, runs: RunsByTarget, follows_on: bool) -> list[Control]:
        if not self._plan.control.mapping or not state.moved:
            return []
        record = mapping_record(self._plan, state, runs, self._memory.sequence, now_ms(self._clock), follows_on)
        key = record.key_bytes()
        partition = mapping_partition(key, self._plan.control.mapping)
        topic = self._pipeline.offset_mapping.topic
        return [(topic, partition, key, piece.value_bytes()) for piece in record.pieces()]
