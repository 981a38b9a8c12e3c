"""Checks that the topics of a session still are those that it began with.

When a topic is deleted and created anew, librdkafka goes on silently at the old offset; only the topic id tells. A
truncated log keeps its topic id: `start_checks.py` finds that at the start of a session, and
`transport/librdkafka/source_faults.py` while records are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from k2k_assets.control.commit_log import ensure_same_commit_topic
from k2k_assets.core.errors import Hidden
from k2k_assets.core.stops.reasons.permissions import SourceHidden
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted, SourceRecreated
from k2k_assets.core.stops.reasons.target_topic import TargetDeleted, TargetRecreated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.transport.errors import Forbidden, SourceStopped

Topics = Mapping[str, TopicDescription]


def ask_topic_ids(
    slot: SlotPlan, source: Cluster, target: Cluster, plans: Collection[PartitionPlan]
) -> Callable[[], None]:
    """Requests topic ids from both clusters now; returns a check of the answers, so that the wait overlaps a flush.

    Args:
        slot: The slot.
        source: The source cluster.
        target: The target cluster.
        plans: The partitions whose topics are checked.

    Returns:
        The check. It raises `SourceStopped` if a topic is gone, created anew, or a source topic is hidden; `Forbidden`
        if a target topic is hidden; and `Refused` if the commit topic is gone or created anew.
    """
    answers = ask_topics(slot, source, target, plans)

    def check() -> None:
        on_source, on_target = answers()
        for plan in plans:
            _ensure_same_source(plan, on_source.get(plan.source.topic))
            _ensure_same_target(plan, on_target.get(plan.target_topic))

    return check


def ask_topics(
    slot: SlotPlan, source: Cluster, target: Cluster, plans: Collection[PartitionPlan]
) -> Callable[[], tuple[Topics, Topics]]:
    """Requests the topics of partitions and the commit topic from both clusters now; returns a function that waits.

    Returns:
        A function that returns the topics of source and target. It raises `SourceStopped` if a source topic is hidden,
        `Forbidden` if a target topic is hidden, and `Refused` if the commit topic is gone or created anew: then
        positions that were read before this request are not valid.
    """
    commit_topic = slot.pipeline.coordination.commit.topic
    of_source = source.describe_async({plan.source.topic for plan in plans})
    of_target = target.describe_async({commit_topic, *(plan.target_topic for plan in plans)})

    def answers() -> tuple[Topics, Topics]:
        try:
            on_source = of_source()
        except Hidden as hidden:
            raise SourceStopped(_first(plans, hidden.topic), SourceHidden(hidden.topic, str(source))) from None
        try:
            on_target = of_target()
        except Hidden as hidden:
            raise Forbidden(str(hidden)) from None
        _ensure_positions(slot, on_target.get(commit_topic))
        return on_source, on_target

    return answers


def _ensure_positions(slot: SlotPlan, commit_topic: TopicDescription | None) -> None:
    found = commit_topic.topic_id if commit_topic else None
    ensure_same_commit_topic(slot.pipeline, slot.control.commit_topic_id, found)


def _first(plans: Collection[PartitionPlan], topic: str) -> TopicPartition:
    return next(plan.source for plan in plans if plan.source.topic == topic)


def _ensure_same_source(plan: PartitionPlan, found: TopicDescription | None) -> None:
    topic, expected = plan.source.topic, plan.source_topic_id
    if found is None:
        raise SourceStopped(plan.source, SourceDeleted(topic, while_copied=True))
    if found.topic_id != expected:
        raise SourceStopped(plan.source, SourceRecreated(topic, expected, found.topic_id, while_copied=True))


def _ensure_same_target(plan: PartitionPlan, found: TopicDescription | None) -> None:
    topic, target, expected = plan.source.topic, plan.target_topic, plan.target_topic_id
    if found is None:
        raise SourceStopped(plan.source, TargetDeleted(topic, target))
    if found.topic_id != expected:
        raise SourceStopped(plan.source, TargetRecreated(topic, target, expected, found.topic_id))
