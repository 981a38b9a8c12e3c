"""The replication sensor: keeps one run of the sync job copying, and the offset mappings up to date beside it.

It starts no JVM, and reads records of topics only for `sync.freshness`. Where a `k2k start` copies, it asks for no run,
and reports the progress of that as materializations of the same assets.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import dagster as dg

from k2k_assets.coordination.liveness import LastSign, last_signs_of_runs
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.digest import digest
from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import version_of
from k2k_assets.orchestration.assets.topics.topic_report import topic_report
from k2k_assets.orchestration.checks.asset_checks import mappings_of
from k2k_assets.orchestration.checks.evaluations import evaluations, newest_materializations, not_given
from k2k_assets.orchestration.checks.last_verdicts import why_unproven
from k2k_assets.orchestration.checks.topic_checks import topic_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.report_schedule import FEWEST_AT_ONCE, report_interval, run_window
from k2k_assets.orchestration.runs.run_heartbeats import SILENT_SECONDS
from k2k_assets.orchestration.runs.run_tags import window_tags
from k2k_assets.orchestration.sensors.commit_log_report import commit_log_report
from k2k_assets.orchestration.sensors.lateness import doubts, lateness_events
from k2k_assets.orchestration.sensors.mappings_decision import (
    MappingsFacts,
    decide_mappings,
    lacks_partitions,
    silent_runs,
)
from k2k_assets.orchestration.sensors.marks import Marks
from k2k_assets.orchestration.sensors.next_run_decision import SyncCursor, SyncDecision, decide_sync
from k2k_assets.orchestration.sensors.observation import Observation, observe
from k2k_assets.orchestration.sensors.run_history import last_run, running, started
from k2k_assets.orchestration.sensors.shown_assets import show_anew, shown_assets
from k2k_assets.orchestration.sensors.sync_history import report_dead, sync_facts, sync_runs
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.source_looks import LooksByPartition
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement

SENSORS_VARIABLE = "K2K_SENSORS"
INTERVAL_SECONDS = 10
# In the place of a position: so a stop is something to report.
_STOPPED = -1
# Topics that a tick tells of: Dagster's daemon writes all its events before it goes on.
_MOST_AT_ONCE = 25

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def default_status() -> dg.DefaultSensorStatus:
    """Whether sensors run without being switched on by hand: `K2K_SENSORS=running`."""
    running = os.environ.get(SENSORS_VARIABLE, "").strip().lower() == "running"
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def replication_sensor(
    pipeline: Pipeline,
    names: AssetNames,
    jobs: Sequence[dg.UnresolvedAssetJobDefinition],
    clock: Clock = SYSTEM_CLOCK,
) -> dg.SensorDefinition:
    """The sensor of a pipeline.

    Args:
        pipeline: What to watch.
        names: Its names.
        jobs: The sync job, and that of the mappings where the pipeline has any.
        clock: Tells how long an instance has been silent, and what is due.
    """
    looks = LooksByPartition()  # of the code server: after its restart the first tick goes by timestamps alone

    @dg.sensor(
        name=names.sensor,
        jobs=jobs,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=default_status(),
        description=f"Keeps pipeline {pipeline.name} copying: {pipeline.selection.describe()}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        looked = clock.time()
        before = SyncCursor.read(context.cursor)
        try:
            seen = observe(pipeline)
        except K2KError as error:
            cursor = before.model_copy(update={"missed": True})
            return dg.SensorResult(
                skip_reason=str(error),
                cursor=cursor.model_dump_json(),
                asset_events=list(_doubts(context, pipeline, names, looked - (before.looked or looked), looked)),
            )
        nothing_to_do = "" if seen.ends else "no topic of the source is selected"
        look = looked, clock.time()
        facts = sync_facts(context, pipeline, names.sync_tags, look, nothing_to_do, seen.instances, seen.runs)
        decision = decide_sync(facts, before.heard_until(looked, facts.heartbeat_timeout))
        report_dead(context.instance, decision.dead)
        shown = shown_assets(context, names)
        runs: dict[str, LastSign] = {}
        silent: set[str] = set()
        if seen.mappings is not None:
            updating, gone = started(context.instance, names.mappings_tags, look[1])
            runs = last_signs_of_runs(updating, seen.runs, before.heard_until(looked, SILENT_SECONDS), look[1])
            silent = silent_runs(runs, looked, SILENT_SECONDS) | gone
        report_dead(context.instance, silent)
        cursor = before.model_copy(update={"heard": {**runs, **decision.heard}, "looked": look[1], "missed": False})
        events: list[Event] = []
        due: list[str] = []
        if decision.others:
            if cursor.log_is_due:  # in a tick of its own, because both take time where topics are many
                events.append(commit_log_report(context.instance, names, seen, decision.others))
                cursor = cursor.model_copy(update={"log_is_due": False})
            else:
                positions = _positions(seen, names, shown)
                cursor, due = _due(pipeline, seen, positions, cursor, clock.time())
                events += _reports(pipeline, names, seen, positions, decision.others, due)
        if not decision.run_reports:
            # A run that dies, or is terminated, may not have told all: then it is told here.
            cursor, verdicts = _verdicts(context.instance, names, seen, shown, cursor, due)
            events += verdicts
            events += lateness_events(
                context.instance,
                pipeline,
                names,
                seen,
                shown,
                _MOST_AT_ONCE,
                looks,
                is_materialized=bool(decision.others),
            )
        reloads = show_anew(context, names, seen.found, shown, before.reloads, clock.time())
        cursor = cursor.model_copy(update={"reloads": reloads})
        asked = _mappings_request(context.instance, pipeline, names, seen, clock, silent)
        requests = [*_sync_request(pipeline, names, seen, decision), *asked]
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else decision.reason,
            cursor=cursor.model_dump_json(),
            asset_events=events,
        )

    return sensor


def _doubts(
    context: dg.SensorEvaluationContext, pipeline: Pipeline, names: AssetNames, unseen: float, now: float
) -> Iterable[Event]:
    """What is said while the clusters cannot be observed; nothing where a run copies, which says more."""
    active, _ = sync_runs(context.instance, names.sync_tags, now)
    if any(not run.waits and not run.gone for run in active):
        return ()
    return doubts(context.instance, pipeline, names, unseen, shown_assets(context, names), _MOST_AT_ONCE)


def _sync_request(
    pipeline: Pipeline, names: AssetNames, seen: Observation, decision: SyncDecision
) -> Iterator[dg.RunRequest]:
    if decision.run_key is None:
        return
    window = run_window(
        pipeline.sync.window.total_seconds(), pipeline.sync.reports_per_day, map(len, seen.ends.values())
    )
    yield staying_run(pipeline, decision.run_key, names.sync_job, names.sync_tags, names.op("topics"), window)


def staying_run(
    pipeline: Pipeline, run_key: str, job: str, tags: Mapping[str, str], op: str, window: float
) -> dg.RunRequest:
    """The request of a run that stays until the next one takes over.

    Args:
        pipeline: Whose.
        run_key: Its key.
        job: Its job.
        tags: Of the job's runs.
        op: The op of the job.
        window: How long it is to stay, seconds.
    """
    if window <= pipeline.sync.window.total_seconds():
        return dg.RunRequest(run_key=run_key, job_name=job, tags=tags)
    return dg.RunRequest(
        run_key=run_key,
        job_name=job,
        run_config={"ops": {op: {"config": {"extent": "continuous", "window_seconds": round(window)}}}},
        tags={**tags, **window_tags(window)},
    )


def _mappings_request(
    instance: dg.DagsterInstance,
    pipeline: Pipeline,
    names: AssetNames,
    seen: Observation,
    clock: Clock,
    silent: Collection[str],
) -> Iterator[dg.RunRequest]:
    if seen.mappings is None:
        return
    now, last = clock.time(), last_run(instance, names.mappings_tags, silent)
    ended = last.ended
    if last.run_id in silent:
        # It died, and was found now: the next one waits only where those before it have failed, too.
        ended = None if last.failures == 1 else now
    decision = decide_mappings(
        MappingsFacts(
            now=now,
            behind=seen.mappings != seen.positions,
            interval=pipeline.index.interval.total_seconds(),
            unproven=_is_anything_copied(seen) and bool(why_unproven(instance, names, _mappings(pipeline, seen))),
            running=running(instance, names.mappings_tags, [names.offset_mappings_key], clock, silent),
            lacks=lacks_partitions(seen.mappings, seen.positions),
            last_run=last.run_id,
            last_ended=ended,
            last_good=last.good,
            failures=last.failures,
        )
    )
    if decision is not None:
        yield dg.RunRequest(run_key=decision, job_name=names.mappings_job, tags=names.mappings_tags)


def _mappings(pipeline: Pipeline, seen: Observation) -> str:
    return mappings_of(
        pipeline.group, seen.found.source_cluster, seen.found.target_cluster, pipeline.offset_mapping.topic
    )


def _is_anything_copied(seen: Observation) -> bool:
    return any(position is not None for positions in seen.positions.values() for position in positions)


# -- what is reported -------------------------------------------------------------------------------------------------


def _stopped(seen: Observation, names: AssetNames, shown: frozenset[dg.AssetKey]) -> dict[str, str]:
    """What stands for the reason of each topic that is stopped; of one that is not shown yet it is told later.

    Failed ones only: nothing of a new topic is committed yet, which is a doubt and no stop.
    """
    topics, logs = _stopped_topics(seen, names, shown), seen.log.by_topic()
    verdicts = {topic: check_copies_on(topic, logs[topic]) for topic in topics}
    return {topic: digest(v.summary) for topic, v in verdicts.items() if v.judgement is Judgement.FAILED}


def _stopped_topics(seen: Observation, names: AssetNames, shown: frozenset[dg.AssetKey]) -> set[str]:
    """Those that are shown: another pipeline of the group may copy the others."""
    return {topic for topic in {tp.topic for tp in seen.log.stopped} if names.topic_key(topic) in shown}


def _verdicts(
    instance: dg.DagsterInstance,
    names: AssetNames,
    seen: Observation,
    shown: frozenset[dg.AssetKey],
    cursor: SyncCursor,
    reported: Collection[str],
) -> tuple[SyncCursor, Iterator[dg.AssetCheckEvaluation]]:
    """The verdicts on topics that were stopped, or let go on, since they were told of, also by `k2k start`.

    And those on topics that are reported now, where Dagster has none that holds for what is reported.
    """
    stopped, told = _stopped(seen, names, shown), Marks(cursor.stopped)
    turned = [topic for topic in sorted(seen.topics) if not told.are(topic, stopped.get(topic))][:_MOST_AT_ONCE]
    told = told.without(turned).updated({topic: stopped[topic] for topic in turned if topic in stopped})
    cursor = cursor.model_copy(update={"stopped": told.limited_to(seen.topics).packed})
    if not turned and not reported:
        return cursor, iter(())
    checks, logs = topic_check_keys(names, [t for t in seen.topics if names.topic_key(t) in shown]), seen.log.by_topic()
    verdicts = {t: check_copies_on(t, logs[t], paused=seen.paused.get(t)) for t in {*turned, *reported}}
    # Nothing of a topic is committed yet: that passes by itself, and the next report may be far away.
    sure = {t: verdicts[t] for t in reported if t not in turned and verdicts[t].judgement is not Judgement.WARNED}
    new = {t: verdicts[t] for t in turned} | not_given(instance, checks, sure, is_materialized=True)
    targets = newest_materializations(instance, [checks[topic] for topic in new if topic in checks])
    return cursor, evaluations(checks, new, targets=targets)


def _positions(seen: Observation, names: AssetNames, shown: frozenset[dg.AssetKey]) -> dict[str, dict[int, int]]:
    """The position of each partition, 0 where there is none; also of stopped topics that the source holds no more."""
    found = {topic: {n: position or 0 for n, position in enumerate(seen.positions[topic])} for topic in seen.ends}
    logs = seen.log.by_topic()
    for topic in _stopped_topics(seen, names, shown) - seen.ends.keys():
        log = logs[topic]
        found[topic] = {tp.partition: 0 for tp in log.stopped}
        found[topic] |= {tp.partition: record.position for tp, record in log.positions.items()}
    return found


def _due(
    pipeline: Pipeline, seen: Observation, positions: Mapping[str, Mapping[int, int]], cursor: SyncCursor, now: float
) -> tuple[SyncCursor, list[str]]:
    """The topics to report of which `k2k start` has copied something, when it is time; and the cursor that knows it."""
    versions = {
        topic: version_of(
            ((n, _STOPPED if n in seen.out_of_step.get(topic, ()) else offset) for n, offset in at.items()),
            seen.topic_ids.get(topic, ""),
        )
        for topic, at in positions.items()
    }
    versions |= {topic: f"{versions[topic]} paused" for topic in seen.paused.keys() & versions.keys()}
    told = Marks(cursor.reported)
    moved = sorted(topic for topic, version in versions.items() if not told.are(topic, version))
    # Those that were never told of come first, then all take turns.
    due = [topic for topic in moved if not told.knows(topic)][:_MOST_AT_ONCE]
    if not due:
        due = sorted(moved, key=lambda topic: (topic <= cursor.reported_last, topic))[:FEWEST_AT_ONCE]
        moving = [tuple(positions[topic].values()) for topic in due]
        pause = report_interval(pipeline.sync.reports_per_day, moving, len(versions))
        if not due or 0 <= now - cursor.reported_at < pause:
            return cursor, []
    told = told.updated({topic: versions[topic] for topic in due}).limited_to(versions)
    update = {"reported": told.packed, "reported_at": now, "reported_last": due[-1]}
    # Once, not with each of the first ticks, where topics are many.
    update["log_is_due"] = all(map(told.knows, versions))
    return cursor.model_copy(update=update), due


def _reports(
    pipeline: Pipeline,
    names: AssetNames,
    seen: Observation,
    positions: Mapping[str, Mapping[int, int]],
    copied_by: str,
    due: Collection[str],
) -> Iterator[Event]:
    for topic in due:
        # Of a topic that is gone as much is seen as was copied of it.
        ends = {n: max(end, 0) for n, end in enumerate(seen.ends[topic])} if topic in seen.ends else positions[topic]
        metadata: keys.Metadata = {
            keys.TARGET_TOPIC: pipeline.routing.target_if_any(topic) or "",
            keys.COPIED_BY: copied_by,
            keys.LAG: sum(max(0, end - positions[topic].get(n, 0)) for n, end in ends.items()),
        }
        if topic in seen.paused:
            metadata[keys.PAUSED] = str(seen.paused[topic])
        metadata.update(keys.transport_form(seen.form_of(topic)))
        what = names, pipeline.code_version, topic, ends, positions[topic], metadata, seen.topic_ids.get(topic, "")
        yield from topic_report(*what, seen.out_of_step.get(topic, ()))
