"""What the copy of a topic has to be like: partitions, replication factor and configs.

It is like its source topic, but for what `topicCreation.replication` says, without the configs that
`topicPropsExclusionList` names and those that make no sense on another cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.topics.create import WantedTopic

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

MIN_ISR = "min.insync.replicas"
# Configs of the source that make no sense on the target.
NOT_MIRRORED = frozenset(
    {
        # These name brokers and replicas of the source.
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        # This one compares a record's timestamp with the present time, and a copy is later than its original: the
        # target would refuse records that the source accepted.
        "message.timestamp.before.max.ms",
    }
)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic on a cluster.

    Attributes:
        partitions: Number of partitions.
        replication: Replication factor: the lowest number of replicas among its partitions.
        config: Topic configs that are set on the topic itself.
        effective: All topic configs that are in force, with those of the brokers.
    """

    partitions: int
    replication: int
    config: Mapping[str, str]
    effective: Mapping[str, str]


def topic_settings(cluster: Cluster, names: Collection[str]) -> dict[str, TopicSettings]:
    """The settings of those topics that exist, with two calls for all of them.

    Raises:
        Hidden: The principal may not describe one of them.
        NotAllowed: It may not see their configs.
        ClusterUnreachable: The cluster does not answer.
    """
    replicas = cluster.replica_ids(names)
    configs = cluster.config_values(sorted(replicas))
    return {
        name: TopicSettings(
            len(partitions),
            min(map(len, partitions)),
            {key: each.value for key, each in configs[name].items() if each.is_changed},
            {key: each.value for key, each in configs[name].items()},
        )
        for name, partitions in replicas.items()
    }


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """What a target topic has to be like.

    Attributes:
        topic: Its settings; all are known.
        explicit: Which of them the pipeline file says: names of configs, `partitions`, `replication`.
        left_out: Configs of the source topic that the target could not keep, with the reason.
    """

    topic: WantedTopic
    explicit: frozenset[str] = frozenset()
    left_out: Mapping[str, str] = field(default_factory=dict)


def wanted_topic(pipeline: Pipeline, name: str, model: str, settings: TopicSettings, brokers: int) -> TargetTopic:
    """What a target topic has to be like.

    Args:
        pipeline: Has `topicCreation.replication` and `topicPropsExclusionList`.
        name: Name of the target topic.
        model: The source topic that it is like.
        settings: The settings of that one.
        brokers: Number of brokers of the target.
    """
    asked = pipeline.topic_creation.replicated_topic(model)
    excluded = pipeline.target.kafka.topic_props_exclusion_list
    replication = asked.replication or min(settings.replication, brokers)
    config = {
        key: value for key, value in settings.config.items() if key not in NOT_MIRRORED and key not in excluded
    } | asked.config
    left_out = {}
    if MIN_ISR not in asked.config and int(config.get(MIN_ISR, 0)) > replication:
        # Nobody could write to the topic.
        left_out[MIN_ISR] = f"{config.pop(MIN_ISR)} of {plural(replication, 'replica')}"
    if not asked.replication and replication < settings.replication:
        left_out["replication factor"] = f"{settings.replication} of {plural(brokers, 'broker')}"
    explicit = {*asked.config}
    explicit |= {"partitions"} if asked.partitions else set()
    explicit |= {"replication"} if asked.replication else set()
    topic = WantedTopic(name, asked.partitions or settings.partitions, replication, config)
    return TargetTopic(topic, frozenset(explicit), left_out)


def model_of(sources: Sequence[str], topics: Mapping[str, int]) -> str:
    """The source topic that a target topic is like: the largest of those that feed it.

    Args:
        sources: Source topics that feed it.
        topics: Source topic to partition count.
    """
    return max(sources, key=lambda topic: topics[topic])
