"""Check: every target offset in the mappings lies below the high watermark, so that it exists or has existed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import ranges_where_led
from k2k_assets.verification.verdict import Offender, Verdict, verdict


class TargetExtent(NamedTuple):
    """The lowest and highest target offset in the mappings of a target partition: start inclusive, end exclusive.

    Attributes:
        sources: Names and ids of the source topics that these mappings map.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    sources: frozenset[tuple[str, str]]


def target_extents(runs: DataFrame) -> list[TargetExtent]:
    """Finds the extent of each target partition.

    Args:
        runs: Runs, columns `mapping.index.schemas.RUNS`.
    """
    keys = ("target_topic", "target_topic_id", "target_partition")
    end = F.max(F.col("target_start") + F.col("count"))
    sources = F.collect_set(F.struct("topic", "source_topic_id"))
    wanted = (F.min("target_start").alias("start"), end.alias("end"), sources.alias("sources"))
    rows = runs.groupBy(*keys).agg(*wanted).orderBy(*keys).collect()
    return [
        TargetExtent(
            row["target_topic"],
            row["target_topic_id"],
            row["target_partition"],
            row["start"],
            row["end"],
            frozenset((source["topic"], source["source_topic_id"]) for source in row["sources"]),
        )
        for row in rows
    ]


def check_watermarks(extents: Iterable[TargetExtent], source: Cluster, target: Cluster) -> Verdict:
    """Compares the extents with the target's watermarks.

    If a target topic is gone together with all its source topics, both were retired, and the mappings do not matter.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    found = list(extents)
    on_source = source.describe_async({name for extent in found for name, _ in extent.sources}, partly=True)()
    alive = {(name, topic.topic_id) for name, topic in on_source.items()}
    topics = target.describe({extent.topic for extent in found})
    existing = [
        TopicPartition(e.topic, e.partition)
        for e in found
        if e.topic in topics and e.partition < topics[e.topic].partitions
    ]
    low, high, offline_partitions = ranges_where_led(target, existing, "latest")
    counts = {
        "target_partitions": len(found),
        "of_former_topics": 0,
        "partly_expired": 0,
        "without_leader": len(offline_partitions),
    }
    offenders = []
    looked_at = 0
    for extent in found:
        tp = TopicPartition(extent.topic, extent.partition)
        if extent.topic not in topics and alive.isdisjoint(extent.sources):
            counts["of_former_topics"] += 1
        elif extent.topic not in topics:
            offenders.append(_offender(extent, f"{tp}: the topic does not exist on the target any more"))
        elif topics[extent.topic].topic_id != extent.topic_id:
            counts["of_former_topics"] += 1
        elif tp in offline_partitions:
            continue
        elif tp not in high:
            offenders.append(_offender(extent, f"{tp}: the target topic has no such partition"))
        elif extent.end > high[tp]:
            what = f"{tp}: mapped up to {extent.end}, but its high watermark is {high[tp]}"
            offenders.append(_offender(extent, what))
        else:
            looked_at += 1
            counts["partly_expired"] += extent.start < low[tp]
    good = f"the mappings of {plural(looked_at, 'target partition')} lie within their watermarks"
    doubt = None
    if offline_partitions:
        why = next(iter(offline_partitions.values()))
        have = plural(len(offline_partitions), "has no leader and was", "have no leader and were")
        hidden = f"{have} not looked at: {why}"
        good, doubt = f"{good}; {hidden}", None if looked_at else hidden
    return verdict(offenders, len(offenders), good, counts, doubt)


def _offender(extent: TargetExtent, what: str) -> Offender:
    return Offender(what, target_topic=extent.topic, target_partition=extent.partition, target_offset=extent.end - 1)
