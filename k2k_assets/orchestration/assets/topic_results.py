"""What a run's outcome looks like in Dagster: metadata of a topic, of all topics, and the failure of stopped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import dagster as dg

from k2k_assets.core.stops.reason import Stops, codes_of, render_topic
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import version_of
from k2k_assets.orchestration.assets.running_copy import FollowedTopic
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


class Shown(NamedTuple):
    """What a materialization carries."""

    metadata: Metadata
    data_version: dg.DataVersion


def materialization(topic: TopicOutcome) -> Shown:
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
    if ends:
        metadata[keys.TARGET_END] = sum(ends)
    return Shown(metadata, dg.DataVersion(version_of((n, p.position) for n, p in parts)))


def live_metadata(
    target_topic: str,
    parts: Mapping[int, PartitionProgress],
    records: int,
    written: int | None,
    seconds: float,
    behind: float | None,
) -> Metadata:
    """What is shown of a topic while it is copied.

    Args:
        target_topic: Where it goes.
        parts: Its partitions.
        records: Copied since it was shown last.
        written: Offsets that the source's ends have moved on by since then; None the first time.
        seconds: Since then.
        behind: Seconds that it is behind; None where that cannot be told.
    """
    columns = {"partition": "int", "position": "int", "source end": "int", "lag": "int", "records": "int"}
    rows = (
        (n, p.position, None if p.readable_end == END_UNKNOWN else p.readable_end, p.lag, p.records)
        for n, p in sorted(parts.items(), key=lambda item: (-item[1].lag, item[0]))
    )
    return {
        keys.TARGET_TOPIC: target_topic,
        keys.RECORDS: records,
        keys.LAG: sum(p.lag for p in parts.values()),
        keys.RATE: round(records / seconds, 1) if seconds > 0 else 0.0,
        **({} if written is None or seconds <= 0 else {keys.WRITTEN: round(written / seconds, 1)}),
        **({} if behind is None else {keys.SECONDS_BEHIND: round(behind, 3)}),
        keys.POSITIONS: keys.table(columns, rows, keys.MOST_ROWS_AGAIN),
    }


def followed_materialization(target_topic: str, topic: FollowedTopic) -> Shown:
    """What is shown of a topic that somebody else copies without end."""
    columns = {"partition": "int", "position": "int", "source end": "int"}
    rows = ((n, topic.positions.get(n), end) for n, end in sorted(topic.ends.items()))
    metadata: Metadata = {
        keys.TARGET_TOPIC: target_topic,
        keys.COPIED_BY: topic.copied_by,
        keys.LAG: topic.lag,
        keys.POSITIONS: keys.table(columns, rows),
    }
    return Shown(metadata, dg.DataVersion(version_of(topic.positions.items())))


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
        description=f"pipeline {pipeline}: {len(stopped)} of {count} topics were stopped, the others "
        f"were copied. {words}",
        metadata={
            keys.STOPPED: keys.table({"topic": "string", "stop code": "string", "reason": "string"}, rows),
            **summary(outcome),
        },
    )
