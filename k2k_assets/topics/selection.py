"""Resolves the topic selection of a pipeline to the topics that the source has now."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.missing import refuse
from k2k_assets.permissions.topic_check import hidden_topics
from k2k_assets.pipeline.pairs import selected_twice
from k2k_assets.pipeline.sections.values import KAFKA_INTERNAL
from k2k_assets.topics.names import left_out, never_selected, selected
from k2k_assets.topics.others_control_topics import others_control_topics

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.pipeline.sections.selection import TopicSelection

log = logging.getLogger("k2k.topics")

# The nodes of a cluster learn of a new topic one after the other, within about this time.
_NODES_LEARN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class SelectedTopics:
    """The source topics that a pipeline selects now.

    Attributes:
        topics: Topic to partition count, sorted by name.
        doubts: What is not copied though the file seems to mean it: patterns that match nothing, and topics that two
            pairs of stages select.
    """

    topics: dict[str, int]
    doubts: tuple[str, ...] = ()


def resolve_topics(pipeline: Pipeline, source: Cluster, *, partly: bool = False) -> dict[str, int]:
    """As `select_topics`; doubts are logged as warnings."""
    found = select_topics(pipeline, source, partly=partly)
    for doubt in found.doubts:
        log.warning("%s", doubt)
    return found.topics


def select_topics(pipeline: Pipeline, source: Cluster, *, partly: bool = False) -> SelectedTopics:
    """The source topics that a pipeline selects now. One pair of stages does not hold up the others.

    Args:
        pipeline: Its `selection` is one pattern or a list of names, or that of several pairs of stages.
        source: The source cluster, which is asked a second time where a listed topic does not exist.
        partly: Whether listed topics that do not exist are left out, instead of refused, and patterns that match
            nothing are no doubt. Then there may be no topic at all.

    Raises:
        Refused: A listed topic does not exist, or no topic is selected by one pair alone.
        ClusterUnreachable: The source does not answer.
    """
    existing = source.topics() if partly else _with_new_topics(pipeline, source)
    parts = pipeline.selection.parts
    found: Counter[str] = Counter()
    doubts: list[str] = []
    for part in parts:
        if part.literal is None:
            names = _matching(pipeline, part, existing, source)
            if not names and not partly:
                doubts.append(_without_a_match(pipeline, part, existing, source))
        else:
            names = existing.keys() & part.literal if partly else _listed(pipeline, part.literal, existing, source)
        found.update(names)
    doubts += (selected_twice(parts, name) for name, times in sorted(found.items()) if times > 1)
    topics = {name: existing[name] for name, times in sorted(found.items()) if times == 1}
    if not (topics or partly):
        raise Refused("; ".join(doubts))
    return SelectedTopics(topics, tuple(doubts))


def ensure_selected(pipeline: Pipeline, source: Cluster, wanted: Collection[str], found: Collection[str]) -> None:
    """Makes sure that topics are among those that a pipeline copies.

    Args:
        pipeline: The pipeline.
        source: The source cluster, which is asked about topics that are not selected.
        wanted: Source topics.
        found: The topics that `resolve_topics` found, with `partly` or without.

    Raises:
        Refused: A wanted topic is hidden, does not exist, or is not selected by one pair of stages alone.
        ClusterUnreachable: The source does not answer.
    """
    missing = sorted(set(wanted) - set(found))
    if missing:
        refuse(hidden_topics(pipeline, source, [name for name in missing if pipeline.selection.matches(name)]))
        if twice := next(filter(None, (selected_twice(pipeline.selection.parts, name) for name in missing)), ""):
            raise Refused(twice)
        raise Refused(f"topics {', '.join(missing)} are not on the source, or not selected by the pipeline")


def _with_new_topics(pipeline: Pipeline, source: Cluster) -> dict[str, int]:
    """All topics; a listed one that was just created is among them, also if the node that was asked is late."""
    existing = source.topics()
    if all(name in existing for part in pipeline.selection.parts for name in part.literal or ()):
        return existing
    time.sleep(_NODES_LEARN_SECONDS)
    return source.topics()


def _listed(pipeline: Pipeline, literal: Collection[str], existing: Collection[str], source: Cluster) -> set[str]:
    unknown = [name for name in dict.fromkeys(literal) if name not in existing]
    if unknown:
        refuse(hidden_topics(pipeline, source, [name for name in unknown if name not in KAFKA_INTERNAL]))
        what = "; ".join(_unknown(name, existing) for name in unknown)
        raise Refused(
            f"{what}. Looked at {plural(len(existing), 'topic')} of the {source}. "
            "Correct 'replication[].source.topic', or create the topic."
        )
    return set(literal)


def _unknown(name: str, existing: Collection[str]) -> str:
    if name in KAFKA_INTERNAL:
        return f"the source topic '{name}' is Kafka's own and cannot be copied"
    nearest = get_close_matches(name, existing, n=1, cutoff=0.5)
    hint = f" (did you mean '{nearest[0]}'?)" if nearest else ""
    return f"the source topic '{name}' does not exist{hint}"


def selected_on(pipeline: Pipeline, source: Cluster, names: Collection[str]) -> set[str]:
    """Those of some source topics that a pipeline selects; no expression selects another pipeline's control topics.

    Those that two pairs of stages select are among them: whoever shows them says that they have no target.

    Args:
        pipeline: The pipeline.
        source: The source cluster, which is asked about topics that expressions match.
        names: Existing source topics.
    """
    found: set[str] = set()
    for part in pipeline.selection.parts:
        is_list = part.literal is not None
        found |= selected(pipeline, names, part) if is_list else _matching(pipeline, part, names, source)
    return found


def _matching(pipeline: Pipeline, part: TopicSelection, existing: Collection[str], source: Cluster) -> set[str]:
    names = selected(pipeline, existing, part)
    return names - others_control_topics(pipeline, source, names)


def _without_a_match(pipeline: Pipeline, part: TopicSelection, existing: Collection[str], source: Cluster) -> str:
    """Says that a pattern matches no topic.

    Raises:
        Refused: A topic that it matches may be hidden from this client.
    """
    refuse(hidden_topics(pipeline, source))
    looked_at = len(set(existing) - never_selected(pipeline))
    internal = _left_out("internal topics", left_out(pipeline, existing))
    others = _left_out("control topics of other pipelines", selected(pipeline, existing, part))
    return (
        f"no topic of the {source} matches the pattern '{part.pattern}': "
        f"{plural(looked_at, 'topic')} looked at. The pattern must match the whole name; "
        f"correct 'replication[].source.topic'.{internal}{others}"
    )


def _left_out(what: str, names: Collection[str]) -> str:
    if not names:
        return ""
    first = ", ".join(sorted(names)[:3])
    return f" It leaves {what} out ({first}{', ...' * (len(names) > 3)}): list them by name."
