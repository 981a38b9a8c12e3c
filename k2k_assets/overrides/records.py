"""What an override writes to the control topics: its commit record, and its mapping record. Pure."""

from __future__ import annotations

from k2k_assets.control.commit_record import CommitRecord, Overridden
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.positions import PositionUnreadable
from k2k_assets.overrides.decide import Override, PartitionFacts
from k2k_assets.overrides.request import Request
from k2k_assets.pipeline import Pipeline


def commit_record(
    override: Override,
    pipeline: Pipeline,
    cluster: str,
    request: Request,
    generation: int,
    time: int,
    marked_always: bool = False,
) -> CommitRecord:
    """Makes the commit record of an override.

    Args:
        override: The decided override; its target topic must exist by now.
        pipeline: The pipeline.
        cluster: Source cluster id.
        request: Says who asks and why.
        generation: Generation of the instance that writes the record.
        time: Milliseconds since the epoch, UTC.
        marked_always: Whether the group has copied under no other marker than the present one.
    """
    facts, record = override.facts, override.facts.record
    assert facts.target_topic_id is not None
    known = record if override.stays else None
    of_target = record if record and record.target_topic_id == facts.target_topic_id else None
    of_both = None if facts.new_source else of_target  # positions in a former source topic say nothing of this one
    return CommitRecord(
        group=pipeline.group,
        cluster=cluster,
        source=facts.source,
        kind="override",
        pipeline=pipeline.name,
        position=override.position,
        # A given offset, even if it is the present one, accepts the present log: after a truncation the leader epoch of
        # the last copied record would stop the partition again.
        leader_epoch=known.leader_epoch if known else None,
        source_topic_id=facts.source_topic_id,
        target_topic=facts.target_topic,
        target_topic_id=facts.target_topic_id,
        target_end=_target_end(facts, request),
        target_began=_target_began(facts, request),
        target_accepted=_target_accepted(facts, request),
        generation=generation,
        slot=0,
        sequence=1,
        time=time,
        began=_began(override),
        # Of an adopted copy nothing is known, whatever the source had deleted: positions below it are never exact.
        log_start=None if request.adopts is not None else _log_start(override),
        epoch_end=known.epoch_end if known else None,
        producer=record.producer if record else None,
        source_was_cut=_source_was_cut(override),
        marker=pipeline.marker,
        marker_changed=of_target is not None and of_target.has_others_than(pipeline.marker, marked_always),
        at_least_once=_at_least_once(facts, pipeline, of_both),
        at_least_once_below=_at_least_once_below(override, pipeline, of_both, request),
        forward_since=generation,
        spread=not pipeline.routing.keeps_partition(facts.source.topic),
        overridden=Overridden(
            by=request.by,
            why=request.why,
            position=record.position if record else None,
            source_topic_id=record.source_topic_id if record else None,
            target_topic_id=record.target_topic_id if record else None,
            stopped=_stopped(facts),
        ),
    )


def _at_least_once(facts: PartitionFacts, pipeline: Pipeline, of_both: CommitRecord | None) -> bool:
    """Whether copies may lie on the target that are not mapped yet; the file tells where no record can be read."""
    if facts.unreadable:
        return not pipeline.features.exactly_once
    return of_both is not None and of_both.at_least_once


def _at_least_once_below(
    override: Override, pipeline: Pipeline, of_both: CommitRecord | None, request: Request
) -> int | None:
    """Where it goes on exactly once behind copies at least once; the position where no record can be read."""
    if override.facts.unreadable:
        return override.position if pipeline.features.exactly_once else None
    below = of_both.at_least_once_below if of_both else None
    if below is None or not request.foreign_records:
        return below
    # What is accepted may be what a frozen writer had sent at least once, and what came late.
    return max(below, override.position)


def _source_was_cut(override: Override) -> bool:
    """Whether the log of today's source topic has lost records that were copied."""
    facts, record = override.facts, override.facts.record
    if record is None or facts.new_source:
        return False
    # Where the leader did not tell in time, groups are judged as if it were. Whoever copies on under the leader epoch
    # of what was copied asks again, and stops if it is so.
    is_asked_again = override.stays and record.leader_epoch is not None
    may_be = facts.is_log_unknown and not is_asked_again
    is_found = facts.cut_off is not None or may_be or facts.end < record.position
    return record.source_was_cut or record.is_source_cut or is_found


def _stopped(facts: PartitionFacts) -> StopReason | None:
    if facts.unreadable:
        return PositionUnreadable(facts.source, facts.unreadable)
    return facts.record.reason if facts.record else facts.noted


def _target_end(facts: PartitionFacts, request: Request) -> int | None:
    """Target offset of the next record: foreign records below it are accepted, later ones are not."""
    if request.adopts is not None:
        return facts.target_end
    if facts.record is None or facts.record.target_topic != facts.target_topic:
        return None
    if request.foreign_records or facts.new_target:
        return facts.target_end
    return facts.record.target_end


def _target_accepted(facts: PartitionFacts, request: Request) -> int | None:
    """The target end, where it is that of what others have written; an earlier one while the end stays."""
    end = _target_end(facts, request)
    if request.adopts is not None or end is None or facts.record is None:
        return None
    return end if request.foreign_records or facts.new_target else facts.record.target_accepted


def _target_began(facts: PartitionFacts, request: Request) -> int | None:
    """Where an adopted copy ends; it stays known as long as the target topic is the same."""
    if request.adopts is not None:
        return facts.target_end
    record = facts.record
    return record.target_began if record and record.target_topic_id == facts.target_topic_id else None


def _began(override: Override) -> int | None:
    record = override.facts.record
    if record is None or override.before is None:
        return override.position
    return None if record.began is None else min(record.began, override.position)


def _log_start(override: Override) -> int | None:
    record = override.facts.record
    return override.facts.start if record is None or override.before is None else record.log_start


def mapping_record(
    override: Override, pipeline: Pipeline, cluster: str, request: Request, generation: int, time: int
) -> MappingRecord | None:
    """Makes the mapping record of an override; None if the position did not move, or is one of another source topic.

    If foreign records were accepted at the same position, the record covers nothing, but notes that they may lie there.

    The mapping record stays when the commit record has been compacted away. A skipped range is covered without runs: no
    record of it is on the target, so positions in it translate to the next record. So is what a source holds between a
    cut-off and the position, in place of what was copied, and so are records whose copies the target has lost. A
    position further back cancels the mappings from there on; so does a position that replaces a lost one, because more
    may have been mapped.
    """
    skipped = override.skipped
    has_moved = bool(skipped) or override.before != override.position
    if override.facts.new_source or not (has_moved or request.foreign_records):
        return None
    return MappingRecord(
        group=pipeline.group,
        topic=override.facts.source.topic,
        partition=override.facts.source.partition,
        pipeline=pipeline.name,
        cluster=cluster,
        source_topic_id=override.facts.source_topic_id,
        generation=generation,
        slot=0,
        sequence=1,
        time=time,
        covered_from=skipped.start if skipped else override.position,
        covered_to=override.position,
        targets=(),
        override=f"{request.by}: {request.why}" if request.why else request.by,
    )
