"""The replication sensor: asks for a window-bounded run of the topics that lag, one run at a time per pipeline.

It reads no records of topics and starts no JVM; the run does the work and copies for `sync.window`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from k2k_assets.coordination.presence import heartbeat_timeout_seconds
from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.checks.topic_checks import evaluations, topic_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.observation import Observation, observe
from k2k_assets.orchestration.sensors.run_decision import Cursor, RunDecision, SensorFacts, decide_run
from k2k_assets.orchestration.sensors.run_history import last_run, running
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement

SENSORS_VARIABLE = "K2K_SENSORS"
INTERVAL_SECONDS = 10
_DATA_VERSION = "dagster/data_version"


def default_status() -> dg.DefaultSensorStatus:
    """Whether sensors run without being switched on by hand: `K2K_SENSORS=running`."""
    running = os.environ.get(SENSORS_VARIABLE, "").strip().lower() == "running"
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def replication_sensor(
    pipeline: Pipeline, names: AssetNames, job: dg.UnresolvedAssetJobDefinition, first: bool
) -> dg.SensorDefinition:
    """The sensor of a pipeline.

    Args:
        pipeline: What to watch.
        names: Its names.
        job: The job that the runs are of.
        first: Whether its file is the first of its folder; then the sensor is named `k2k_replication_sensor`.
    """

    @dg.sensor(
        name=names.sensor(first),
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Keeps pipeline {pipeline.name} copying: {pipeline.selection.describe()}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        looked = time.time()
        try:
            seen = observe(pipeline)
        except K2KError as error:
            return dg.SkipReason(str(error))
        before = Cursor.read(context.cursor)
        shown = frozenset(key for key in shown_assets(context, names) if not names.is_consumer_group(key))
        decision = decide_run(_facts(context.instance, pipeline, names, looked, seen, shown), before)
        # Failed ones only: nothing of a new topic is committed yet, which is a doubt and no stop.
        verdicts = {topic: check_copies_on(topic, seen.log) for topic in seen.ends}
        stopped = {topic: v.summary for topic, v in verdicts.items() if v.judgement is Judgement.FAILED}
        events: list[dg.AssetObservation | dg.AssetCheckEvaluation]
        events = [*_moved(names, before, seen), *_turned(names, before.stopped, stopped, seen, shown)]
        cursor = decision.cursor.model_copy(update={"stopped": stopped})
        return _result(pipeline, names, decision.model_copy(update={"cursor": cursor}), events, seen, shown)

    return sensor


def _result(
    pipeline: Pipeline,
    names: AssetNames,
    decision: RunDecision,
    events: Sequence[dg.AssetObservation | dg.AssetCheckEvaluation],
    seen: Observation,
    shown: frozenset[dg.AssetKey],
) -> dg.SensorResult:
    cursor = decision.cursor.model_dump_json()
    if decision.run_key is None:
        return dg.SensorResult(skip_reason=decision.reason, cursor=cursor, asset_events=events)
    known = [topic for topic in decision.topics if names.topic_key(topic) in shown]
    selection = [names.topic_key(topic) for topic in known]
    config = {}
    if decision.topics and not known:
        selection = _standing_in(pipeline, names, seen, shown)
    if decision.topics:
        also = [topic for topic in decision.topics if topic not in known]
        config = {"ops": {names.op("topics"): {"config": {"also": also}}}} if also else {}
    keep = [names.commit_log_key, *([names.offset_mappings_key] if pipeline.features.offset_mapping else [])]
    request = dg.RunRequest(
        run_key=decision.run_key, asset_selection=[*selection, *keep], run_config=config, tags=names.tags
    )
    return dg.SensorResult(run_requests=[request], cursor=cursor, asset_events=events)


def _standing_in(
    pipeline: Pipeline, names: AssetNames, seen: Observation, shown: frozenset[dg.AssetKey]
) -> list[dg.AssetKey]:
    """The assets through which topics are copied that have none yet: those of today's definitions.

    Not of topics that are gone on the source, which would fail the run; only where nothing else is shown, as some
    asset must be asked for.
    """
    undiscovered = names.undiscovered_key(pipeline.selection.pattern or "")
    there = {names.topic_key(topic) for topic in seen.ends} | {undiscovered}
    topics = sorted(key for key in shown if len(key.path) == 3 and key.path[1] == "topics")
    return [key for key in topics if key in there] or topics


def _facts(
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    names: AssetNames,
    looked: float,
    seen: Observation,
    shown: frozenset[dg.AssetKey],
) -> SensorFacts:
    last = last_run(instance, names.tags)
    return SensorFacts(
        looked=looked,
        now=time.time(),
        ends=seen.ends,
        positions=seen.positions,
        mappings=seen.mappings,
        running=running(instance, names.tags, shown, besides={}),
        last_run=last.run_id,
        last_ended=last.ended,
        instances=seen.instances,
        heartbeat_timeout=heartbeat_timeout_seconds(pipeline),
    )


def shown_assets(context: dg.SensorEvaluationContext, names: AssetNames) -> frozenset[dg.AssetKey]:
    """The assets of the pipeline that the loaded definitions can materialize."""
    definition = context.repository_def
    graph = definition.asset_graph if definition else None
    if graph is None:
        return frozenset()
    return frozenset(key for key in graph.materializable_asset_keys if key.path[0] == names.commit_log_key.path[0])


def _turned(
    names: AssetNames,
    before: Mapping[str, str],
    now: Mapping[str, str],
    seen: Observation,
    shown: frozenset[dg.AssetKey],
) -> Iterable[dg.AssetCheckEvaluation]:
    """The verdict on each topic that was stopped, or was let go on, since the last tick; also by `k2k start`."""
    turned = [topic for topic in sorted({*before, *now}) if before.get(topic) != now.get(topic)]
    keys = topic_check_keys(names, [topic for topic in seen.ends if names.topic_key(topic) in shown])
    return evaluations(keys, {topic: check_copies_on(topic, seen.log) for topic in turned})


def _moved(names: AssetNames, before: Cursor, seen: Observation) -> Iterable[dg.AssetObservation]:
    """An observation for each source topic whose end offsets moved since the last tick."""
    for topic, ends in seen.ends.items():
        if before.ends.get(topic) != ends:
            version = ",".join(map(str, ends))
            yield dg.AssetObservation(
                names.source_key(topic),
                metadata={
                    keys.PARTITIONS: len(ends),
                    keys.END_OFFSETS: keys.table({"partition": "int", "end": "int"}, enumerate(ends)),
                },
                tags={_DATA_VERSION: version},
            )
