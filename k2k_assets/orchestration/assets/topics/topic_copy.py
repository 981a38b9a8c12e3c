"""How a run copies topics: for a while or up to an end, or without end until the next run takes over."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum

import dagster as dg
from pydantic import Field

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import Stops
from k2k_assets.core.stops.reasons.source_topic import TopicNotFound
from k2k_assets.core.stops.reasons.target_topic import NoTargetTopic
from k2k_assets.core.words import duration
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.assets.topics.freshness_reports import FreshnessReports
from k2k_assets.orchestration.assets.topics.running_copy import FollowedTopic, followed_topics
from k2k_assets.orchestration.assets.topics.settings_reports import SettingsReports
from k2k_assets.orchestration.assets.topics.sync_run import SyncRun, lags_of
from k2k_assets.orchestration.checks.evaluations import RunVerdicts
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import SYNC_TAG, AssetNames
from k2k_assets.orchestration.runs.interruption import WHAT_FOLLOWS, telling_of_termination
from k2k_assets.orchestration.runs.run_heartbeats import Beside, heartbeats_until_copying, run_heartbeats
from k2k_assets.orchestration.runs.run_process import is_there, note_process
from k2k_assets.orchestration.runs.run_tags import note_worked
from k2k_assets.orchestration.runs.run_telemetry import copy_telemetry
from k2k_assets.orchestration.runs.watched_copy import ProgressLog, newest_progress, watched
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.extent import Continuous, UntilCaughtUp, Window
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets.status.latency import CommitLatency
from k2k_assets.status.waiting_records import WaitingRecords
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


def copied_by_others(
    context: dg.AssetExecutionContext, pipeline: Pipeline, topics: Set[str]
) -> Mapping[str, FollowedTopic]:
    """Those of some topics that somebody copies without end: copying them here would only interrupt that.

    Args:
        context: Of the run; how far they have come is logged there.
        pipeline: The pipeline.
        topics: Source topics.
    """

    def lives(run_id: str) -> bool:
        run = context.instance.get_run_by_id(run_id)
        return run is not None and not run.is_finished and is_there(run)

    with failures_as_messages(), both_clusters(pipeline) as (source, target):
        there = topics & source.topics().keys()
        followed = followed_topics(pipeline, source, target, there, lives) if there else {}
    for topic, copy in sorted(followed.items()):
        at = ", ".join(f"{n}: {position}" for n, position in sorted(copy.positions.items()))
        what = f"{copy.paused}, and nothing of it is copied" if copy.paused else f"being copied by {copy.copied_by}"
        context.log.info(f"{topic} is {what}; positions {at}, lag {copy.lag}")
    return followed


def cannot_be_copied(pipeline: Pipeline, wanted: Set[str]) -> Mapping[str, Stops]:
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


def copy_once(
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


def _extent(pipeline: Pipeline, config: CopyConfig) -> UntilCaughtUp | Window:
    if config.extent is ExtentChoice.caught_up:
        return UntilCaughtUp()
    window, idle = config.window_seconds, config.idle_seconds
    return Window(
        duration=pipeline.sync.window if window is None else timedelta(seconds=window),
        idle=pipeline.sync.idle if idle is None else timedelta(seconds=idle),
    )


def _in_words(extent: UntilCaughtUp | Window) -> str:
    if isinstance(extent, UntilCaughtUp):
        return "until all that is there now is copied"
    longest, idle = duration(extent.duration.total_seconds()), duration(extent.idle.total_seconds())
    return f"for {longest}, or until nothing comes for {idle}"


@contextmanager
def alive_until_copying(context: dg.AssetExecutionContext, pipeline: Pipeline, config: CopyConfig) -> Iterator[Beside]:
    """Lets the sensor know that a run which it waits for lives, from its first line on; does nothing in other runs.

    It waits for runs without end, and for all of the sync job, which somebody may launch with another config. Slots of
    a copy with an end are none of the instances that the sensor looks for, so that run writes heartbeats to its end.

    Yields:
        Wraps the listener of the copy.
    """
    is_endless = config.extent is ExtentChoice.continuous
    if not is_endless and SYNC_TAG not in context.run.tags:
        yield lambda listener: listener
        return
    note_process(context)
    if is_endless:
        with heartbeats_until_copying(pipeline, context.run_id) as beside:
            yield beside
    else:
        with run_heartbeats(pipeline, context.run_id):
            yield lambda listener: listener


def copy_without_end(
    context: dg.AssetExecutionContext,
    pipeline: Pipeline,
    names: AssetNames,
    config: CopyConfig,
    shown: Collection[str],
    alive: Beside,
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
        limit, interval = pipeline.sync.freshness, pipeline.checks.interval.total_seconds()
        freshness = None
        if limit is not None:
            freshness = FreshnessReports(
                names, limit.total_seconds(), interval, lambda parts: lags_of(parts, waiting.oldest), verdicts
            )
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
            works=lambda: note_worked(context),
            settings=SettingsReports(
                names,
                interval,
                check=lambda topics: check_topic_settings(pipeline, source, target, topics),
                verdicts=verdicts,
                log=context.log.info,
            ),
            freshness=freshness,
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
                    listener=alive(telemetry.beside(listener)),
                    run=context.run_id,
                    reports=telemetry.reports,
                ),
                run,
                newest_progress,
            )
        context.log.info(run.ending())
