"""The replicated topics: one subsettable multi-asset with one Spark job a run."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Collection, Iterator, Mapping, Set
from datetime import timedelta
from enum import Enum

import dagster as dg
from pydantic import Field

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import Stops
from k2k_assets.core.stops.reasons.source_topic import TopicNotFound
from k2k_assets.core.stops.reasons.target_topic import NoTargetTopic
from k2k_assets.core.words import duration, plural
from k2k_assets.discovery import refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.run_telemetry import copy_telemetry
from k2k_assets.orchestration.assets.running_copy import FollowedTopic, followed_topics
from k2k_assets.orchestration.assets.settings_reports import SettingsReports
from k2k_assets.orchestration.assets.shown import ShownTopic
from k2k_assets.orchestration.assets.sync_run import SyncRun
from k2k_assets.orchestration.assets.topic_report import topic_report
from k2k_assets.orchestration.assets.topic_results import (
    ShownTopicCopy,
    followed_materialization,
    materialization,
    stopped_failure,
    summary,
)
from k2k_assets.orchestration.assets.watched_copy import ProgressLog, newest_progress, watched
from k2k_assets.orchestration.checks.evaluations import RunVerdicts, evaluations, newest_materializations
from k2k_assets.orchestration.checks.topic_checks import topic_check_keys
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.hooks import DEFAULT, CopyResults, Hooks
from k2k_assets.orchestration.interruption import WHAT_FOLLOWS, interruptible, telling_of_termination
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets.status.latency import CommitLatency
from k2k_assets.status.waiting_records import WaitingRecords
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.topic_settings import check_topic_settings


class ExtentChoice(Enum):
    """How far a run goes."""

    window = "window"
    caught_up = "caught_up"
    continuous = "continuous"


class CopyConfig(dg.Config):
    """Run config of the topics op."""

    extent: ExtentChoice = Field(
        default=ExtentChoice.caught_up,
        description="caught_up: until all that was committed on the source at the start is committed on the target. "
        "window: for a bounded time. continuous: until another run takes over, which the replication sensor asks for "
        "after `sync.window`. The first two copy nothing of topics that are copied without end by somebody else: they "
        "tell how far that has come.",
    )
    window_seconds: float | None = Field(default=None, gt=0, description="Over `sync.window` of the pipeline file.")
    idle_seconds: float | None = Field(default=None, gt=0, description="Over `sync.idle` of the pipeline file.")
    also: list[str] = Field(
        default_factory=list,
        description="Source topics to copy that have no asset yet: they were discovered after the definitions were "
        "loaded. Their materializations are recorded all the same.",
    )


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
        yield from hooks.execute(context, lambda: copied(context, config))

    def copied(context: dg.AssetExecutionContext, config: CopyConfig) -> CopyResults:
        selected = {by_key[key] for key in context.selected_asset_keys}
        wanted = selected.union(config.also)
        if config.extent is ExtentChoice.continuous:
            _sync(context, pipeline, names, config, by_key.values())
            return
        followed = _followed(context, pipeline, wanted)
        yield from _materialized(context, pipeline, names, selected, _shown(pipeline, followed))
        wanted = wanted - followed.keys()
        if not wanted:
            return
        with getattr(context.resources, names.resource).copying(pipeline) as spark:
            left_out = _left_out(pipeline, wanted)
            outcome = _copy(context, pipeline, spark, config, wanted - left_out.keys())
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
        yield from hooks.execute(context, lambda: copied(context, config))

    def copied(context: dg.AssetExecutionContext, config: CopyConfig) -> CopyResults:
        if config.extent is ExtentChoice.continuous:
            _sync(context, pipeline, names, config, ())
            return
        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            found = refresh(pipeline, source, target)
        context.log.info(f"discovered {plural(len(found.topics), 'topic')}: {', '.join(found.topics)}")
        followed = _followed(context, pipeline, found.topics.keys())
        yield from _materialized(context, pipeline, names, set(), _shown(pipeline, followed))
        rest = found.topics.keys() - followed.keys()
        if followed and not rest:
            yield dg.MaterializeResult(metadata={keys.TOPICS: ", ".join(sorted(followed))})
            return
        with getattr(context.resources, names.resource).copying(pipeline) as spark:
            outcome = _copy(context, pipeline, spark, config, rest if followed else None)
        yield from _results(context, pipeline, names, outcome, set())
        yield dg.MaterializeResult(metadata=summary(outcome))

    return discover_and_copy


def _left_out(pipeline: Pipeline, wanted: Set[str]) -> Mapping[str, Stops]:
    """Those of the wanted topics that cannot be copied, with the reason; none where the engine is to refuse them all.

    They are not on the source any more, or the routing names no target for them.
    """
    if pipeline.selection.literal is not None:
        return {}  # a listed topic that is missing, or has no target, is a fault of the pipeline file
    with failures_as_messages(), both_clusters(pipeline) as (source, _):
        left_out: dict[str, Stops] = {topic: {None: TopicNotFound()} for topic in wanted - source.topics().keys()}
    for topic in wanted - left_out.keys():
        try:
            pipeline.routing.target_topic(topic)
        except Refused as refusal:
            left_out[topic] = {None: NoTargetTopic(str(refusal))}
    return {} if left_out.keys() == wanted else left_out


def _copy(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    spark: ComingSpark,
    config: CopyConfig,
    topics: Set[str] | None,
) -> Outcome:
    extent = _extent(pipeline, config)
    what = "all topics" if topics is None else ", ".join(sorted(topics))
    context.log.info(f"copying {what} {_in_words(extent)}")
    with failures_as_messages(), copy_telemetry(pipeline) as telemetry:
        return watched(
            lambda stop, listener: spark.replicate(
                extent,
                topics=topics,
                stop=stop,
                listener=telemetry.beside(listener),
                run=context.run_id,
                reports=telemetry.reports,
            ),
            ProgressLog(context.log.info),
            newest_progress,
        )


def _sync(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    names: AssetNames,
    config: CopyConfig,
    shown: Collection[str],
) -> None:
    """Copies until another run takes over; all topics of the pipeline, also those that appear meanwhile."""
    window = pipeline.sync.window.total_seconds() if config.window_seconds is None else config.window_seconds
    with (
        failures_as_messages(),
        both_clusters(pipeline) as (source, target),
        WaitingRecords(pipeline) as waiting,
        CommitLatency(pipeline) as latency,
        copy_telemetry(pipeline) as telemetry,
        getattr(context.resources, names.resource).copying(pipeline) as spark,
    ):
        verdicts = RunVerdicts(context.instance, context.run_id, context.job_name)
        run = SyncRun(
            pipeline=pipeline,
            names=names,
            window=window,
            shown=shown,
            sink=context,
            report=context.instance.report_runless_asset_event,
            verdicts=verdicts,
            read_log=lambda: read_commit_log(pipeline, source.cluster_id(), target),
            describe=lambda topics: source.describe_async(topics, partly=True)(),
            oldest=waiting.oldest,
            latency=latency.measure,
            log=context.log.info,
            warn=context.log.warning,
            settings=SettingsReports(
                names,
                pipeline.checks.interval.total_seconds(),
                check=lambda topics: check_topic_settings(pipeline, source, target, topics),
                verdicts=verdicts,
                log=context.log.info,
            ),
        )
        context.log.info(
            f"copying {pipeline.selection.describe()} until the next run of this job takes over. Terminated by hand, "
            f"it commits what it has and ends, and {WHAT_FOLLOWS}"
        )
        with telling_of_termination(context):
            watched(
                lambda stop, listener: spark.replicate(
                    Continuous(),
                    stop=stop,
                    listener=telemetry.beside(listener),
                    run=context.run_id,
                    reports=telemetry.reports,
                ),
                run,
                newest_progress,
            )
        context.log.info(run.ending())


def _followed(context: dg.AssetExecutionContext, pipeline: Pipeline, topics: Set[str]) -> Mapping[str, FollowedTopic]:
    """Those of some topics that somebody copies without end: copying them here would only interrupt that."""
    with failures_as_messages(), both_clusters(pipeline) as (source, target):
        there = topics & source.topics().keys()
        followed = followed_topics(pipeline, source, target, there) if there else {}
    for topic, copy in sorted(followed.items()):
        at = ", ".join(f"{n}: {position}" for n, position in sorted(copy.positions.items()))
        what = f"{copy.paused}, and nothing of it is copied" if copy.paused else f"being copied by {copy.copied_by}"
        context.log.info(f"{topic} is {what}; positions {at}, lag {copy.lag}")
    return followed


def _in_words(extent: UntilCaughtUp | Window) -> str:
    if isinstance(extent, UntilCaughtUp):
        return "until all that is there now is copied"
    longest, idle = duration(extent.duration.total_seconds()), duration(extent.idle.total_seconds())
    return f"for {longest}, or until nothing comes for {idle}"


def _extent(pipeline: Pipeline, config: CopyConfig) -> UntilCaughtUp | Window:
    if config.extent is ExtentChoice.caught_up:
        return UntilCaughtUp()
    window, idle = config.window_seconds, config.idle_seconds
    return Window(
        duration=pipeline.sync.window if window is None else timedelta(seconds=window),
        idle=pipeline.sync.idle if idle is None else timedelta(seconds=idle),
    )


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
