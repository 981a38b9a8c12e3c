"""Applies the `errorHandling` policies of the offset mapper: when it stops. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.pipeline.sections.error_handling import Policy
from k2k_assets.translation.groups import Answer


class ActiveGroup(K2KError):
    """A group that has moved on the source has members on the target."""


class MultipleMappings(K2KError):
    """One source record has been mapped twice, by two pipelines that share the mapping topic."""


class OtherMapping(NamedTuple):
    """A group's position by another pipeline's mappings.

    Attributes:
        progress: The other pipeline's `group.id`.
        source: The source partition.
        position: The group's position there.
        target: The target partition of the other pipeline.
        offset: The translated position there.
    """

    progress: str
    source: TopicPartition
    position: int
    target: TopicPartition
    offset: int


def ensure_none_active(decisions: Iterable[GroupDecision], policy: Policy, found_active: Collection[str] = ()) -> None:
    """Applies `onActiveConsumerGroupCommit`, after the other groups were committed.

    Args:
        decisions: The decisions of a poll.
        policy: With `ignore`, active groups are tried again in the next poll.
        found_active: Groups that were found active only while they were being committed (`CommitReport.active`).

    Raises:
        ActiveGroup: The policy says fail, and a group that has to be moved is active on the target.
    """
    if policy == "ignore":
        return
    for decision in decisions:
        late = decision.group in found_active
        for row in decision.rows:
            if row.decision is CommitDecision.ACTIVE or (late and row.commit):
                raise _active_group(decision.group, row)


def _active_group(group: str, row: Row) -> ActiveGroup:
    holds = "nothing" if row.on_target is None else f"offset {row.on_target.offset}"
    return ActiveGroup(
        f"group {group} has members on the target cluster, so it cannot be moved there: {row.target} should go on at "
        f"offset {row.offset} ({_positions(row.sources)}), it holds {holds}. If it has moved to the target for good, "
        "stop its consumers on the source or leave it out of groups.consumerGroups; if not, stop those on the target. "
        "With errorHandling.onActiveConsumerGroupCommit: ignore it is left alone while it has members"
    )


def ensure_one_mapping(group: str, answer: Answer, others: Sequence[OtherMapping], policy: Policy) -> None:
    """Applies `onMultipleTargetCommittedOffsets` to one answer.

    Args:
        group: The group.
        answer: Its answer by the pipeline's own mappings.
        others: Its answers by other pipelines' mappings.
        policy: With `ignore`, the own mappings win.

    Raises:
        MultipleMappings: The policy says fail, and there is another mapping.
    """
    if policy == "ignore" or not others:
        return
    other = others[0]
    raise MultipleMappings(
        f"the position of group {group} in {other.source} (offset {other.position}) has two mappings: to "
        f"{answer.target} offset {answer.offset}, and by the pipeline with group.id {other.progress} to "
        f"{other.target} offset {other.offset}. Two pipelines copy the same topic: give each an offsetMapping.topic of "
        "its own, or set errorHandling.onMultipleTargetCommittedOffsets: ignore to go by this pipeline's own mappings"
    )


def _positions(sources: Sequence[tuple[TopicPartition, CommittedOffset]]) -> str:
    places = [f"{partition} at offset {committed.offset}" for partition, committed in sources]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return "on the source " + ", ".join(places[:3]) + more
