"""The checks on each replicated topic as Dagster asset checks.

The logic is in `verification/stops.py`, `verification/topic_settings.py` and `status/freshness.py`.
"""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

import dagster as dg

from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.pause_records import Pause
from k2k_assets.control.pauses import PauseReader
from k2k_assets.core.topic_partition import TopicPartition, by_topic
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.checks.asset_checks import asset_check_result
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.freshness import check_keeps_up, not_known
from k2k_assets.status.lag_reader import read_lags
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.topic_settings import check_topic_settings
from k2k_assets.verification.verdict import Judgement, Verdict


def topic_check_keys(names: AssetNames, topics: Collection[str]) -> dict[str, dg.AssetCheckKey]:
    """The check of each topic.

    Args:
        names: The pipeline's names.
        topics: All topics that the definitions show.
    """
    return {topic: dg.AssetCheckKey(names.topic_key(topic), c) for topic, c in names.topic_checks(topics).items()}


def settings_check_keys(names: AssetNames, topics: Collection[str]) -> dict[str, dg.AssetCheckKey]:
    """The check on the settings of each topic; arguments as of `topic_check_keys`."""
    return {topic: dg.AssetCheckKey(names.topic_key(topic), c) for topic, c in names.settings_checks(topics).items()}


def freshness_check_keys(names: AssetNames, topics: Collection[str]) -> dict[str, dg.AssetCheckKey]:
    """The check on how late each topic is; arguments as of `topic_check_keys`."""
    return {topic: dg.AssetCheckKey(names.topic_key(topic), c) for topic, c in names.freshness_checks(topics).items()}


def topic_checks(pipeline: Pipeline, names: AssetNames, topics: Collection[str]) -> list[dg.AssetChecksDefinition]:
    """The checks on the replicated topics, in one op that asks for all topics at once.

    Args:
        pipeline: The pipeline.
        names: The pipeline's names.
        topics: All topics that the definitions show.
    """
    keys, of_settings = topic_check_keys(names, topics), settings_check_keys(names, topics)
    limit = pipeline.sync.freshness
    of_freshness = freshness_check_keys(names, topics) if limit else {}
    if not keys:
        return []
    specs = [
        *_specs(
            keys, "No partition is stopped, in Dagster or in `k2k start`. If one is, the check says why and what to do."
        ),
        *_specs(
            of_settings,
            "The topic on the target has the partitions, replicas and configs that its source and the pipeline file "
            "want. A difference is a warning; `k2k topics plan` shows it, `k2k topics apply` puts it right.",
        ),
        *_specs(
            of_freshness,
            "No record waits for longer than `sync.freshness` of the pipeline file. A topic to which nobody writes "
            "is never late.",
        ),
    ]

    @dg.multi_asset_check(name=names.topic_checks_op, specs=specs, can_subset=True)
    @interruptible
    def copies_on(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            TopicCheck(pipeline, source, target, "checks").ensure_existing()
            logs = read_commit_log(pipeline, source.cluster_id(), target).by_topic()
            with closing(PauseReader(pipeline, target)) as pauses:
                paused = pauses.read()
            selected = context.op_execution_context.selected_asset_check_keys
            asked = [topic for topic, key in of_settings.items() if key in selected]
            settings = check_topic_settings(pipeline, source, target, asked) if asked else {}
            timed = [topic for topic, key in of_freshness.items() if key in selected]
            freshness = check_topics_keep_up(pipeline, source, logs, timed, paused) if timed else {}
        for topic, key in keys.items():
            if key in selected:
                yield asset_check_result(key, check_copies_on(topic, logs[topic], paused=paused.get(topic)))
        for topic, verdict in settings.items():
            yield asset_check_result(of_settings[topic], verdict)
        for topic, verdict in freshness.items():
            yield asset_check_result(of_freshness[topic], verdict)

    return [copies_on]


def _specs(keys: Mapping[str, dg.AssetCheckKey], description: str) -> list[dg.AssetCheckSpec]:
    return [dg.AssetCheckSpec(key.name, asset=key.asset_key, description=description) for key in keys.values()]


def check_topics_keep_up(
    pipeline: Pipeline,
    source: Cluster,
    logs: Mapping[str, CommitLog],
    topics: Collection[str],
    paused: Mapping[str, Pause],
) -> dict[str, Verdict]:
    """A verdict on how late each topic is, for a pipeline with `sync.freshness`; it takes five seconds at most.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        logs: The commit log of each topic.
        topics: Source topics.
        paused: Paused topics.

    Raises:
        ClusterUnreachable: The source does not answer.
    """
    limit = pipeline.sync.freshness
    if limit is None:
        return {}
    described = source.describe_async(topics, partly=True)()
    partitions = [TopicPartition(topic, n) for topic, found in described.items() for n in range(found.partitions)]
    records = {tp: logs[tp.topic].positions.get(tp) for tp in partitions}
    positions = {tp: record.position if record else None for tp, record in records.items()}
    lags = by_topic(read_lags(pipeline, source, positions))
    verdicts = {}
    for topic in topics:
        verdict = check_keeps_up(topic, lags.get(topic, {}), limit.total_seconds(), paused.get(topic))
        if topic not in described:
            verdict = not_known(topic, limit.total_seconds(), "the source does not have the topic")
        unknown = f"how far {topic} is behind is not known: a partition could not be read in time"
        verdicts[topic] = verdict or Verdict(Judgement.WARNED, unknown)
    return verdicts
