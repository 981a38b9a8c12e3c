"""Finds topics for dead letters that were deleted while a slot copies: their records can go nowhere.

Nothing looks for them while all goes well. What is written to a topic that is gone fails, or is not taken in time; then
the session ends, and this tells why.
"""

from __future__ import annotations

from k2k_assets.core.errors import Hidden
from k2k_assets.core.stops.reasons.records import DeadLettersDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.replication.plan import SlotPlan


def without_dead_letter_topic(plan: SlotPlan, target: Cluster) -> dict[TopicPartition, DeadLettersDeleted]:
    """The partitions of a slot that have a rule with `onError: deadLetter` whose topic is gone, with the reason.

    Args:
        plan: The slot.
        target: The target cluster.

    Raises:
        ClusterUnreachable: The target does not answer.
    """
    names = plan.pipeline.dead_letter_topics
    if not names:
        return {}
    try:
        there = target.describe(names)
    except Hidden:  # it may be there: writing to it tells more
        return {}
    gone = [rule for rule in plan.pipeline.transform if rule.dead_letters and rule.dead_letters not in there]
    found: dict[TopicPartition, DeadLettersDeleted] = {}
    for rule in gone:
        pattern = compile_java(rule.pattern)
        for each in plan.partitions:
            if pattern.matches(each.source.topic):
                reason = DeadLettersDeleted(str(target), each.source.topic, rule.dead_letters or "")
                found.setdefault(each.source, reason)
    return found
