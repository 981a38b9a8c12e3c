"""Finds the topics that a slot may not write to any more, although it had the right at its start."""

from __future__ import annotations

from k2k_assets.core.stops.reasons.permissions import TargetWriteDenied
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.granted import on_topics
from k2k_assets.permissions.missing import Missing
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.transport.errors import Forbidden


def revoked(plan: SlotPlan, target: Cluster, said: Forbidden) -> dict[TopicPartition, TargetWriteDenied]:
    """The partitions of a slot whose target topic the principal may not write to any more, with the reason.

    It asks the target for the rights, because the error of a whole transaction names no topic.

    Args:
        plan: The slot.
        target: The target cluster.
        said: The error, which an error about the control topics quotes.

    Raises:
        ClusterUnreachable: The target does not answer.
        Forbidden: The principal may not write to the control topics, or to a topic for dead letters, so that nothing
            can be copied.
    """
    pipeline = plan.pipeline
    target_of = {plan.source: plan.target_topic for plan in plan.partitions}
    control = [pipeline.coordination.commit.topic, pipeline.coordination.assignment.topic]
    control += [pipeline.offset_mapping.topic] if plan.control.mapping else []
    control += pipeline.dead_letter_topics  # a record that fails belongs into the transaction with its position
    granted = on_topics(target, {topic: ["Write"] for topic in (*target_of.values(), *control)})()
    # Brokers that do not tell the rights have refused this topic in the error.
    lacking = {*granted.lacking, *({said.topic} & {*granted.untold})}

    def missing(topic: str) -> Missing:
        return Missing.on(target, pipeline, "Write", "topic", topic)

    def denied(topic: str) -> TargetWriteDenied:
        return TargetWriteDenied(str(target), missing(topic).principal, topic)

    if forbidden := [topic for topic in control if topic in lacking]:
        raise Forbidden(f"{missing(forbidden[0])} ({said}); {ACLS_HINT}")
    return {source: denied(topic) for source, topic in target_of.items() if topic in lacking}
