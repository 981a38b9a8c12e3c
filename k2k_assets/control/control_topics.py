"""Makes sure that the target has the control topics, with settings that keep their records."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from k2k_assets.control.control_settings import Judged, Settings, judge
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.topics.create import WantedTopic, create_topics

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")

ControlTopic = Literal["commit", "assignment", "offset_mapping", "metrics"]

# The target sets the timestamps: it refuses records with a time too far ahead, and a writer's clock may jump.
_TIMELESS = {"message.timestamp.type": "LogAppendTime"}
# Brokers' defaults keep less. Set for compacted topics too: the pipeline file may add `delete` to their policy.
_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
# Kafka compacts closed segments only: with small segments, and a cleaner that starts early, a commit topic that took
# ten million records is read in seconds.
_COMPACTED = {
    **_TIMELESS,
    "cleanup.policy": "compact",
    **_FOR_EVER,
    "segment.bytes": str(16 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
# Older releases write one mapping record a transaction, however many runs it has: it may pass Kafka's usual 1 MB.
_KEPT = {**_TIMELESS, "cleanup.policy": "delete", **_FOR_EVER, "max.message.bytes": str(8 * 1024 * 1024)}


def control_topics(pipeline: Pipeline) -> dict[str, WantedTopic]:
    """The control topics of a pipeline as K2K would create them, by name.

    Commit and assignment topic may be one. The commit topic has one partition if all commits of a group go to one
    (`features.optimizeOffsetCommitPartition`): readers always read all of it, so more partitions gain nothing.
    """
    commit_partitions = 1 if pipeline.features.optimize_offset_commit_partition else 6
    forms = {
        "assignment": (1, _COMPACTED),
        "commit": (commit_partitions, _COMPACTED),
        "offset_mapping": (6, _KEPT),
    }
    return {name: _wanted(pipeline, kind, name, *forms[kind]) for kind, name in _names(pipeline).items()}


def ensure_control_topics(pipeline: Pipeline, target: Cluster) -> None:
    """Creates the control topics that are missing, and waits until they are visible.

    Args:
        pipeline: Has names, features and `topicCreation.control`.
        target: The target cluster.

    Raises:
        Refused: Topics are missing and must not be created, the target refuses them, or their settings lose control
            records.
        ClusterUnreachable: The target does not answer.
    """
    missing = missing_control_topics(pipeline, target)
    create_topics(pipeline, target, missing)
    if missing and pipeline.features.validate_control_topic_settings:
        created = target.describe([topic.name for topic in missing])
        _heed([judge(settings) for settings in _settings(pipeline, target, created)], target)


def ensure_metrics_topic(pipeline: Pipeline, target: Cluster) -> None:
    """Creates the topic for metrics if it is missing. Metrics may get lost: nobody looks at the topic's settings.

    Raises:
        Refused: It is missing and must not be created, or the target refuses that.
        ClusterUnreachable: The target does not answer.
    """
    name = pipeline.metrics.kafka.topic
    if target.describe([name]):
        return
    if not pipeline.features.auto_create_control_topics:
        raise Refused(
            f"the topic for metrics, {name}, is missing on the {target}. Create it, or set "
            "'features.autoCreateControlTopics: enabled'."
        )
    create_topics(pipeline, target, [_wanted(pipeline, "metrics", name, 1, {"cleanup.policy": "delete"})])


def missing_control_topics(pipeline: Pipeline, target: Cluster) -> list[WantedTopic]:
    """Finds the control topics to create, and judges the settings of all control topics; changes nothing.

    Arguments and errors: see `ensure_control_topics`.
    """
    wanted = control_topics(pipeline)
    existing = target.describe(list(wanted))
    missing = [topic for name, topic in wanted.items() if name not in existing]
    if missing and not pipeline.features.auto_create_control_topics:
        raise Refused(
            f"control topics are missing on the {target}: {', '.join(topic.name for topic in missing)}. "
            "Create them (see docs/control-topics.md), or set 'features.autoCreateControlTopics: enabled'."
        )
    if pipeline.features.validate_control_topic_settings:
        mapping = _mapping_topic(pipeline)
        _heed(
            [judge(Settings(topic.name, topic.name == mapping, topic.config, topic.replication)) for topic in missing],
            target,
        )
        _heed([judge(settings) for settings in _settings(pipeline, target, existing)], target)
    return missing


def _names(pipeline: Pipeline) -> dict[ControlTopic, str]:
    names: dict[ControlTopic, str] = {
        "assignment": pipeline.coordination.assignment.topic,
        "commit": pipeline.coordination.commit.topic,
    }
    return {**names, "offset_mapping": pipeline.offset_mapping.topic} if pipeline.features.offset_mapping else names


def _wanted(pipeline: Pipeline, kind: ControlTopic, name: str, partitions: int, config: dict[str, str]) -> WantedTopic:
    asked = pipeline.topic_creation.control_topic(kind)
    return WantedTopic(name, asked.partitions or partitions, asked.replication, {**config, **asked.config})


def _mapping_topic(pipeline: Pipeline) -> str | None:
    return pipeline.offset_mapping.topic if pipeline.features.offset_mapping else None


def _asked_partitions(pipeline: Pipeline) -> dict[str, int | None]:
    """The number of partitions that the pipeline file asks for, by control topic."""
    return {name: pipeline.topic_creation.control_topic(kind).partitions for kind, name in _names(pipeline).items()}


def _settings(pipeline: Pipeline, target: Cluster, existing: Mapping[str, TopicDescription]) -> list[Settings]:
    """The settings of existing topics. If the principal may not see them, it logs that and returns none."""
    try:
        configs = target.topic_configs(list(existing), only_changed=False)
    except Refused as reason:
        _log.info("the settings of the control topics are not looked at: %s", reason)
        return []
    replicas, brokers = target.replicas(list(existing)), len(target.brokers())
    mapping, asked = _mapping_topic(pipeline), _asked_partitions(pipeline)
    return [
        Settings(name, name == mapping, config, replicas.get(name), brokers, (existing[name].partitions, asked[name]))
        for name, config in configs.items()
    ]


def _heed(judged: Sequence[Judged], target: Cluster) -> None:
    for warning in (line for one in judged for line in one.warnings):
        _log.warning("%s", warning)
    if refusals := [line for one in judged for line in one.refusals]:
        raise Refused(
            f"control topics on the {target}: {'; '.join(refusals)}. With features.validateControlTopicSettings: "
            "disabled this is not looked at"
        )
