"""Plans how the topics of the target become what they have to be like. Changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from k2k_assets.kafka.acls import TopicAcl, topic_acls
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.principals import principal_of
from k2k_assets.topics.acls import missing_acls
from k2k_assets.topics.differences import Difference, Kind, differences
from k2k_assets.topics.selection import resolve_topics
from k2k_assets.topics.target_topics import target_routes
from k2k_assets.topics.wanted import TargetTopic, TopicSettings, model_of, topic_settings, wanted_topic

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")

_ALWAYS: frozenset[Kind] = frozenset({"missing", "config"})


@dataclass(frozen=True, slots=True)
class TopicsPlan:
    """The differences between the topics of the target and what they have to be like.

    Attributes:
        wanted: What each target topic has to be like.
        found: What those that exist are like.
        differences: In what they differ, by topic.
        acls: ACLs that target topics lack; empty if nobody asked for them.
    """

    wanted: Mapping[str, TargetTopic] = field(default_factory=dict)
    found: Mapping[str, TopicSettings] = field(default_factory=dict)
    differences: Sequence[Difference] = ()
    acls: Sequence[TopicAcl] = ()

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return bool(self.differences or self.acls)

    def to_do(self, allowed: Collection[Kind]) -> list[Difference]:
        """The differences that are put right.

        Args:
            allowed: Kinds that somebody asked for; topics and configs of the source need no asking.
        """
        return [each for each in self.differences if not self.why_not(each, allowed)]

    def why_not(self, difference: Difference, allowed: Collection[Kind]) -> str:
        """Why a difference is left as it is; empty if it is put right."""
        kind = difference.kind
        if kind == "replication factor":
            return "replicas are moved by kafka-reassign-partitions.sh: --reassignment FILE"
        if kind not in allowed and kind not in _ALWAYS:
            return f"not without {OPTIONS[kind]}"
        if kind == "min.insync.replicas":
            return _why_nobody_could_write(difference, self.found[difference.topic].replication)
        return ""


def _why_nobody_could_write(difference: Difference, replicas: int) -> str:
    """Why `min.insync.replicas` cannot become what is wanted; empty if it can."""
    if replicas < int(difference.wanted or 0):
        return f"the topic has {replicas} of so many replicas, and nobody could write"
    if difference.wanted is None and difference.found == "1" and replicas == 1:
        return "the topic has 1 replica, and nobody could write where the brokers' default is more than 1"
    return ""


OPTIONS: Mapping[Kind, str] = {
    "partitions": "--partitions",
    "min.insync.replicas": "--min-insync-replicas",
    "only on the target": "--reset-configs",
}
"""The options that ask for kinds of differences."""


def plan_topics(
    pipeline: Pipeline, source: Cluster, target: Cluster, *, acls: bool = False, topics: Collection[str] | None = None
) -> TopicsPlan:
    """Compares the target topics with what they have to be like, with few calls for all of them.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        acls: Whether ACLs are compared, too.
        topics: Only the copies of these source topics; None: of all that the pipeline selects.

    Raises:
        Refused: The pipeline selects no topic, or a topic would be copied into itself or into a control topic.
        NotAllowed: The principal may not see the settings of a topic, or the ACLs.
        ClusterUnreachable: A cluster does not answer.
    """
    counts = resolve_topics(pipeline, source, partly=topics is not None)
    routes = target_routes(pipeline, source, target, counts)
    if topics is not None:
        routes = {name: sources for name, sources in routes.items() if not set(topics).isdisjoint(sources)}
    models = {name: model_of(sources, counts) for name, sources in routes.items()}
    on_source = topic_settings(source, sorted(set(models.values())))
    found = topic_settings(target, list(routes))
    brokers = len(target.brokers())
    wanted = {
        name: wanted_topic(pipeline, name, model, on_source[model], brokers)
        for name, model in models.items()
        if model in on_source  # deleted since it was selected
    }
    excluded = pipeline.target.kafka.topic_props_exclusion_list
    differing = [
        difference
        for name, each in wanted.items()
        for difference in differences(each, found.get(name), on_source[models[name]], excluded)
    ]
    lacking = _missing_acls(pipeline, source, target, {name: routes[name] for name in wanted}) if acls else []
    return TopicsPlan(wanted, found, differing, lacking)


def _missing_acls(
    pipeline: Pipeline, source: Cluster, target: Cluster, routes: Mapping[str, Sequence[str]]
) -> list[TopicAcl]:
    ours = principal_of(pipeline.client_properties("source", "consumer"))
    on_source = topic_acls(source)
    if not on_source:
        _log.warning("the %s shows no ACLs on topics: without an authorizer everybody may read there", source)
    return missing_acls(routes, on_source, topic_acls(target), [ours] if ours else [])
