"""Whether the topics of a session still are those that it began with.

librdkafka goes on silently at the old offset when a topic was deleted and created anew; only the topic id tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from k2k_assets import stop_reasons
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.replication.plan import PartitionPlan
from k2k_assets.topic_partition import TopicPartition
from k2k_assets.transport.errors import SourceStopped


def ask_topic_ids(source: Cluster, target: Cluster, plans: Collection[PartitionPlan]) -> Callable[[], None]:
    """Asks both clusters now; the answer is checked when called, so the wait can overlap a flush.

    Args:
        source: The source cluster.
        target: The target cluster.
        plans: The partitions whose topics are asked for.

    Returns:
        The check. It raises `SourceStopped` where a topic is gone or another one.
    """
    of_source = source.describe_async({plan.source.topic for plan in plans})
    of_target = target.describe_async({plan.target_topic for plan in plans})

    def check() -> None:
        on_source, on_target = of_source(), of_target()
        for plan in plans:
            _ensure_id(plan.source, "source", plan.source.topic, plan.source_topic_id, on_source)
            _ensure_id(plan.source, "target", plan.target_topic, plan.target_topic_id, on_target)

    return check


def _ensure_id(tp: TopicPartition, role: str, topic: str, expected: str, found: Mapping[str, TopicDescription]) -> None:
    if topic not in found:
        raise SourceStopped(tp, f"the {role} topic {topic} was deleted while it was copied. {_remedy(tp, role)}")
    if found[topic].topic_id != expected:
        raise SourceStopped(
            tp,
            f"the {role} topic {topic} was deleted and created anew while it was copied (topic id {expected} is now "
            f"{found[topic].topic_id}); what was in hand was not committed. {_remedy(tp, role)}",
        )


def _remedy(tp: TopicPartition, role: str) -> str:
    return stop_reasons.new_source(tp.topic) if role == "source" else stop_reasons.new_target(tp.topic)
