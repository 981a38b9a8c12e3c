"""The offset mappings: a PySpark job updates the index of merged offset ranges."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from k2k_assets.core.digest import digest
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index.manifest import Manifest
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.orchestration.runs.run_heartbeats import run_heartbeats
from k2k_assets.orchestration.runs.run_process import note_process
from k2k_assets.pipeline import Pipeline

if TYPE_CHECKING:
    from k2k_assets.mapping.index import MappingIndex

_COLUMNS = {
    "topic": "string",
    "partition": "int",
    "covered from": "int",
    "covered to": "int",
    "source topic id": "string",
}


_SEGMENT_COLUMNS = {
    "segment": "string",
    "offset ranges": "int",
    "mapped records": "int",
    "since": "string",
    "until": "string",
}
_PRUNED_COLUMNS = {"topic": "string", "partition": "int", "answers from": "int", "source topic id": "string"}


def offset_mappings_asset(pipeline: Pipeline, names: AssetNames) -> dg.AssetsDefinition:
    """The asset, which depends on the commit log, which depends on the topics."""

    @dg.multi_asset(
        name=names.op("offset_mappings"),
        outs={
            "offset_mappings": dg.AssetOut(
                key=names.offset_mappings_key,
                dagster_type=dg.Nothing,
                description="The target offset of each source offset: the merged offset ranges of "
                f"`{pipeline.offset_mapping.topic}` as Parquet.",
                kinds={"pyspark", "parquet"},
            )
        },
        ins={"commit_log": dg.AssetIn(key=names.commit_log_key, dagster_type=dg.Nothing)},
        group_name=names.offsets_group,
        required_resource_keys={names.resource},
    )
    @interruptible
    def offset_mappings(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        # Imported here because of pyarrow, which a run that copies does not need.
        from k2k_assets.mapping.index import update_index

        if context.job_name == names.mappings_job:
            note_process(context)
        alive = run_heartbeats(pipeline, context.run_id)
        with failures_as_messages(), alive, both_clusters(pipeline) as (source, target):
            spark = getattr(context.resources, names.resource).session()
            index = update_index(spark, pipeline, source, target)
        columns = ("topic", "partition", "covered_from", "covered_to", "source_topic_id")
        coverage = index.coverage(spark).select(*columns).orderBy(*columns).limit(keys.MOST_ROWS).collect()
        return dg.MaterializeResult(
            metadata=index_metadata(index, [tuple(row) for row in coverage]),
            data_version=dg.DataVersion(mappings_version(index.manifest)),
        )

    return offset_mappings


def mappings_version(manifest: Manifest) -> str:
    """The data version of the mappings, which changes when earlier answers may be wrong.

    New mappings change no answer. Lost mappings do, and so does an index of other clusters' topics.

    Args:
        manifest: Manifest of the index.
    """
    identity = [manifest.source_cluster, [lost.model_dump(mode="json") for lost in manifest.lost]]
    identity.append(list(manifest.earlier_topics))
    return digest(json.dumps(identity, sort_keys=True))


def index_metadata(index: "MappingIndex", coverage: list[tuple[keys.Cell, ...]]) -> keys.Metadata:
    """The metadata of an index.

    Args:
        index: The index.
        coverage: Rows of the coverage table.
    """
    manifest = index.manifest
    return {
        keys.OFFSET_RANGES: manifest.runs,
        keys.MAPPED: manifest.mapped,
        keys.COMPRESSION: round(manifest.mapped / manifest.runs, 2) if manifest.runs else 0.0,
        keys.COVERAGE: keys.table(_COLUMNS, coverage),
        keys.SEGMENTS: keys.table(_SEGMENT_COLUMNS, _segments(manifest)),
        keys.PRUNED: keys.table(_PRUNED_COLUMNS, _pruned(manifest)),
        keys.LOST: len(manifest.lost),
        keys.INDEX_VERSION: manifest.directory,
        keys.INDEX_PATH: dg.MetadataValue.path(str(index.root)),
    }


def _segments(manifest: Manifest) -> Iterator[tuple[keys.Cell, ...]]:
    for segment in manifest.segments:
        yield segment.name, segment.runs, segment.mapped, keys.instant(segment.since), keys.instant(segment.until)


def _pruned(manifest: Manifest) -> Iterator[tuple[keys.Cell, ...]]:
    for note in manifest.pruned:
        yield note.topic, note.partition, note.before, note.source_topic_id
