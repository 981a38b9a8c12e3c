"""The replicated topics: one subsettable multi-asset with one Spark job a run."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Iterator, Mapping, Set

import dagster as dg

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.stops.reason import Stops
from k2k_assets.core.words import plural
from k2k_assets.discovery import refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.shown import ShownTopic
from k2k_assets.orchestration.assets.topics.running_copy import FollowedTopic
from k2k_assets.orchestration.assets.topics.topic_copy import (
    CopyConfig,
    ExtentChoice,
    alive_until_copying,
    cannot_be_copied,
    copied_by_others,
    copy_once,
    copy_without_end,
)
from k2k_assets.orchestration.assets.topics.topic_report import topic_report
from k2k_assets.orchestration.assets.topics.topic_results import (
    ShownTopicCopy,
    followed_materialization,
    materialization,
    stopped_failure,
    summary,
)
from k2k_assets.orchestration.checks.evaluations import evaluations, newest_materializations
from k2k_assets.orchestration.checks.topic_checks import topic_check_keys
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.hooks import DEFAULT, CopyResults, Hooks
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.orchestration.runs.run_heartbeats import Beside
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.verification.stops import check_copies_on


def topic_assets(
    pipeline: Pipeline, names: AssetNames, topics: list[ShownTopic], hooks: Hooks = DEFAULT
) -> dg.AssetsDefinition:
    """The multi-asset; one that stands for all topics when none is known yet."""
    if not topics:
        return _undiscovered(pipeline, names, hooks)
    by_key = {names.topic_key(topic.name): topic.name for topic in topics}

    @dg.multi_asset(
        name=names.op("topics"),
        group_name=names.copy_group,
        description=f"Copies {pipeline.selection.describe()} with one Spark job.",
        outs={
            names.output(topic.name): dg.AssetOut(
                key=names.topic_key(topic.name),
                is_required=False,
                dagster_type=dg.Nothing,
                description=f"Copy of source topic `{topic.name}`"
                + (f" in target topic `{topic.target}`." if topic.target else "; the routing names no target topic."),
                code_version=pipeline.code_version,
                kinds={"kafka", "pyspark"},
            )
            for topic in topics
        },
        ins={
            names.source_input(topic.name): dg.AssetIn(key=names.source_key(topic.name), dagster_type=dg.Nothing)
            for topic in topics
        },
        internal_asset_deps={names.output(topic.name): {names.source_key(topic.name)} for topic in topics},
        can_subset=True,
        required_resource_keys={names.resource},
    )
    @interruptible
    def copy_topics(context: dg.AssetExecutionContext, config: CopyConfig) -> CopyResults:
        with alive_until_copying(context, pipeline, config) as alive:
            yield from hooks.execute(context, lambda: copied(context, config, alive))

    def copied(context: dg.AssetExecutionContext, config: CopyConfig, alive: Beside) -> CopyResults:
        selected = {by_key[key] for key in context.selected_asset_keys}
        wanted = selected.union(config.also)
        if config.extent is ExtentChoice.continuous:
            copy_without_end(context, pipeline, names, config, by_key.values(), alive)
            return
        followed = copied_by_others(context, pipeline, wanted)
        yield from _materialized(context, pipeline, names, selected, _shown(pipeline, followed))
        wanted = wanted - followed.keys()
        if not wanted:
            return
        with getattr(context.resources, names.resource).copying(pipeline) as spark:
            left_out = cannot_be_copied(pipeline, wanted)
            outcome = copy_once(context, pipeline, spark, config, wanted - left_out.keys())
        _report_stops(context, pipeline, outcome, topic_check_keys(names, {*by_key.values(), *config.also}))
        yield from _results(context, pipeline, names, outcome, selected, left_out)

    return copy_topics


def _undiscovered(pipeline: Pipeline, names: AssetNames, hooks: Hooks) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=names.op("topics"),
        group_name=names.copy_group,
        outs={
            names.output("undiscovered topics"): dg.AssetOut(
                key=names.undiscovered_key(pipeline.selection.pattern or ""),
                dagster_type=dg.Nothing,
                description=f"Stands for {pipeline.selection.describe()}, which are not discovered yet. Materializing "
                "it discovers them, then copies all; reload the definitions to see an asset for each.",
                code_version=pipeline.code_version,
                kinds={"kafka", "pyspark"},
            )
        },
        required_resource_keys={names.resource},
    )
    @interruptible
    def discover_and_copy(context: dg.AssetExecutionContext, config: CopyConfig) -> CopyResults:
        with alive_until_copying(context, pipeline, config) as alive:
            yield from hooks.execute(context, lambda: copied(context, config, alive))

    def copied(context: dg.AssetExecutionContext, config: CopyConfig, alive: Beside) -> CopyResults:
        if config.extent is ExtentChoice.continuous:
            copy_without_end(context, pipeline, names, config, (), alive)
            return
        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            found = refresh(pipeline, source, target)
        context.log.info(f"discovered {plural(len(found.topics), 'topic')}: {', '.join(found.topics)}")
        followed = copied_by_others(context, pipeline, found.topics.keys())
        yield from _materialized(context, pipeline, names, set(), _shown(pipeline, followed))
        rest = found.topics.keys() - followed.keys()
        if followed and not rest:
            yield dg.MaterializeResult(metadata={keys.TOPICS: ", ".join(sorted(followed))})
            return
        with getattr(context.resources, names.resource).copying(pipeline) as spark:
            outcome = copy_once(context, pipeline, spark, config, rest if followed else None)
        yield from _results(context, pipeline, names, outcome, set())
        yield dg.MaterializeResult(metadata=summary(outcome))

    return discover_and_copy


def _report_stops(
    context: dg.AssetExecutionContext, pipeline: Pipeline, outcome: Outcome, checks: Mapping[str, dg.AssetCheckKey]
) -> None:
    """The failed checks of stopped topics: the checks' own op does not run after the failure that names them."""
    if not outcome.stopped:
        return
    with failures_as_messages(), both_clusters(pipeline) as (source, target):
        logs = read_commit_log(pipeline, source.cluster_id(), target).by_topic()
    verdicts = {topic: check_copies_on(topic, logs[topic], stops) for topic, stops in outcome.stopped.items()}
    targets = newest_materializations(context.instance, [checks[topic] for topic in verdicts if topic in checks])
    for evaluation in evaluations(checks, verdicts, targets=targets):
        context.instance.report_runless_asset_event(evaluation)


def _results(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    names: AssetNames,
    outcome: Outcome,
    selected: Set[str],
    left_out: Mapping[str, Stops] | None = None,
) -> Iterator[dg.MaterializeResult[None]]:
    """The good topics first, so that they count; then the failure that names those that were stopped, or left out."""
    stopped: Mapping[str, Stops] = {**outcome.stopped, **(left_out or {})}
    good = {topic: materialization(result) for topic, result in outcome.topics.items() if topic not in stopped}
    yield from _materialized(context, pipeline, names, selected, good)
    if stopped:
        raise stopped_failure(pipeline.name, stopped, outcome)


def _shown(pipeline: Pipeline, followed: Mapping[str, FollowedTopic]) -> dict[str, ShownTopicCopy]:
    return {
        topic: followed_materialization(pipeline.routing.target_if_any(topic) or "", copy)
        for topic, copy in sorted(followed.items())
    }


def _materialized(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    names: AssetNames,
    selected: Set[str],
    topics: Mapping[str, ShownTopicCopy],
) -> Iterator[dg.MaterializeResult[None]]:
    """The results of topics that are selected; of those that have no asset yet, an event in the log.

    Each says itself what it was made from: by Dagster's own account that would be what its source was observed to hold
    before.
    """
    for topic, shown in topics.items():
        told = names, pipeline.code_version, topic, shown.ends, shown.positions, shown.metadata, shown.topic_id
        for event in topic_report(*told):
            if isinstance(event, dg.AssetObservation):
                context.instance.report_runless_asset_event(event)
            elif topic in selected:
                yield dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata, tags=event.tags)
            else:
                context.log_event(event)
