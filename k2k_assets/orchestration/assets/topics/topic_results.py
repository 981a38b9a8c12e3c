"""What a run's outcome looks like in Dagster: metadata of a topic, of all topics, and the failure of stopped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import dagster as dg

from k2k_assets.control.commit_record import forms_of
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import Stops, codes_of, render_topic
from k2k_assets.core.words import plural
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.topics.running_copy import FollowedTopic
from k2k_assets.orchestration.metadata import Metadata
from k2k_assets.replication.driver.outcome import Outcome, PartitionOutcome, TopicOutcome
from k2k_assets.replication.driver.progress import PartitionProgress

_COLUMNS = {
    "partition": "int",
    "start": "int",
    "position": "int",
    "source end": "int",
    "lag": "int",
    "target end": "int",
    "records": "int",
    "bytes": "int",
    "offset ranges": "int",
}


class ShownTopicCopy(NamedTuple):
    """What is shown of a topic.

    Attributes:
        ends: Where the source ends, by partition.
        positions: Next source offset to copy, by partition.
        metadata: Of the materialization.
        topic_id: Id of the source topic; empty if it is not known.
    """

    ends: Mapping[int, int]
    positions: Mapping[int, int]
    metadata: Metadata
    topic_id: str


def materialization(topic: TopicOutcome) -> ShownTopicCopy:
    """What is shown of a copied topic."""
    parts = sorted(topic.partitions.items())
    ends = [p.target_end for _, p in parts if p.target_end is not None]
    metadata: Metadata = {
        keys.TARGET_TOPIC: topic.target_topic,
        keys.RECORDS: topic.records,
        keys.BYTES: topic.bytes,
        keys.OFFSET_RANGES: topic.runs,
        keys.LAG: topic.lag,
        keys.SECONDS: round(topic.seconds, 3),
        keys.RATE: round(topic.records / topic.seconds, 1) if topic.seconds > 0 else 0.0,
        keys.POSITIONS: keys.table(
            _COLUMNS,
            ((n, p.start, p.position, _end(p), p.lag, p.target_end, p.records, p.bytes, p.runs) for n, p in parts),
        ),
    }
    if topic.paused:
        metadata[keys.PAUSED] = str(topic.paused)
    metadata.update(keys.transport_form(topic.form))
    if ends:
        metadata[keys.TARGET_END] = sum(ends)
    positions = {n: p.position for n, p in parts}
    # Where the source did not say where it ends, it is seen as far as it is copied.
    seen = {n: max(p.readable_end, p.position) if p.is_end_known else p.position for n, p in parts}
    return ShownTopicCopy(seen, positions, metadata, topic.topic_id)


class Movement(NamedTuple):
    """What a topic has done since it was reported last.

    Attributes:
        seconds: Since then.
        records: Copied.
        written: Offsets that the source's ends have moved on by; None the first time.
        copied: Offsets that the positions have moved on by, likewise.
    """

    seconds: float
    records: int
    written: int | None
    copied: int | None


def live_metadata(
    target_topic: str,
    parts: Mapping[int, PartitionProgress],
    movement: Movement,
    behind: float | None,
    latency: float | None = None,
    paused: Pause | None = None,
) -> Metadata:
    """What is shown of a topic while it is copied.

    Args:
        target_topic: Where it goes.
        parts: Its partitions; the table shows those that lag most.
        movement: Since it was shown last.
        behind: Seconds that it is behind; None where that cannot be told.
        latency: Seconds from a record's timestamp to its commit, of what was copied since; None likewise.
        paused: Its pause; None if it is not paused.
    """
    columns = {"partition": "int", "position": "int", "source end": "int", "lag": "int", "records": "int"}
    worst = sorted(parts, key=lambda n: (-parts[n].lag, n))[: keys.MOST_ROWS_AGAIN]
    rows = (
        (n, p.position, p.readable_end if p.is_end_known else None, p.lag, p.records)
        for n, p in sorted(parts.items())
        if n in worst
    )
    rates = {
        keys.RATE: movement.records,
        keys.OFFSETS_WRITTEN: movement.written,
        keys.OFFSETS_COPIED: movement.copied,
    }
    return {
        keys.TARGET_TOPIC: target_topic,
        keys.RECORDS: movement.records,
        keys.LAG: sum(p.lag for p in parts.values()),
        **{key: round(n / movement.seconds, 1) for key, n in rates.items() if n is not None and movement.seconds > 0},
        **({} if behind is None else {keys.SECONDS_BEHIND: round(behind, 3)}),
        **({} if latency is None else {keys.LATENCY: round(latency, 3)}),
        **({} if paused is None else {keys.PAUSED: str(paused)}),
        **keys.transport_form(forms_of(part.form for part in parts.values())),
        keys.POSITIONS: keys.table(columns, rows),
    }


def followed_materialization(target_topic: str, topic: FollowedTopic) -> ShownTopicCopy:
    """What is shown of a topic that somebody else copies without end."""
    columns = {"partition": "int", "position": "int", "source end": "int"}
    rows = ((n, topic.positions.get(n), end) for n, end in sorted(topic.ends.items()))
    metadata: Metadata = {
        keys.TARGET_TOPIC: target_topic,
        keys.COPIED_BY: topic.copied_by,
        keys.LAG: topic.lag,
        **({} if topic.paused is None else {keys.PAUSED: str(topic.paused)}),
        **keys.transport_form(topic.form),
        keys.POSITIONS: keys.table(columns, rows),
    }
    positions = {n: topic.positions.get(n, 0) for n in topic.ends}
    # The copy may have gone on since the source was asked.
    seen = {n: max(end, positions[n]) for n, end in topic.ends.items()}
    return ShownTopicCopy(seen, positions, metadata, topic.topic_id)


def _end(partition: PartitionOutcome) -> int | None:
    return partition.readable_end if partition.is_end_known else None


def summary(outcome: Outcome) -> Metadata:
    """What is shown of all topics together."""
    rows = (
        (name, t.target_topic, t.records, t.bytes, t.lag, render_topic(name, t.stopped))
        for name, t in sorted(outcome.topics.items())
    )
    columns = {
        "topic": "string",
        "target": "string",
        "records": "int",
        "bytes": "int",
        "lag": "int",
        "stopped": "string",
    }
    return {
        keys.RECORDS: sum(t.records for t in outcome.topics.values()),
        keys.BYTES: sum(t.bytes for t in outcome.topics.values()),
        keys.LAG: sum(t.lag for t in outcome.topics.values()),
        keys.SECONDS: round(outcome.seconds, 3),
        keys.TOPICS: keys.table(columns, rows),
    }


def stopped_failure(pipeline: str, stopped: Mapping[str, Stops], outcome: Outcome) -> dg.Failure:
    """The failure that names each stopped topic with its reason.

    Args:
        pipeline: The pipeline's name.
        stopped: Reasons by topic; also of topics that the outcome knows nothing of.
        outcome: What was copied.
    """
    count = len({*stopped, *outcome.topics})
    rows = [(topic, codes_of(stops.values()), render_topic(topic, stops)) for topic, stops in sorted(stopped.items())]
    words = "; ".join(f"{topic}: {reason}" for topic, _, reason in rows)
    return dg.Failure(
        description=f"pipeline {pipeline}: {len(stopped)} of {plural(count, 'topic was', 'topics were')} stopped, "
        f"the others were copied. {words}",
        metadata={
            keys.STOPPED: keys.table({"topic": "string", "stop code": "string", "reason": "string"}, rows),
            **summary(outcome),
        },
    )
