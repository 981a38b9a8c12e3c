"""The positions of groups to compare: where each stands on the source, and what is committed for it on the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.groups.decide import CommitDecision, Row
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import fetch_offsets
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.groups import feeding
from k2k_assets.verification.groups.commit_owner import CommitOwner, holding
from k2k_assets.verification.groups.findings import Findings
from k2k_assets.verification.groups.match import Match
from k2k_assets.verification.groups.windows import At
from k2k_assets.verification.verdict import Offender

_COMPARED = (CommitDecision.EXACT, CommitDecision.AHEAD, CommitDecision.MAY_REPEAT, CommitDecision.EXPIRED)


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A group's position in one target partition, and its positions in the source partitions that feed it."""

    group: str
    target: At
    sources: tuple[At, ...]
    alone: bool
    decision: CommitDecision


def translated_places(
    pipeline: Pipeline, result: PollResult, groups: Collection[str], findings: Mapping[str, Findings]
) -> Iterator[GroupPlace]:
    """The places at which a position was translated that can be compared; counts the decisions on all."""
    standing = {tp for group in groups for row in result.decisions[group].rows for tp, _ in row.sources}
    feeds = {
        target: (sources, len(sources) == len(targets) == 1 and not pipeline.shares_targets)
        for targets, sources in feeding({*result.source_ends, *standing}, pipeline.routing, result.target_ends)
        for target in targets
    }
    for group in groups:
        own = {tp.topic for row in result.decisions[group].rows for tp, _ in row.sources}
        for row in result.decisions[group].rows:
            decision = CommitDecision.ACTIVE if row.commit and group in result.active else row.decision
            findings[group].states[decision.value] += 1
            findings[group].counts["waiting"] += decision is CommitDecision.WAITING
            if decision in _COMPARED and row.target in feeds:
                sources, alone = feeds[row.target]
                yield GroupPlace(group, (row.target, row.offset), _standing(row, sources, own), alone, decision)


def _standing(row: Row, sources: Iterable[TopicPartition], own: set[str]) -> tuple[At, ...]:
    """The group's position in each source partition; 0 for partitions without a commit of topics that it reads."""
    committed = {tp: position.offset for tp, position in row.sources}
    return tuple((tp, committed.get(tp, 0)) for tp in sources if tp in committed or tp.topic in own)


def committed_places(
    pipeline: Pipeline,
    result: PollResult,
    places: Iterable[GroupPlace],
    findings: Mapping[str, Findings],
    target: Cluster,
) -> Iterator[GroupPlace]:
    """The places whose translated position is committed; the others are noted as offenders, moved, or unreadable."""
    by_group: dict[str, list[GroupPlace]] = defaultdict(list)
    for place in places:
        by_group[place.group].append(place)
    found = fetch_offsets(target, sorted(by_group))
    for group, of_group in by_group.items():
        if group not in found.groups or (group in found.failed and found.groups[group].unstable):
            findings[group].unreadable = found.failed.get(group, "no answer")
            continue
        offsets = found.groups[group].offsets
        for place in of_group:
            partition, offset = place.target
            committed = offsets.get(partition)
            match holding(offset, committed, result.version, pipeline.groups.offset_guard_prefix):
                case CommitOwner.OURS:
                    yield place
                case CommitOwner.MOVED:
                    findings[group].counts["moved_since"] += 1
                case _:
                    findings[group].counts["offending"] += 1
                    findings[group].offenders.append(_not_committed(place, committed))


def _not_committed(place: GroupPlace, committed: CommittedOffset | None) -> Offender:
    (partition, offset), (source, standing) = place.target, place.sources[0]
    what = f"holds {committed.offset} ({committed.metadata})" if committed else "holds nothing"
    return Offender(
        f"group {place.group} {what} in {partition} on the target, and {standing} in {source} on the source is "
        f"{offset} there: what was committed is gone, or never was. Materialize the group again; if it stays so, see "
        "who else changes the group",
        source.topic,
        source.partition,
        standing,
        partition.topic,
        partition.partition,
        committed.offset if committed else None,
    )


def offender_at(place: GroupPlace, found: Match, which: str = "") -> Offender:
    """The evidence that a group skips records, or reads records again.

    Args:
        place: Where.
        found: What was compared there.
        which: Which records were compared, if not the copies.
    """
    target, offset = place.target
    what = f"{target} at {offset}: "
    if found.different:
        what += "the records around it are not those around the position on the source"
    else:
        skipped = plural(found.skipped, f"record{which} is", f"records{which} are")
        what += f"{skipped} skipped, {plural(found.read_again, 'is', 'are')} read again"
    source, record = found.first or (place.sources[0][0], place.sources[0][1])
    standing = dict(place.sources).get(source, record)
    what += f" (the group stands at {standing} in {source} on the source)"
    return Offender(what, source.topic, source.partition, record, target.topic, target.partition, offset)
