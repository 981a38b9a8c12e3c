"""The commit log: how far each source partition is copied, by whom, and how long ago."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Sequence

import dagster as dg

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.words import plural
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import routes_version
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.lag import PartitionLag, total_lag
from k2k_assets.status.lag_reader import read_lags
from k2k_assets.status.positions import PositionRow, positions_of

# Type and description of each column, which Dagster shows.
_COLUMNS = {
    "topic": ("string", "Source topic."),
    "partition": ("int", "Source partition."),
    "position": ("int", "Next source offset to copy."),
    "source_end": ("int", "End offset of the source; empty if unknown."),
    "lag": ("int", "Source offsets between position and source end."),
    "seconds_behind": ("float", "Age of the oldest record that is not copied yet."),
    "target_topic": ("string", "Topic that the records were copied to."),
    "target_end": ("int", "Target offset after the last record copied."),
    "kind": ("string", "Kind of the newest commit record: start, commit, release or override."),
    "committed": ("timestamp", "Time of the newest commit record."),
    "owner": ("string", "Who wrote the newest commit record."),
    "stop_code": ("string", "Code of the reason why the partition is stopped; empty if it is not."),
    "stop_reason": ("string", "Why the partition is stopped, and what to do."),
}


def commit_log_asset(pipeline: Pipeline, names: AssetNames, upstream: dict[str, dg.AssetIn]) -> dg.AssetsDefinition:
    """The asset.

    Args:
        pipeline: The pipeline.
        names: The pipeline's names.
        upstream: The replicated topics, by input name.
    """

    @dg.multi_asset(
        name=names.op("commit_log"),
        outs={
            "commit_log": dg.AssetOut(
                key=names.commit_log_key,
                dagster_type=dg.Nothing,
                description=f"Committed positions of group `{pipeline.group}`, from the target topic "
                f"`{pipeline.coordination.commit.topic}`: a row for each source partition, with its lag.",
                kinds={"kafka", "pyspark", "parquet"},
                metadata=keys.column_schema(_COLUMNS),
            )
        },
        ins=upstream,
        group_name=names.offsets_group,
        required_resource_keys={names.resource},
    )
    @interruptible
    def commit_log(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        # Imported here because of pandera, which a run that copies does not need.
        from k2k_assets.tables.commit_log import write_commit_log

        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            log = read_commit_log(pipeline, source.cluster_id(), target)
            lags = read_lags(pipeline, source, {tp: record.position for tp, record in log.positions.items()})
            positions = positions_of(log.positions, lags)
            table = write_commit_log(getattr(context.resources, names.resource).session(), pipeline, positions)
        metadata = commit_log_metadata(positions, log.stopped_without_position)
        return dg.MaterializeResult(
            metadata={**metadata, keys.TABLE_PATH: dg.MetadataValue.path(str(table))},
            data_version=dg.DataVersion(commit_log_version(positions)),
        )

    return commit_log


def commit_log_version(positions: Sequence[PositionRow]) -> str:
    """The data version of a commit log."""
    return routes_version((p.topic, p.partition, p.target_topic) for p in positions)


def commit_log_metadata(
    positions: Sequence[PositionRow], without_position: int, most: int = keys.MOST_ROWS
) -> keys.Metadata:
    """The metadata of a commit log.

    Args:
        positions: Positions of all partitions.
        without_position: Number of stopped partitions that have no position, or none that can be read.
        most: Most rows of the table: stopped partitions, then those with the most lag.
    """
    lag = total_lag(PartitionLag(p.position, p.source_end, p.seconds_behind) for p in positions)
    worst = max(positions, key=lambda p: (p.seconds_behind or 0.0, p.lag or 0), default=None)
    worst_first = sorted(positions, key=lambda p: (not p.stop_code, -(p.lag or 0), p.topic, p.partition))
    shown = sorted(worst_first[:most], key=lambda p: (not p.stop_code, p.topic, p.partition))
    topics = len({p.topic for p in positions})
    return {
        keys.LAG: lag.offsets,
        **({} if lag.seconds is None else {keys.SECONDS_BEHIND: round(lag.seconds, 3)}),
        keys.WORST: f"{worst.topic}-{worst.partition}" if worst and worst.lag else "none",
        keys.STOPPED: sum(bool(p.stop_code) for p in positions) + without_position,
        keys.PARTITIONS: f"{plural(len(positions), 'partition')} of {plural(topics, 'topic')}",
        keys.POSITIONS: keys.table(
            {name.replace("_", " "): kind for name, (kind, _) in _COLUMNS.items()}, map(_cells, shown)
        ),
    }


def _cells(p: PositionRow) -> tuple[keys.Cell, ...]:
    behind = None if p.seconds_behind is None else round(p.seconds_behind, 3)
    return (
        *(p.topic, p.partition, p.position, p.source_end, p.lag, behind, p.target_topic, p.target_end),
        *(p.kind, keys.instant(p.committed), p.owner, p.stop_code, p.stop_reason),
    )
