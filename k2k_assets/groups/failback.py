"""Writes exact positions back to the SOURCE's groups: the one thing in this project that writes to the source."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_plan import BackRow, FailbackDecision, FailbackPlan, Pipe, plan_failback
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import list_states
from k2k_assets.kafka.group_writer import set_offsets

__all__ = ["BackRow", "FailbackDecision", "FailbackPlan", "FailbackReport", "Pipe", "execute", "plan_failback"]

log = logging.getLogger("k2k.groups")

_JOINED = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
}
# Lower than that of any observation: the mapper's next poll may replace it.
_HANDED_BACK = Version(0, 0)


@dataclass(slots=True)
class FailbackReport:
    """What became of the returns.

    Attributes:
        written: Groups whose positions were written to the source.
        unchanged: Groups whose positions on the source were right already.
        refused: Groups that were left alone, each with the reason: they have members, or moved meanwhile.
        failed: Groups of which some partitions were not written, each with the reason.
        handed_back: Groups that the mapper keeps in step on the target again.
    """

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    handed_back: list[str] = field(default_factory=list)


def execute(plans: Sequence[FailbackPlan], source: Cluster, target: Cluster, prefix: str) -> FailbackReport:
    """Writes planned positions to the source's groups.

    Groups with members on either side are refused: those on the target would read on behind their position.

    So is a group that has committed on the target since the plan was made.

    A group that has returned is then handed back to the mapper: what it holds on the target keeps its offsets, and is
    marked as ours, so that it is kept in step again.

    Args:
        plans: What to write.
        source: The source cluster.
        target: The target cluster.
        prefix: `groups.offsetGuardPrefix`.

    Raises:
        ClusterUnreachable: A cluster did not answer; nothing, or not all, was written. It may be repeated.
        Refused: A cluster does not let its groups be listed.
    """
    report = FailbackReport()
    states = {cluster: list_states(cluster) for cluster in (source, target)}
    for plan in plans:
        for cluster, found in states.items():
            if plan.group in found and found[plan.group].active:
                report.refused[plan.group] = f"it has members on the {cluster}: stop its consumers there first"
                break
    # After the states: who had left by then can have committed only before this.
    expected = {plan.group: plan.leaves for plan in plans if plan.group not in report.refused}
    report.refused.update(TargetGroups(target).changed(expected))
    ready = [plan for plan in plans if plan.group not in report.refused]
    written = _write(source, {plan.group: plan.commits for plan in ready if plan.commits}, "", report)
    report.written += written
    report.unchanged += [plan.group for plan in ready if plan.returned and not plan.commits]
    returned = {
        plan.group: plan.returned
        for plan in ready
        if plan.returned and plan.group not in report.failed and plan.group not in report.refused
    }
    marked = FailbackReport()
    report.handed_back += _write(target, returned, _HANDED_BACK.metadata(prefix), marked)
    for group, why in {**marked.failed, **marked.refused}.items():
        log.warning("group %s is not kept in step on the target: its commit there could not be marked: %s", group, why)
    return report


def _write(
    cluster: Cluster, offsets: Mapping[str, Mapping[TopicPartition, int]], metadata: str, report: FailbackReport
) -> list[str]:
    """Commits offsets of many groups; returns the groups of which all were accepted."""
    done: list[str] = []
    for group, errors in set_offsets(cluster, offsets, metadata).items():
        if not errors:
            done.append(group)
        elif any(code in _JOINED for code, _ in errors):
            report.refused[group] = f"it has got members on the {cluster}: stop its consumers there first"
        else:
            report.failed[group] = "; ".join(text for _, text in errors[:3])
    return done
