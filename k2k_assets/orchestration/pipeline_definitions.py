"""The definitions of one pipeline: assets, checks, jobs, sensors, the resource.

Each of its own jobs runs in one process, because a run then needs only one JVM. The definitions set no executor for
other jobs, which belong to the surrounding project.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import dagster as dg

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.assets.commit_log import commit_log_asset
from k2k_assets.orchestration.assets.groups.consumer_groups import consumer_group_assets
from k2k_assets.orchestration.assets.groups.group_positions import group_positions_asset
from k2k_assets.orchestration.assets.offset_mappings import offset_mappings_asset
from k2k_assets.orchestration.assets.shown import ShownTopic, shown_groups, shown_topics
from k2k_assets.orchestration.assets.topics.replicated_topics import topic_assets
from k2k_assets.orchestration.assets.topics.sources import source_assets
from k2k_assets.orchestration.catalog import Catalog
from k2k_assets.orchestration.checks.asset_checks import mapping_checks
from k2k_assets.orchestration.checks.topic_checks import topic_checks
from k2k_assets.orchestration.hooks import DEFAULT, AssetKind, AssetProps, Hooks
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.run_tags import asked_for_by_sensor
from k2k_assets.orchestration.sensors.offset_sensor import offset_sync_sensor
from k2k_assets.orchestration.sensors.replication_sensor import replication_sensor
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.spark_settings import spark_conf


def pipeline_definitions(
    pipeline: Pipeline, discovery: Discovery | None, hooks: Hooks = DEFAULT, clock: Clock = SYSTEM_CLOCK
) -> dg.Definitions:
    """The definitions of a pipeline.

    Args:
        pipeline: The pipeline.
        discovery: Topics and groups on the clusters; None before the first discovery.
        hooks: Changes of the project.
        clock: Clock of the sensors.
    """
    names = AssetNames(pipeline.name)
    topics, shown = shown_topics(pipeline, discovery), shown_groups(pipeline, discovery)
    replicated = topic_assets(pipeline, names, topics, hooks)
    # Each topic has an input with an escaped name, because Dagster's default is the same for `a.b` and `a-b`.
    upstream = {
        names.topic_input(key.path[-1]): dg.AssetIn(key=key, dagster_type=dg.Nothing) for key in replicated.keys
    }
    assets = [replicated, commit_log_asset(pipeline, names, upstream)]
    checks = topic_checks(pipeline, names, [topic.name for topic in topics])
    groups: list[dg.AssetsDefinition] = []
    if pipeline.features.offset_mapping:
        assets += [offset_mappings_asset(pipeline, names), group_positions_asset(pipeline, names)]
        checks.append(mapping_checks(pipeline, names))
        groups.append(consumer_group_assets(pipeline, names, shown))
    assets.extend(groups)
    job = dg.define_asset_job(
        names.job,
        selection=dg.AssetSelection.assets(*assets),
        description=f"Copies {pipeline.selection.describe()}, updates the commit log and the offset mappings, checks "
        "them, and moves the consumer groups.",
        tags=names.tags,
        executor_def=dg.in_process_executor,
    )
    syncing = dg.define_asset_job(
        names.sync_job,
        selection=dg.AssetSelection.assets(replicated).without_checks(),
        description=f"Copies {pipeline.selection.describe()} until its next run takes over, and reports meanwhile. The "
        "replication sensor requests it.",
        tags=asked_for_by_sensor(names.sync_tags),
        config={"ops": {names.op("topics"): {"config": {"extent": "continuous"}}}},
        executor_def=dg.in_process_executor,
    )
    jobs, sensors = [job, syncing], []
    if pipeline.features.offset_mapping:
        jobs.append(
            dg.define_asset_job(
                names.mappings_job,
                selection=dg.AssetSelection.assets(names.offset_mappings_key),
                description="Updates the offset mappings, and checks them.",
                tags=asked_for_by_sensor(names.mappings_tags),
                executor_def=dg.in_process_executor,
            )
        )
    sensors.append(replication_sensor(pipeline, names, jobs[1:], clock))
    if groups:
        moving = dg.define_asset_job(
            names.offset_sync_job,
            selection=dg.AssetSelection.assets(*groups[0].keys).without_checks(),
            description="Moves the consumer groups until its next run takes over, and reports meanwhile. The offset "
            "sync sensor requests it.",
            tags=asked_for_by_sensor(names.offset_sync_tags),
            config={"ops": {names.op("consumer_groups"): {"config": {"extent": "continuous"}}}},
            executor_def=dg.in_process_executor,
        )
        jobs.append(moving)
        sensors.append(offset_sync_sensor(pipeline, names, moving, clock))
    # Not a configured resource, because its settings may contain secrets and Dagster's UI shows configuration.
    spark = dg.ResourceDefinition.hardcoded_resource(PipelineSparkResource(spark_config=spark_conf(pipeline)))
    with warnings.catch_warnings():
        # A beta feature for years; Dagster is pinned to a minor release.
        for used in ("multi_observable_source_asset", "CodeReference"):
            warnings.filterwarnings("ignore", category=dg.BetaWarning, message=f".*{used}.*")
        sources = source_assets(pipeline, names, topics)
        catalog = Catalog(pipeline, discovery)
    looks = _looks(pipeline, names, topics, shown, hooks)
    return dg.Definitions(
        assets=[catalog.describe(asset).map_asset_specs(looks) for asset in [*sources, *assets]],
        asset_checks=checks,
        jobs=jobs,
        sensors=sensors,
        resources={names.resource: spark},
    )


def _looks(
    pipeline: Pipeline, names: AssetNames, topics: list[ShownTopic], groups: list[str], hooks: Hooks
) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
    """The hooks' function for asset specs."""
    kinds: dict[dg.AssetKey, tuple[AssetKind, str]] = {
        names.commit_log_key: ("commit_log", ""),
        names.offset_mappings_key: ("offset_mappings", ""),
        names.group_positions_key: ("group_positions", ""),
        names.undiscovered_key(pipeline.selection.pattern or ""): ("topic", pipeline.selection.pattern or ""),
    }
    for topic in topics:
        kinds[names.source_key(topic.name)] = "source", topic.name
        kinds[names.topic_key(topic.name)] = "topic", topic.name
    pattern = str(pipeline.groups.consumer_groups)
    kinds[names.undiscovered_groups_key(pattern)] = "consumer_group", pattern
    for group in groups:
        kinds[names.consumer_group_key(group)] = "consumer_group", group

    def look(spec: dg.AssetSpec) -> dg.AssetSpec:
        kind, name = kinds[spec.key]
        return hooks.asset_spec(AssetProps(pipeline.name, kind, name, spec))

    return look
