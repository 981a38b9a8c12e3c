"""Makes sure that the target has the topics that a pipeline writes to, before the first record is copied.

New topics are like their source topics, but for what the pipeline file says. It creates nothing before all checks pass.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline.sections.values import KAFKA_INTERNAL
from k2k_assets.topics.create import WantedTopic, create_topics, grow_topics
from k2k_assets.topics.names import own_control_topics
from k2k_assets.topics.wanted import TargetTopic, model_of, topic_settings, wanted_topic

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")

# If source and target are one cluster, the copy of a topic may be selected itself, and its copy too, as with a prefix
# that the pattern matches again. A chain of so many topics counts as endless. So few, because each name is longer, and
# Kafka allows 249 characters.
_LONGEST_CHAIN = 4


def ensure_target_topics(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> list[str]:
    """Creates missing target topics like their source topics, and adds partitions to those that have too few.

    Args:
        pipeline: Has routing and features.
        source: The cluster whose topic configs are copied.
        target: The cluster on which topics are created.
        topics: Source topic to partition count, as `resolve_topics` returns it.

    Returns:
        The names of topics that this call created, sorted. Another instance may have created the rest.

    Raises:
        Refused: A topic would be copied into itself or into a control topic; the target has too few partitions; topics
            are missing and must not be created, or the target refuses them.
        ClusterUnreachable: A cluster does not answer.
    """
    return create_planned(pipeline, source, target, topics, plan_target_topics(pipeline, source, target, topics))


def create_planned(
    pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int], plan: TargetPlan
) -> list[str]:
    """Creates the topics and partitions of a plan, which was made from the same arguments.

    Other arguments, what it returns, and errors: see `ensure_target_topics`.
    """
    created, seen = create_topics(pipeline, target, wanted_topics(pipeline, source, target, plan, topics))
    grow_topics(pipeline, target, plan.too_small)
    # If another client created one of the topics meanwhile, it may have another partition count.
    _refuse_too_few_partitions(pipeline, target, plan, topics, {name: seen[name].partitions for name in seen})
    return sorted(created)


@dataclass(frozen=True)
class TargetPlan:
    """The target topics that a pipeline writes to.

    Attributes:
        feeding: Target topic to its source topics, both sorted.
        missing: Target topics that do not exist yet.
        too_small: Target topics that need more partitions, with the number that they need.
    """

    feeding: Mapping[str, Sequence[str]]
    missing: Sequence[str]
    too_small: Mapping[str, int]


def plan_target_topics(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> TargetPlan:
    """Plans from both clusters which topics and partitions to create; changes nothing.

    Arguments and errors: see `ensure_target_topics`.
    """
    feeding = target_routes(pipeline, source, target, topics)
    existing = {name: topic.partitions for name, topic in target.describe(list(feeding)).items()}
    needed = {name: _needed(pipeline, topics, sources) for name, sources in feeding.items()}
    may_grow = pipeline.features.auto_create_topics
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


def target_routes(
    pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]
) -> dict[str, list[str]]:
    """As `sources_by_target`, of a pipeline that copies into data only, and not into what it reads.

    Raises:
        Refused: A topic would be copied into itself or into a control topic.
        ClusterUnreachable: A cluster does not answer.
    """
    _refuse_endless_copies(pipeline, source, target, topics)
    feeding = sources_by_target(pipeline, topics)
    _refuse_bookkeeping(pipeline, feeding)
    return feeding


def sources_by_target(pipeline: Pipeline, topics: Mapping[str, int]) -> dict[str, list[str]]:
    """Maps each target topic to the source topics that are copied into it, both sorted."""
    feeding: dict[str, list[str]] = {}
    for topic in sorted(topics):
        feeding.setdefault(pipeline.routing.target_topic(topic), []).append(topic)
    return dict(sorted(feeding.items()))


def _refuse_endless_copies(pipeline: Pipeline, source: Cluster, target: Cluster, topics: Mapping[str, int]) -> None:
    """Refuses copies that feed themselves, which can happen if source and target are the same cluster.

    Raises:
        Refused: A topic is routed to itself, or its copies are selected again without end.
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
    """The topics that a record passes, shortened, if they form an endless chain; else None."""
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
        pipeline: Says which topics keep their partitions.
        target: Named in the error.
        plan: Tells which source topics feed which target topic.
        topics: Source topic to partition count.
        existing: Target topic to partition count, for the target topics to check.

    Raises:
        Refused: Names every such topic with both counts.
    """
    short = [
        f"'{name}' has {plural(existing[name], 'partition')} and its source '{topic}' has {topics[topic]}"
        for name, sources in plan.feeding.items()
        if name in existing
        for topic in sources
        if topics[topic] > existing[name] and pipeline.routing.keeps_partition(topic)
    ]
    if short:
        raise Refused(
            f"the {target} has too few partitions for 'partition: source': {'; '.join(short)}. "
            "Add partitions to the target topic, set 'features.autoCreateTopics: enabled', or use "
            "'partition: producer'."
        )


def ensure_there(wanted: Iterable[str], found: Collection[str], cluster: Cluster) -> None:
    """Makes sure that a cluster still shows topics that it had, or that were created, a moment ago.

    Raises:
        Refused: It does not.
    """
    if gone := sorted(set(wanted).difference(found)):
        raise Refused(
            f"topics of the {cluster} were deleted while the run was prepared: {', '.join(gone)}. Start again"
        )


def wanted_topics(
    pipeline: Pipeline, source: Cluster, target: Cluster, plan: TargetPlan, topics: Mapping[str, int]
) -> list[WantedTopic]:
    """The missing topics, each like the largest source topic that feeds it, or as `topicCreation.replication` says.

    Args:
        pipeline: Has the settings of topics that are created.
        source: The cluster whose topic settings are copied.
        target: The target, whose number of brokers limits the replication factor.
        plan: Names the missing topics.
        topics: Source topic to partition count.

    Raises:
        Refused: `topicCreation.replication` gives a topic fewer partitions than `partition: source` needs, or a source
            topic is gone by now.
        ClusterUnreachable: A cluster does not answer.
    """
    if not plan.missing:
        return []
    models = {name: model_of(plan.feeding[name], topics) for name in plan.missing}
    settings = topic_settings(source, sorted(set(models.values())))
    ensure_there(models.values(), settings, source)
    brokers = len(target.brokers())
    found = [wanted_topic(pipeline, n, model, settings[model], brokers) for n, model in models.items()]
    _refuse_too_few_wanted(pipeline, found, plan, topics)
    for wanted in found:
        for what, why in wanted.left_out.items():
            _log.warning("topic '%s' is created without its source's %s (%s)", wanted.topic.name, what, why)
    return [wanted.topic for wanted in found]


def _needed(pipeline: Pipeline, topics: Mapping[str, int], sources: Iterable[str]) -> int:
    """How many partitions a target topic needs, for the source topics whose records keep their partition."""
    return max((topics[topic] for topic in sources if pipeline.routing.keeps_partition(topic)), default=0)


def _refuse_too_few_wanted(
    pipeline: Pipeline, found: Sequence[TargetTopic], plan: TargetPlan, topics: Mapping[str, int]
) -> None:
    for wanted in found:
        name, partitions = wanted.topic.name, wanted.topic.partitions or 0
        keeping = [topic for topic in plan.feeding[name] if pipeline.routing.keeps_partition(topic)]
        largest = model_of(keeping, topics) if keeping else ""
        if keeping and partitions < topics[largest]:
            raise Refused(
                f"'topicCreation.replication' gives the topic '{name}' {plural(partitions, 'partition')} and its "
                f"source '{largest}' has {topics[largest]}: too few for 'partition: source'. Give it as many, or use "
                "'partition: producer'."
            )
