"""What a session knows of one partition it copies: committed, and in hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from k2k_assets.control.commit_record import CommitRecord, Kind
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.transport.interface import Position


@dataclass(slots=True)
class PartitionState:
    """One partition of a session.

    Attributes:
        plan: What is to be copied.
        committed: Position in the newest commit record.
        next: Position after what is in hand.
        leader_epoch: Of the last record taken in, or else of the log when copying began; None if unknown.
        epoch_end: Offset after that record, or else where copying began: only markers and aborted records lie between
            it and the position.
        unreleased: Whether the one that copied it last has not let go of it: at least once, what it had sent may
            still come.
        target_end: Target offset after the last record; None where several partitions are fed.
        began: Where copying of the partition began; None if nobody noted it.
        log_start: Log start of the source partition when copying of it began; None if nobody noted it.
        records: Copied by this generation, with what is in hand once a commit record is made.
        bytes: Likewise.
        runs: Likewise.
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

    @classmethod
    def of(cls, slot: SlotPlan, plan: PartitionPlan, record: CommitRecord) -> PartitionState:
        """The state that a commit record tells of.

        The end of a topic that is no longer the target means nothing; nor does one where others write too, now or when
        they do no more.
        """
        target_end = record.target_end if slot.one_to_one and record.target_topic == plan.target_topic else None
        state = cls(plan, record.position, record.position, record.leader_epoch, target_end, record.began)
        state.log_start = record.log_start
        state.epoch_end = record.position if record.epoch_end is None else record.epoch_end
        state.unreleased = record.kind in ("start", "commit")
        if record.generation == slot.generation:
            state.records, state.bytes, state.runs = record.records, record.bytes_, record.runs
        return state

    @property
    def reading_from(self) -> Position:
        """Where to read on, so that the source checks whether its log still is the one that was copied (KIP-320).

        The leader epoch holds only right after the last record, so the markers behind that are read once more.
        """
        if self.leader_epoch is None or self.epoch_end is None:
            return Position(self.committed)
        return Position(self.epoch_end, self.leader_epoch, self.committed if self.committed > self.epoch_end else None)

    @property
    def follows_on(self) -> bool:
        """Whether what was copied before ends where the commit log says, so that others' records behind it are seen."""
        return self.target_end is not None or self.committed == self.began

    @property
    def moved(self) -> bool:
        """Whether there is something to commit."""
        return self.next > self.committed


def commit_record(slot: SlotPlan, state: PartitionState, kind: Kind, sequence: int, time: int) -> CommitRecord:
    """The commit record that a state amounts to."""
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
        epoch_end=None if state.epoch_end == state.next or state.leader_epoch is None else state.epoch_end,
    )


def stopped_record(slot: SlotPlan, newest: CommitRecord, sequence: int, time: int, reason: StopReason) -> CommitRecord:
    """The release of a partition that was stopped: at its position, with the topic ids that it was copied from."""
    record = replace(
        newest,
        kind="release",
        generation=slot.generation,
        slot=slot.slot,
        sequence=sequence,
        time=time,
        reason=reason,
        overridden=None,
        target_end=newest.target_end if slot.one_to_one else None,
    )
    return record if newest.generation == slot.generation else replace(record, records=0, bytes_=0, runs=0)


def mapping_record(
    slot: SlotPlan, state: PartitionState, runs: dict[int, list[Run]], sequence: int, time: int, follows_on: bool
) -> MappingRecord:
    """The mapping record of one transaction: what it covered, and the runs by target partition.

    Where what was copied before it ends nobody knows (`follows_on`), others may have written in between.
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
    )
