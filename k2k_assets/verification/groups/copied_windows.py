"""Reads the records around the positions of groups on both sides, as the settings of a copy make them comparable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.messages import Message, headers_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.verification.content.digests import digest
from k2k_assets.verification.content.expected_changes import ChangedRecord, ChangeRules, KnownChanges
from k2k_assets.verification.content.expected_drops import expected_drops
from k2k_assets.verification.content.expected_headers import ClusterIds, expected_headers
from k2k_assets.verification.content.payloads import compared_facets, without_ids
from k2k_assets.verification.content.sides import compacted_topics
from k2k_assets.verification.groups.match import RecordWindow
from k2k_assets.verification.groups.places import GroupPlace
from k2k_assets.verification.groups.windows import At, read_windows


class TopicChanges:
    """What rules make of the records of source topics.

    Args:
        rules: The rules for all topics.
    """

    def __init__(self, rules: ChangeRules) -> None:
        self._rules, self._known = rules, KnownChanges()

    @property
    def id(self) -> str:
        """`ChangeRules.id` of all of them."""
        return self._rules.id

    def are_known(self, topic: str) -> bool:
        """Whether the rules for a topic can be applied here."""
        return self._known.of(self._rules, topic) is not None

    def of(self, message: Message) -> ChangedRecord:
        """What becomes of a record of a topic whose rules are known."""
        headers, rules = headers_of(message), self._rules.of_topic(message.topic() or "")
        changes = self._known.opened(rules) if rules.text else None
        if changes is None:
            return ChangedRecord(message.key(), message.value(), headers, read=headers)
        (changed,) = changes.of([message], [headers])
        return changed


def copied_windows(
    pipeline: Pipeline,
    result: PollResult,
    places: Sequence[GroupPlace],
    source: Cluster,
    target: Cluster,
    settings: CopySettings,
    changes: TopicChanges,
) -> tuple[dict[At, RecordWindow], dict[At, RecordWindow]]:
    routes = {(tp.topic, place.target[0].topic) for place in places for tp, _ in place.sources}
    on_source = source.describe({topic for topic, _ in routes})
    on_target = target.describe({topic for _, topic in routes})
    timed = timed_topics(routes, source, target, on_source, on_target) if settings.timestamps else frozenset()
    timed_sources = {topic for topic, to in routes if to in timed}
    source_properties = {**pipeline.client_properties("source", "consumer"), "isolation.level": settings.isolation}
    target_properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}

    ids = ClusterIds.of(source, target)
    facets = compared_facets(routes, settings)
    expected, drops = expected_headers(settings, ids, changes.id), expected_drops(settings, ids, changes.id)
    with_headers = settings.headers or bool(expected)

    # Schemas tell nothing about positions: the content check compares them.
    def digest_of(role: ClusterRole, timed_here: Collection[str], message: Message) -> bytes | None:
        of_topic, timed_too = facets[role].get(message.topic() or "", ""), message.topic() in timed_here
        payloads = without_ids(message.key(), message.value(), of_topic)
        if role == "target":
            return digest(message, payloads, with_headers, timed_too)
        if not changes.id:
            return digest(message, payloads, with_headers, timed_too, expected, drops)
        changed = changes.of(message)
        as_compared = without_ids(changed.key, changed.value, of_topic)
        return digest(message, as_compared, with_headers, timed_too, expected, drops, changed)

    return (
        read_windows(
            source,
            source_properties,
            {at for place in places for at in place.sources},
            {tp: end for tp, end in result.source_ends.items() if tp.topic in on_source},
            partial(digest_of, "source", timed_sources),
            compacted_topics(source, on_source),
        ),
        read_windows(
            target,
            target_properties,
            {place.target for place in places},
            {tp: ends.end for tp, ends in result.target_ends.items() if tp.topic in on_target},
            partial(digest_of, "target", timed),
            compacted_topics(target, on_target),
        ),
    )


def timed_topics(
    routes: Iterable[tuple[str, str]],
    source: Cluster,
    target: Cluster,
    on_source: Mapping[str, TopicDescription],
    on_target: Mapping[str, TopicDescription],
) -> frozenset[str]:
    """Target topics whose timestamps must equal those of the source, because brokers set them on neither side.

    Args:
        routes: Source topics, each with its target topic.
        source: The source cluster.
        target: The target cluster.
        on_source: Existing source topics, by name.
        on_target: Existing target topics, by name.
    """
    stamped_there = _create_time(source, on_source)
    stamped_here = _create_time(target, on_target)
    unsure = {to for topic, to in routes if topic not in stamped_there}
    return frozenset(to for _, to in routes if to in stamped_here and to not in unsure)


def _create_time(cluster: Cluster, topics: Mapping[str, TopicDescription]) -> frozenset[str]:
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(n for n, config in configs.items() if config.get("message.timestamp.type") != "LogAppendTime")
