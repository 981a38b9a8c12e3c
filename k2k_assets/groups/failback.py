"""Writes exact positions back to the SOURCE's groups. Nothing else in this project writes to the source."""

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
from k2k_assets.kafka.group_reader import fetch_offsets, list_states
from k2k_assets.kafka.group_writer import set_offsets

__all__ = ["BackRow", "FailbackDecision", "FailbackPlan", "FailbackReport", "Pipe", "execute", "plan_failback"]

log = logging.getLogger("k2k.groups")

_JOINED = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
}


@dataclass(slots=True)
class FailbackReport:
    """The result of a failback.

    Attributes:
        written: Groups whose positions were written to the source.
        unchanged: Groups whose positions on the source were right already.
        refused: Groups that were not changed, each with the reason: they have members, or committed meanwhile.
        failed: Groups with partitions that were not written, each with the reason.
        handed_back: Groups that the mapper moves on the target again.
    """

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    handed_back: list[str] = field(default_factory=list)


def execute(plans: Sequence[FailbackPlan], source: Cluster, target: Cluster, prefix: str) -> FailbackReport:
    """Writes planned positions to the source's groups.

    It refuses groups with members on either side (members on the target would read on behind their position), and
    groups that have committed on either side since the plan was made, be it in a transaction that is still open.

    Then it hands each returned group back to the mapper: it commits the group's offsets on the target again with our
    metadata, so that the mapper moves the group again.

    Args:
        plans: The plans to write.
        source: The source cluster.
        target: The target cluster.
        prefix: `groups.offsetGuardPrefix`.

    Raises:
        ClusterUnreachable: A cluster did not answer; nothing, or not everything, was written. The call may be repeated.
        Refused: The principal may not list the groups of a cluster.
    """
    report = FailbackReport()
    states = {cluster: list_states(cluster) for cluster in (source, target)}
    for plan in plans:
        for cluster, found in states.items():
            if plan.group in found and found[plan.group].active:
                report.refused[plan.group] = f"it has members on the {cluster}: stop its consumers there first"
                break
    # Read after the states: members that had left by then cannot commit after this.
    expected = {plan.group: plan.leaves for plan in plans if plan.leaves and plan.group not in report.refused}
    report.refused.update(TargetGroups(target).changed(expected, stable=True))
    report.refused.update(
        _moved_on(source, [plan for plan in plans if plan.leaves and plan.group not in report.refused])
    )
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
    # Lower than any observation: the next poll of this source's mapper may replace it, and that of no other source.
    version = Version(0, 0, source.cluster_id())
    report.handed_back += _write(target, returned, version.metadata(prefix), marked)
    for group, why in {**marked.failed, **marked.refused}.items():
        log.warning("group %s is not kept in step on the target: its commit there could not be marked: %s", group, why)
    return report


def _moved_on(source: Cluster, plans: Sequence[FailbackPlan]) -> dict[str, str]:
    """The groups that have committed on the source since the plan was made, each with the reason.

    What a call before this one has written does not count.
    """
    led = {plan.group: [row.source for row in plan.rows if row.leads] for plan in plans}
    found = fetch_offsets(source, led, named=led)
    moved = dict(found.failed)
    for plan in plans:
        now = found.groups[plan.group].offsets if plan.group not in moved else {}
        for row in plan.rows if plan.group not in moved else ():
            held = now.get(row.source)
            is_written = row.commit and held is not None and held.offset == row.offset
            if row.leads and held != row.on_source and not is_written:
                moved[plan.group] = (
                    f"what it holds in {row.source} on the {source} is not what it was when it was looked at: somebody "
                    "else has committed, so nothing was. The next try goes by that"
                )
                break
    return moved


def _write(
    cluster: Cluster, offsets: Mapping[str, Mapping[TopicPartition, int]], metadata: str, report: FailbackReport
) -> list[str]:
    """Commits offsets of many groups; returns the groups whose offsets were all accepted."""
    done: list[str] = []
    for group, errors in set_offsets(cluster, offsets, metadata).items():
        if not errors:
            done.append(group)
        elif any(code in _JOINED for code, _ in errors):
            report.refused[group] = f"it has got members on the {cluster}: stop its consumers there first"
        else:
            report.failed[group] = "; ".join(text for _, text in errors[:3])
    return done
