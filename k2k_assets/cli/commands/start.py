"""`k2k start`: replicates until it is stopped, or once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from k2k_assets.cli import logs
from k2k_assets.cli.commands.summary import summary
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.guarantee import guarantee
from k2k_assets.cli.options import pipeline_files, start_options
from k2k_assets.cli.signals import run_aside, stop_on_signals
from k2k_assets.cli.streams import error_console, tell
from k2k_assets.cli.telemetry_extra import telemetry_needed
from k2k_assets.cli.termination_log import failure_written_to
from k2k_assets.core.errors import ClusterUnreachable, K2KError, NotCaughtUp, StoppedWaiting, TopicsStopped
from k2k_assets.core.home import HOME_VARIABLE
from k2k_assets.core.log_fields import note
from k2k_assets.core.stops.reason import render_topic
from k2k_assets.core.this_process import this_process
from k2k_assets.core.words import plural
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets.spark.java_process import kill_java

if TYPE_CHECKING:
    from k2k_assets.replication.driver.first_look import FirstLook
    from k2k_assets.replication.driver.outcome import Outcome
    from k2k_assets.telemetry.exporting import Telemetry

_log = logging.getLogger("k2k.cli")

# Seconds between two attempts to reach clusters that do not answer yet.
_RETRY_SECONDS = 5.0


@click.command(epilog=epilog(), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@click.option(
    "--once", is_flag=True, help="End when everything is copied that was committed on the source at the start."
)
@click.option("--verbose", is_flag=True, help="Also show the whole log of Spark and its JVM.")
@start_options
def start(
    files: tuple[Path, ...],
    once: bool,
    verbose: bool,
    telemetry: bool,
    variables: bool,
    termination_log: Path,
    termination_log_enabled: str,
) -> None:
    """Replicates the topics of a pipeline until SIGINT or SIGTERM, or --once until caught up.

    The first signal ends it after a last commit, with exit code 0, or 6 if --once has not caught up. A second signal
    ends it at once.
    """
    console = error_console()
    logs.configure(console, verbose)
    with failure_written_to(termination_log, termination_log_enabled == "enabled"), stop_on_signals(kill_java) as stop:
        run_aside(_run, files, variables, console, once, verbose, telemetry, stop)


def _run(
    files: Sequence[Path],
    variables: bool,
    console: Console,
    once: bool,
    verbose: bool,
    telemetry: bool,
    stop: threading.Event,
) -> None:
    pipeline = load_pipeline(files, variables=variables)
    note(pipeline=pipeline.name, instance=this_process())
    waits = not (pipeline.features.check_kafka_connection_on_startup or once)
    with ExitStack() as clusters:
        exported = clusters.enter_context(_exporting(pipeline)) if telemetry else None
        look = _await_clusters(pipeline, clusters, stop) if waits else None
        if waits and look is None:
            return
        logs.set_up_jvm(verbose)
        spark = ComingSpark(pipeline)
        try:
            outcome = _replicate(
                spark, look or clusters.enter_context(_looked_at(pipeline)), console, once, stop, exported
            )
        finally:
            spark.stop()
    if outcome is not None:
        tell(summary(pipeline, outcome))
        _raise_for_stopped(outcome)
    if once and stop.is_set():
        _raise_for_the_rest(outcome)


def _exporting(pipeline: Pipeline) -> AbstractContextManager[Telemetry]:
    with telemetry_needed():
        from k2k_assets.telemetry.exporting import exporting
    return exporting(pipeline)


@contextmanager
def _looked_at(pipeline: Pipeline) -> Iterator[FirstLook]:
    """The first look at both clusters, which finds faults at once while Spark starts."""
    # These imports run while Java starts.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.replication.driver.first_look import look_at_clusters

    with both_clusters(pipeline) as (source, target):
        look = look_at_clusters(pipeline, source, target)
        count = plural(len(look.topics), "topic")
        _log.info("pipeline '%s': %s from the %s to the %s", pipeline.name, count, source, target)
        _log.info("delivery: %s", guarantee(pipeline))
        _show_to_dagster(pipeline, look)
        yield look


def _show_to_dagster(pipeline: Pipeline, look: FirstLook) -> None:
    """Lets Dagster's definitions show the present topics; an error here does not stop the copy."""
    from k2k_assets.discovery import remember_topics

    try:
        if not remember_topics(pipeline, look.topics, look.source_id, look.target_id):
            # No warning, because neither pipeline has a fault.
            _log.info("Dagster does not show it: a pipeline of that name on other clusters is remembered")
    except (K2KError, OSError) as error:
        advice = f"; {HOME_VARIABLE} names another directory" if isinstance(error, OSError) else ""
        _log.warning("Dagster does not show it: what was discovered cannot be remembered (%s)%s", error, advice)


def _await_clusters(pipeline: Pipeline, clusters: ExitStack, stop: threading.Event) -> FirstLook | None:
    """Waits until both clusters answer; None if a signal stops it before."""
    while not stop.is_set():
        try:
            return clusters.enter_context(_looked_at(pipeline))
        except ClusterUnreachable as silent:
            _log.warning("%s Waiting (features.checkKafkaConnectionOnStartup is disabled)", silent)
            stop.wait(_RETRY_SECONDS)
    return None


def _replicate(
    spark: ComingSpark,
    look: FirstLook,
    console: Console,
    once: bool,
    stop: threading.Event,
    exported: Telemetry | None,
) -> Outcome | None:
    """Runs the engine; None if it was stopped before it began."""
    from k2k_assets.cli.commands.progress import shown
    from k2k_assets.replication.driver.events import on_progress, to_all
    from k2k_assets.replication.extent import Continuous, UntilCaughtUp

    if stop.is_set():
        return None
    with shown(console) as observer:
        extent = UntilCaughtUp() if once else Continuous()
        listeners = [on_progress(observer), *([exported.listener] if exported else [])]
        reports = exported.reports if exported else None
        try:
            return spark.replicate(extent, look=look, stop=stop, listener=to_all(*listeners), reports=reports)
        except StoppedWaiting as stopped:
            _log.info("%s", stopped)
            return None


def _raise_for_stopped(outcome: Outcome) -> None:
    if outcome.stopped:
        reasons = "".join(f"\n  {name}: {render_topic(name, stops)}" for name, stops in sorted(outcome.stopped.items()))
        raise TopicsStopped(f"{len(outcome.stopped)} of {plural(len(outcome.topics), 'topic')} stopped:{reasons}")


def _raise_for_the_rest(outcome: Outcome | None) -> None:
    """Raises if a signal stopped a run with an end before it had copied everything."""
    again = "start it again before anything relies on the copy"
    if outcome is None:
        raise NotCaughtUp(f"stopped by a signal before the copy began; {again}")
    topics = [topic for topic in outcome.topics.values() if topic.paused is None]
    if lag := sum(topic.lag for topic in topics):
        raise NotCaughtUp(f"stopped by a signal before it had caught up: lag {lag:,}; {again}")
    ends_known = [partition.is_end_known for topic in topics for partition in topic.partitions.values()]
    if not all(ends_known) or not (ends_known or outcome.topics):
        raise NotCaughtUp(f"stopped by a signal before it was known how much there is to copy; {again}")
