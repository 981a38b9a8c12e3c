"""Topics on the target for records for which a rule of `transform` fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.topics.create import WantedTopic, create_topics

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")


def ensure_dead_letter_topics(pipeline: Pipeline, target: Cluster, copies: Collection[str]) -> None:
    """Creates the topics that are missing, and waits until they can be used.

    Args:
        pipeline: Names them; `topicCreation.replication.common` says how they are made, but for `cleanup.policy`.
        target: The target cluster.
        copies: The target topics, none of which may hold dead letters.

    Raises:
        Refused: A topic is one that is copied to, or it is missing and must not be created, or the target refuses it.
        ClusterUnreachable: The target does not answer.
    """
    if pipeline.dead_letter_topics:
        create_topics(pipeline, target, missing_dead_letter_topics(pipeline, target, copies))


def missing_dead_letter_topics(pipeline: Pipeline, target: Cluster, copies: Collection[str]) -> list[WantedTopic]:
    """The topics that have to be created; changes nothing, and warns of existing ones that do not keep their letters.

    Arguments and errors: see `ensure_dead_letter_topics`.
    """
    names = pipeline.dead_letter_topics
    if both := sorted(set(names).intersection(copies)):
        raise Refused(
            f"the topic '{both[0]}' would hold copies and dead letters. Give transform[].deadLetters another name."
        )
    existing = target.describe(list(names)) if names else {}
    missing = [name for name in names if name not in existing]
    if missing and not pipeline.features.auto_create_topics:
        raise Refused(
            f"topics for dead letters are missing on the {target}: {', '.join(missing)}. Create them, "
            "or set 'features.autoCreateTopics: enabled'."
        )
    _warn_of_losses(target, list(existing))
    made_as = pipeline.topic_creation.dead_letter_topic()
    return [WantedTopic(name, made_as.partitions or 1, made_as.replication, made_as.config) for name in missing]


def _warn_of_losses(target: Cluster, existing: list[str]) -> None:
    try:
        configs = target.topic_configs(existing, only_changed=False) if existing else {}
    except Refused as reason:
        _log.info("the settings of topics for dead letters are not looked at: %s", reason)
        return
    for name, config in configs.items():
        if why := _loses(config):
            _log.warning("the topic for dead letters '%s' on the %s has %s", name, target, why)


def _loses(config: Mapping[str, str]) -> str:
    """Which settings of a topic lose dead letters, and what to set; empty if none does."""
    policy, kept = config.get("cleanup.policy", ""), config.get("retention.ms", "-1")
    if "compact" in policy:
        return f"cleanup.policy={policy}: of letters with one key only the last stays. Set cleanup.policy=delete"
    if kept != "-1" and config.get("message.timestamp.type") == "CreateTime":
        return (
            f"retention.ms={kept} and message.timestamp.type=CreateTime: letters of records that are older are deleted "
            "at once. Set message.timestamp.type=LogAppendTime"
        )
    return ""
