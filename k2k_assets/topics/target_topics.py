"""Makes sure that the target has the topics that records are copied into, before anything is copied.

All refusals come first and nothing is created before they have passed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.topics.create import WantedTopic, create_topics, grow_topics
from k2k_assets.topics.names import KAFKA_INTERNAL, own_control_topics

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")

# Configs that are true of one cluster only.
_NOT_MIRRORED = frozenset(
    {
        # They name brokers and replicas of the source.
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        # It compares a record's time with now, and a copy is always later than its original: the target would
        # refuse records that the source took in time.
        "message.timestamp.before.max.ms",
    }
)
_MIN_ISR = "min.insync.replicas"

# A chain of copies on one cluster that still goes on after so many topics never ends: a prefix, say, that the
# pattern matches again. Few, so that such names stay within Kafka's 249 characters while they are followed.
_LONGEST_CHAIN = 4


def ensure_target_topics(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> list[str]:
    """Creates the target topics that are missing, like their source topics, and lets those grow that are too small.

    Args:
        pipeline: Routing, features.
        source: Where the configs are read.
        target: Where topics are created.
        topics: Source topic to partition count, as `resolve_topics` returns it.

    Returns:
        The names created, sorted. Another instance may have created the rest.

    Raises:
        Refused: A topic would be copied into itself or over a control topic; the target has too few partitions;
            topics are missing and must not be created, or the target does not take them.
        ClusterUnreachable: A cluster does not answer.
    """
    plan = plan_target_topics(pipeline, source, target, topics)
    created, seen = create_topics(pipeline, target, wanted_topics(source, target, plan, topics))
    grow_topics(pipeline, target, plan.too_small)
    # Whoever else created one of them in the meantime may have chosen another partition count.
    _refuse_too_few_partitions(pipeline, target, plan, topics, {name: seen[name].partitions for name in seen})
    return sorted(created)


@dataclass(frozen=True)
class TargetPlan:
    """Which target topics a pipeline writes to.

    Attributes:
        feeding: Target topic to its source topics, both sorted.
        missing: Target topics that do not exist yet.
        too_small: Target topics that need more partitions, and how many they are to have.
    """

    feeding: Mapping[str, Sequence[str]]
    missing: Sequence[str]
    too_small: Mapping[str, int]


def plan_target_topics(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> TargetPlan:
    """Looks at both clusters and says what is to be created; changes nothing.

    Arguments and errors are those of `ensure_target_topics`.
    """
    _refuse_endless_copies(pipeline, source, target, topics)
    feeding = sources_by_target(pipeline, topics)
    _refuse_bookkeeping(pipeline, feeding)
    existing = {name: topic.partitions for name, topic in target.describe(list(feeding)).items()}
    may_grow = pipeline.features.auto_create_topics and pipeline.routing.partition == "source"
    needed = {name: max(topics[topic] for topic in sources) for name, sources in feeding.items()}
    plan = TargetPlan(
        feeding,
        missing=[name for name in feeding if name not in existing],
        too_small={name: needed[name] for name in existing if may_grow and needed[name] > existing[name]},
    )
    if not may_grow:
        _refuse_too_few_partitions(pipeline, target, plan, topics, existing)
    if plan.missing and not pipeline.features.auto_create_topics:
        raise Refused(
            f"topics are missing on the {target}: {', '.join(plan.missing)}. Create them, "
            "or set 'features.autoCreateTopics: enabled'."
        )
    return plan


def sources_by_target(pipeline: Pipeline, topics: Mapping[str, int]) -> dict[str, list[str]]:
    """Target topic to the source topics that are copied into it, both sorted."""
    feeding: dict[str, list[str]] = {}
    for topic in sorted(topics):
        feeding.setdefault(pipeline.routing.target_topic(topic), []).append(topic)
    return dict(sorted(feeding.items()))


def _refuse_endless_copies(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> None:
    """Refuses copies that feed themselves, which takes one cluster on both sides.

    Raises:
        Refused: A topic is routed to itself, or through others back into the selection without end.
    """
    if source.cluster_id() != target.cluster_id():
        return
    for topic in topics:
        chain = _chain(pipeline, topic, topics)
        if chain is not None:
            raise Refused(
                f"source and target are the same cluster ({target.servers}) and the topic '{topic}' would be "
                f"copied for ever: {' -> '.join(chain)}. Use another target cluster, or a target name "
                "('replication[].sink.topic') that the selection does not match."
            )


def _chain(pipeline: Pipeline, topic: str, topics: Mapping[str, int]) -> list[str] | None:
    """The way of a record from topic to topic when it never ends, shortened; else nothing."""
    way = [topic]
    while way[-1] in topics or pipeline.selection.matches(way[-1]):
        if way[-1] not in topics and pipeline.selection.literal is not None:
            return None
        try:
            following = pipeline.routing.target_topic(way[-1])
        except Refused:
            return None
        way.append(following)
        if following in way[:-1]:
            return way
        if len(way) > _LONGEST_CHAIN:
            return [*way[:3], "..."]
    return None


def _refuse_bookkeeping(pipeline: Pipeline, feeding: Mapping[str, Sequence[str]]) -> None:
    barred = own_control_topics(pipeline) | KAFKA_INTERNAL
    for name, sources in feeding.items():
        if name in barred:
            raise Refused(
                f"the topic '{sources[0]}' would be copied into '{name}', which holds bookkeeping. "
                "Leave it out of 'replication[].source.topic', or give the copy another name."
            )


def _refuse_too_few_partitions(
    pipeline: Pipeline,
    target: Cluster,
    plan: TargetPlan,
    topics: Mapping[str, int],
    existing: Mapping[str, int],
) -> None:
    """Refuses `partition: source` into topics with fewer partitions than their source.

    Args:
        pipeline: Its `routing.partition` decides.
        target: Named in the error.
        plan: Which topic feeds which.
        topics: Source topic to partition count.
        existing: Target topic to partition count, of those to look at.

    Raises:
        Refused: Names every such topic with both counts.
    """
    if pipeline.routing.partition != "source":
        return
    short = [
        f"'{name}' has {plural(existing[name], 'partition')} and its source '{topic}' has {topics[topic]}"
        for name, sources in plan.feeding.items()
        if name in existing
        for topic in sources
        if topics[topic] > existing[name]
    ]
    if short:
        raise Refused(
            f"the {target} has too few partitions for 'partition: source': {'; '.join(short)}. "
            "Add partitions to the target topic, set 'features.autoCreateTopics: enabled', or use "
            "'partition: producer'."
        )


def wanted_topics(source: Cluster, target: Cluster, plan: TargetPlan, topics: Mapping[str, int]) -> list[WantedTopic]:
    """The missing topics as they are to be created, each like the largest of the source topics that feed it.

    Args:
        source: Where the configs are read.
        target: Its brokers are counted.
        plan: Says what is missing.
        topics: Source topic to partition count.
    """
    if not plan.missing:
        return []
    models = {name: max(plan.feeding[name], key=lambda topic: topics[topic]) for name in plan.missing}
    configs = source.topic_configs(sorted(set(models.values())))
    brokers = len(target.brokers())
    return [
        WantedTopic(name, topics[model], config=_mirrored(name, configs.get(model, {}), brokers))
        for name, model in models.items()
    ]


def _mirrored(name: str, config: Mapping[str, str], brokers: int) -> dict[str, str]:
    kept = {key: value for key, value in config.items() if key not in _NOT_MIRRORED}
    if int(kept.get(_MIN_ISR, 0)) > brokers:
        _log.warning(
            "topic '%s' is created without %s=%s: the target has %d brokers and could never write to it",
            name, _MIN_ISR, kept.pop(_MIN_ISR), brokers,
        )  # fmt: skip
    return kept
