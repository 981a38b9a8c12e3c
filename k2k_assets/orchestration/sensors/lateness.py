"""Verdicts on `sync.freshness` where no run of the sync job gives them: a `k2k start` copies, or nothing does.

Without them a check would stay green while nothing is copied. The tick asks the source only about partitions that lag.
While no tick can observe the clusters, which may be for hours, nobody knows what is late: then the checks are in doubt.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import islice

import dagster as dg

from k2k_assets import discovery
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition, by_topic
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.assets.shown import shown_topics
from k2k_assets.orchestration.checks.evaluations import evaluations, has_passed, newest_materializations, not_given
from k2k_assets.orchestration.checks.topic_checks import freshness_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.observation import CALL_SECONDS, Observation
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.source_looks import LooksByPartition
from k2k_assets.status.freshness import check_keeps_up, not_known
from k2k_assets.status.lag import PartitionLag
from k2k_assets.status.lag_reader import read_lags
from k2k_assets.verification.verdict import Verdict


def lateness_events(
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    names: AssetNames,
    seen: Observation,
    shown: Collection[dg.AssetKey],
    most: int,
    looks: LooksByPartition,
    *,
    is_materialized: bool,
) -> Iterable[dg.AssetCheckEvaluation]:
    """The verdicts that differ from those that Dagster has; none without `sync.freshness`.

    Args:
        instance: Dagster's instance.
        pipeline: The pipeline.
        names: The pipeline's names.
        seen: The clusters.
        shown: Assets of the loaded definitions.
        most: Most verdicts of one tick; the others follow with the next ticks.
        looks: The sensor's earlier looks at the source.
        is_materialized: As of `not_given`.
    """
    limit = pipeline.sync.freshness
    if limit is None:
        return ()
    of_all = freshness_check_keys(names, [topic for topic in seen.topics if names.topic_key(topic) in shown])
    checks = {topic: of_all[topic] for topic in seen.ends if topic in of_all}
    lags = _lags(pipeline, seen, checks, looks)
    verdicts = {
        topic: verdict
        for topic in checks
        if (verdict := check_keeps_up(topic, lags.get(topic, {}), limit.total_seconds(), seen.paused.get(topic)))
        is not None
    }
    return _first(
        most, instance, pipeline, checks, not_given(instance, checks, verdicts, is_materialized=is_materialized)
    )


def doubts(
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    names: AssetNames,
    unseen: float,
    shown: Collection[dg.AssetKey],
    most: int,
) -> Iterable[dg.AssetCheckEvaluation]:
    """Doubts about what passed, where the clusters could not be observed for longer than `sync.freshness`.

    Args:
        instance: Dagster's instance.
        pipeline: The pipeline.
        names: The pipeline's names.
        unseen: Seconds since the clusters were observed last.
        shown: Assets of the loaded definitions.
        most: Most verdicts of one tick; the others follow with the next ticks.
    """
    limit = pipeline.sync.freshness
    if limit is None or unseen <= limit.total_seconds():
        return ()
    known = shown_topics(pipeline, discovery.load(pipeline.name))
    checks = freshness_check_keys(names, [topic.name for topic in known if names.topic_key(topic.name) in shown])
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks.values()))
    verdicts = {
        topic: not_known(
            topic,
            limit.total_seconds(),
            f"the clusters cannot be observed. The last tick of {names.sensor} says why",
        )
        for topic, key in checks.items()
        if has_passed(newest.get(key))
    }
    return _first(most, instance, pipeline, checks, verdicts)


def _first(
    most: int,
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    checks: Mapping[str, dg.AssetCheckKey],
    verdicts: Mapping[str, Verdict],
) -> Iterable[dg.AssetCheckEvaluation]:
    """The first of some verdicts, about the newest materializations."""
    new = dict(islice(verdicts.items(), most))
    targets = newest_materializations(instance, [checks[topic] for topic in new])
    return evaluations(checks, new, pipeline.files, targets)


def _lags(
    pipeline: Pipeline, seen: Observation, topics: Collection[str], looks: LooksByPartition
) -> Mapping[str, Mapping[int, PartitionLag]]:
    """Lag of the partitions; in seconds it is unknown where they are offline, or not answered for in time."""
    found = {
        TopicPartition(topic, n): PartitionLag(position, end, 0.0 if (position or 0) >= end else None)
        for topic in topics
        for n, (position, end) in enumerate(zip(seen.positions[topic], seen.ends[topic], strict=True))
    }
    found |= {tp: PartitionLag(found[tp].position, None, None) for tp in found.keys() & set(seen.offline)}
    ends = {tp: (lag.position or 0, lag.end) for tp, lag in found.items() if lag.end is not None}
    longest = looks.look(ends, time.monotonic())
    if behind := {tp: lag.position for tp, lag in found.items() if lag.seconds is None and lag.end is not None}:
        # A source that does not answer is asked again by a later tick.
        with suppress(K2KError), both_clusters(pipeline, CALL_SECONDS) as (source, _):
            found |= read_lags(pipeline, source, behind, longest=longest)
    return by_topic(found)
