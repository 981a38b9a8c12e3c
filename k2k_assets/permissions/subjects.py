"""The subjects of permissions, and their names in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from k2k_assets.permissions.names import ALL, NamePattern, patterns_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.pairs import Pair
from k2k_assets.pipeline.reverse import reverse_of
from k2k_assets.pipeline.sections.selection import TopicSelection

Resource = Literal["topic", "group", "transactional id"]
Subject = Literal[
    "copied topics",
    "target topics",
    "dead-letter topics",
    "commit topic",
    "assignment topic",
    "mapping topic",
    "metrics topic",
    "reverse commit topic",
    "reverse assignment topic",
    "reverse mapping topic",
    "slots",
    "mapper",
    "consumer groups",
]


def resource_of(subject: Subject) -> Resource:
    """Kafka's kind of resource for a subject."""
    if subject == "consumer groups":
        return "group"
    return "transactional id" if subject in ("slots", "mapper") else "topic"


def patterns(pipeline: Pipeline, subject: Subject) -> list[NamePattern]:
    """The narrowest name patterns of ACLs for a subject.

    Raises:
        Refused: The routing names no target for a selected topic.
    """
    match subject:
        case "copied topics":
            return _copied_topics(pipeline.selection.parts)
        case "target topics":
            return _target_topics(pipeline)
        case "dead-letter topics":
            return [NamePattern(name) for name in pipeline.dead_letter_topics]
        case "commit topic":
            return [NamePattern(pipeline.coordination.commit.topic)]
        case "assignment topic":
            return [NamePattern(pipeline.coordination.assignment.topic)]
        case "mapping topic":
            return [NamePattern(pipeline.offset_mapping.topic)]
        case "metrics topic":
            return [NamePattern(pipeline.metrics.kafka.topic)]
        case "reverse commit topic":
            return [NamePattern(reverse_of(pipeline).coordination.commit.topic)]
        case "reverse assignment topic":
            return [NamePattern(reverse_of(pipeline).coordination.assignment.topic)]
        case "reverse mapping topic":
            return [NamePattern(reverse_of(pipeline).offset_mapping.topic)]
        case "slots":
            # All numbers: a newer instance may use other ones than the slots before it. See `replication.plan`.
            return [NamePattern(f"k2k.{pipeline.name}.{pipeline.group}.", prefixed=True)]
        case "mapper":
            return [NamePattern(f"k2k-mapper.{pipeline.name}.", prefixed=True)]  # see `groups/committer.py`
        case "consumer groups":
            return patterns_of(pipeline.groups.consumer_groups)


def _copied_topics(parts: Iterable[TopicSelection]) -> list[NamePattern]:
    return list(dict.fromkeys(pattern for part in parts for pattern in patterns_of(part.topic)))


def _target_topics(pipeline: Pipeline) -> list[NamePattern]:
    return list(dict.fromkeys(pattern for pair in pipeline.pairs for pattern in _target_topics_of(pair)))


def _target_topics_of(pair: Pair) -> list[NamePattern]:
    names = pair.routing.topic
    if pair.selection.literal is not None:
        return patterns_of(map(pair.routing.target_topic, pair.selection.literal))
    if names.static is not None:
        return [NamePattern(names.static)]
    if names.static_mapping is not None:
        return patterns_of(target for _, target in names.static_mapping)
    return [_named(names.prefix, copied, names.suffix) for copied in _copied_topics([pair.selection])]


def _named(prefix: str, copied: NamePattern, suffix: str) -> NamePattern:
    """The name pattern of the target topics for one pattern of source topics."""
    if copied == ALL:
        return NamePattern(prefix, prefixed=True) if prefix else ALL
    if copied.prefixed:
        return NamePattern(f"{prefix}{copied.name}", prefixed=True)
    return NamePattern(f"{prefix}{copied.name}{suffix}")
