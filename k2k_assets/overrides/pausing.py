"""Pauses and resumes topics by records of the assignment topic, which running instances follow and later ones read."""

from __future__ import annotations

from collections.abc import Collection

from k2k_assets.control.assignment_writing import write_records
from k2k_assets.control.commit_log import now_ms
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.control.pause_records import Pause, pause_key, pause_value
from k2k_assets.control.pauses import read_pauses
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.selection import ensure_selected, resolve_topics


def pause_topics(
    pipeline: Pipeline, source: Cluster, target: Cluster, topics: Collection[str], by: str, why: str | None = None
) -> dict[str, bool]:
    """Pauses source topics; the pipeline may run, or not.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        topics: Source topics.
        by: User and host.
        why: The user's reason.

    Returns:
        Whether each of them was not paused before. One that was keeps its pause.

    Raises:
        Refused: A topic is not selected; nothing was changed.
        ClusterUnreachable: A cluster does not answer.
    """
    ensure_selected(pipeline, source, topics, resolve_topics(pipeline, source, partly=True))
    ensure_control_topics(pipeline, target)
    paused = read_pauses(pipeline, target)
    fresh = [topic for topic in dict.fromkeys(topics) if topic not in paused]
    value = pause_value(Pause(by, now_ms(), why))
    write_records(pipeline, [(pause_key(pipeline.group, topic), value) for topic in fresh])
    return {topic: topic in fresh for topic in topics}


def resume_topics(pipeline: Pipeline, target: Cluster, topics: Collection[str]) -> None:
    """Lets paused topics be copied on, from where they stand.

    Args:
        pipeline: The pipeline.
        target: The target cluster.
        topics: Source topics; they need not exist any more.

    Raises:
        Refused: A topic is not paused; nothing was changed.
        ClusterUnreachable: The target does not answer.
    """
    paused = read_pauses(pipeline, target)
    if others := [topic for topic in topics if topic not in paused]:
        there = f"paused are {', '.join(sorted(paused))}" if paused else "no topic is paused"
        raise Refused(f"{plural(len(others), 'topic')} not paused: {', '.join(others)}; {there}. Nothing was changed")
    write_records(pipeline, [(pause_key(pipeline.group, topic), None) for topic in dict.fromkeys(topics)])
