"""The state of a partition in a session: its committed position, and the records in hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from k2k_assets.control.commit_record import CommitRecord, Kind, Overridden
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.control.mapping_records import BothWays, DroppedBy, MappedPartition, MappingRecord
from k2k_assets.core.dropped_ranges import DroppedRange, by_rule, extend
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.runs import Run
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.target_log import ForeignRecords
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Position


@dataclass(slots=True)
class PartitionState:
    """The state of one partition in a session.

    Attributes:
        plan: The partition, and its target.
        committed: Position in the newest commit record.
        next: Position after the records in hand (polled, not yet committed).
        leader_epoch: Leader epoch of the last record in hand, copied or left out, or of the log when copying began;
            None if unknown.
        epoch_end: Offset after that record, or the position at which copying began. Only markers and aborted records
            lie between it and the position.
        unreleased: Whether its last owner has not released it: in at-least-once mode that owner's records may still
            arrive.
        target_end: Target offset after the last record; None where several partitions are fed.
        began: Position at which copying of the partition began; None if nobody noted it.
        log_start: Log start of the source partition at that time; None if nobody noted it.
        target_began: Target offset at which copying began behind the copy of another tool; None if there is none.
        target_accepted: End of the target partition when what others wrote to it was accepted; None if nothing was.
        dropped: Ranges of the records in hand that were left out on purpose.
        kept_to: Offset after the last record in hand that was not; 0 if there is none.
        producer: Under which producer id and epoch the partition is or was written outside transactions, if it was.
        records: Records copied by this generation, including those in hand.
        left_out: Records left out on purpose by this generation, including those in hand.
        bytes: Value bytes copied by this generation, including those in hand.
        runs: Runs written by this generation.
        source_was_cut: See the commit record.
        marker_changed: Whether earlier copies in the target topic have another marker than the pipeline has now, or
            none.
        at_least_once_below: Up to which position copies in the target topic were made at least once before this writer;
            None if none were.
        forward_since: See the commit record; None if that is the generation of this instance.
        overridden: What an override has replaced, until the position has moved; None if there is none.
        first_timestamp: Timestamp of the first record in hand that is copied; None if there is none, -1 if it has none.
    """

    plan: PartitionPlan
    committed: int
    next: int
    leader_epoch: int | None
    target_end: int | None
    began: int | None
    records: int = 0
    bytes: int = 0
    runs: int = 0
    epoch_end: int | None = None
    unreleased: bool = False
    log_start: int | None = None
    target_began: int | None = None
    target_accepted: int | None = None
    left_out: int = 0
    dropped: list[DroppedRange] = field(default_factory=list)
    kept_to: int = 0
    producer: ProducerIdentity | None = None
    source_was_cut: bool = False
    marker_changed: bool = False
    at_least_once_below: int | None = None
    forward_since: int | None = None
    overridden: Overridden | None = None
    first_timestamp: int | None = None

    @classmethod
    def of(
        cls, slot: SlotPlan, plan: PartitionPlan, record: CommitRecord, marked_always: bool = False
    ) -> PartitionState:
        """Makes the state from a commit record.

        The record's target end is ignored if the target topic is another one now, or if several source partitions feed
        the target partition.

        Args:
            slot: The slot.
            plan: The partition, and its target.
            record: Its newest commit record.
            marked_always: Whether the group has copied under no other marker than the present one.
        """
        target_end = record.target_end if slot.one_to_one and record.target_topic == plan.target_topic else None
        state = cls(plan, record.position, record.position, record.leader_epoch, target_end, record.began)
        state.log_start, state.producer = record.log_start, record.producer
        state.source_was_cut = record.source_was_cut or record.is_source_cut
        state.overridden = record.overridden
        if record.target_topic_id == plan.target_topic_id:
            state.target_began, state.target_accepted = record.target_began, record.target_accepted
            state.marker_changed = record.has_others_than(slot.pipeline.marker, marked_always)
            state.at_least_once_below = record.position if record.at_least_once else record.at_least_once_below
        state.epoch_end = record.position if record.epoch_end is None else record.epoch_end
        state.unreleased = record.kind in ("start", "commit")
        state.forward_since = _forward_since(slot, plan, record)
        if record.generation == slot.generation:
            state.records, state.bytes, state.runs = record.records, record.bytes_, record.runs
            state.left_out = record.dropped
        return state

    @property
    def reading_from(self) -> Position:
        """The position to read from, so that the source checks that its log still is the copied one (KIP-320).

        The leader epoch is valid only right after the last record, so the markers behind it are read once more.
        """
        if self.leader_epoch is None or self.epoch_end is None:
            return Position(self.committed)
        return Position(self.epoch_end, self.leader_epoch, self.committed if self.committed > self.epoch_end else None)

    @property
    def follows_on(self) -> bool:
        """Whether the target end of the earlier copy is known, or there is none: then foreign records are detected."""
        return self.target_end is not None or self.committed == self.began

    def take(self, chunk: Chunk) -> None:
        """Moves on past a chunk, whose records are in hand now, or were left out on purpose."""
        dropped = chunk.dropped
        self.next = chunk.end
        if dropped is not None:
            nothing_kept_since = bool(self.dropped) and self.kept_to <= self.dropped[-1].end
            extend(self.dropped, dropped.ranges(), follow=dropped.begins and nothing_kept_since)
            self.left_out += dropped.count
        if chunk.count:
            self.kept_to = chunk.last_offset + 1
            if self.first_timestamp is None:
                self.first_timestamp = chunk.records.first_timestamp
        # The position is right behind it: what was left out on purpose would else be read again, as if the log had been
        # truncated.
        self.leader_epoch = chunk.records.leader_epoch if dropped is None else dropped.leader_epoch
        self.epoch_end = chunk.end

    def know_epoch(self, at: Position) -> None:
        """Takes over the leader epoch that the log has before a position, if the position is behind the last record."""
        if at.offset == self.epoch_end:
            self.leader_epoch = at.leader_epoch

    def committed_to_next(self) -> None:
        """Notes that what is in hand is committed."""
        self.overridden = None if self.moved else self.overridden
        self.committed = self.next
        self.dropped = []
        self.first_timestamp = None

    @property
    def moved(self) -> bool:
        """Whether the position has advanced since the last commit."""
        return self.next > self.committed


def _forward_since(slot: SlotPlan, plan: PartitionPlan, record: CommitRecord) -> int | None:
    """`forward_since` of a state that goes on from a record."""
    was = record.target_topic, record.target_topic_id, record.spread
    is_same_place = was == (plan.target_topic, plan.target_topic_id, _is_spread(slot, plan))
    return record.forward_since if is_same_place and record.forward_since != slot.generation else None


def _is_spread(slot: SlotPlan, plan: PartitionPlan) -> bool:
    return not slot.pipeline.routing.keeps_partition(plan.source.topic)


def commit_record(
    slot: SlotPlan, state: PartitionState, kind: Kind, sequence: int, time: int, transport: str | None = None
) -> CommitRecord:
    """The commit record, whose position is the next offset that the slot has not read.

    Args:
        slot: Names group and generation.
        state: The partition.
        kind: Why it is written.
        sequence: Rises with each transaction of the slot.
        time: Milliseconds since the epoch.
        transport: As in the record.
    """
    plan = state.plan
    return CommitRecord(
        group=slot.pipeline.group,
        cluster=slot.cluster,
        source=plan.source,
        kind=kind,
        pipeline=slot.pipeline.name,
        position=state.next,
        leader_epoch=state.leader_epoch,
        source_topic_id=plan.source_topic_id,
        target_topic=plan.target_topic,
        target_topic_id=plan.target_topic_id,
        target_end=state.target_end,
        generation=slot.generation,
        slot=slot.slot,
        sequence=sequence,
        time=time,
        records=state.records,
        bytes_=state.bytes,
        runs=state.runs,
        began=state.began,
        log_start=state.log_start,
        target_began=state.target_began,
        target_accepted=state.target_accepted,
        overridden=None if state.moved else state.overridden,
        epoch_end=None if state.epoch_end == state.next or state.leader_epoch is None else state.epoch_end,
        dropped=state.left_out,
        producer=state.producer,
        transport=transport,
        source_was_cut=state.source_was_cut,
        marker=slot.pipeline.marker,
        marker_changed=state.marker_changed,
        at_least_once=not slot.pipeline.features.exactly_once,
        at_least_once_below=_at_least_once_below(slot, state),
        forward_since=slot.generation if state.forward_since is None else state.forward_since,
        spread=_is_spread(slot, plan),
    )


def _at_least_once_below(slot: SlotPlan, state: PartitionState) -> int | None:
    """Where the partition went on exactly once behind copies at least once.

    What a frozen writer sends late stops the partition, as records of others do (`_below_where_stopped`). Where these
    are ignored, or cannot be told, it may lie behind each copy so far.
    """
    pipeline = slot.pipeline
    if state.at_least_once_below is None or not pipeline.features.exactly_once:
        return None
    is_noticed = slot.one_to_one and pipeline.error_handling.on_foreign_writer != "ignore"
    return state.at_least_once_below if is_noticed else state.next


def stopped_record(
    slot: SlotPlan, newest: CommitRecord, sequence: int, time: int, reason: StopReason, is_newest: bool = True
) -> CommitRecord:
    """Makes the release record of a stopped partition from its newest record: the same position and topic ids.

    Args:
        slot: Names generation and number.
        newest: The newest record that was read.
        sequence: Rises with each transaction of the slot.
        time: Milliseconds since the epoch.
        reason: Why it is stopped.
        is_newest: Whether there surely is no newer one: else it may have been copied farther.
    """
    record = replace(
        newest,
        kind="release",
        generation=slot.generation,
        slot=slot.slot,
        sequence=sequence,
        time=time,
        reason=reason,
        target_end=newest.target_end if slot.one_to_one else None,
        at_least_once_below=_below_where_stopped(newest, reason),
        forward_since=newest.forward_since if is_newest else slot.generation + 1,
    )
    return record if newest.generation == slot.generation else replace(record, records=0, bytes_=0, runs=0, dropped=0)


def _below_where_stopped(newest: CommitRecord, reason: StopReason) -> int | None:
    """As the newest record has it; but what others wrote may be what a frozen writer had sent at least once."""
    below = newest.at_least_once_below
    if below is None or not isinstance(reason, ForeignRecords) or reason.source != newest.source:
        return below
    return max(below, newest.position)


def mapping_record(
    slot: SlotPlan, state: PartitionState, runs: dict[int, list[Run]], sequence: int, time: int, follows_on: bool
) -> MappingRecord:
    """Makes the mapping record of one transaction: its covered range, and the runs by target partition.

    If it does not follow on (`PartitionState.follows_on`), others may have written before it, which the settings of the
    record note.
    """
    plan = state.plan
    known = follows_on or not slot.one_to_one
    settings = slot.settings if known else CopySettings.of(slot.pipeline).shared_target.fingerprint
    return MappingRecord(
        group=slot.pipeline.group,
        topic=plan.source.topic,
        partition=plan.source.partition,
        pipeline=slot.pipeline.name,
        cluster=slot.cluster,
        source_topic_id=plan.source_topic_id,
        generation=slot.generation,
        slot=slot.slot,
        sequence=sequence,
        time=time,
        covered_from=state.committed,
        covered_to=state.next,
        targets=tuple(
            MappedPartition(plan.target_topic, plan.target_topic_id, partition, tuple(of_partition))
            for partition, of_partition in sorted(runs.items())
        ),
        settings=settings,
        dropped=tuple(DroppedBy(rule, tuple(ranges)) for rule, ranges in by_rule(state.dropped).items()),
        both_ways=BothWays.of(slot.pipeline),
        forward_since=state.forward_since,
    )
