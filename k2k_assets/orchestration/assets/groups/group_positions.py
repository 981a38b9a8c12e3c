"""The positions of all consumer groups in one table: on the source, and translated to the target."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import dagster as dg

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.groups.group_results import positions_metadata, positions_version
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.pipeline import Pipeline

# Type and description of each column, which Dagster shows.
_COLUMNS = {
    "group": ("string", "The consumer group."),
    "target_topic": ("string", "Topic that its source partition is copied to."),
    "target_partition": ("int", "Target partition."),
    "target_offset": ("int", "Next offset to read on the target; empty if the mappings have no answer."),
    "left_on_target": ("int", "Offsets left to read on the target."),
    "state": ("string", "State of the position: exact, ahead, waiting, unknown, active, ..."),
    "source_topic": ("string", "Source topic."),
    "source_partition": ("int", "Source partition."),
    "source_offset": ("int", "Next offset to read on the source."),
    "left_on_source": ("int", "Offsets left to read on the source."),
}


def group_positions_asset(pipeline: Pipeline, names: AssetNames) -> dg.AssetsDefinition:
    """The asset, which translates positions and moves no group."""

    @dg.multi_asset(
        name=names.op("group_positions"),
        outs={
            "group_positions": dg.AssetOut(
                key=names.group_positions_key,
                dagster_type=dg.Nothing,
                description="Positions of each consumer group on the source, translated to the target: a row for each "
                "position. It moves no group.",
                kinds={"kafka", "pyspark", "parquet"},
                metadata=keys.column_schema(_COLUMNS),
            )
        },
        ins={"offset_mappings": dg.AssetIn(key=names.offset_mappings_key, dagster_type=dg.Nothing)},
        group_name=names.consumer_groups_group,
        required_resource_keys={names.resource},
    )
    @interruptible
    def positions(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        # Imported here because of pandera, which a run that moves groups does not need.
        from k2k_assets.orchestration.assets.groups.group_sync import observe_groups
        from k2k_assets.tables.group_positions import group_positions, write_group_positions

        with failures_as_messages():
            result = observe_groups(pipeline)
            spark = getattr(context.resources, names.resource).session()
            table = write_group_positions(spark, pipeline, group_positions(result))
        return dg.MaterializeResult(
            metadata={**positions_metadata(result), keys.TABLE_PATH: dg.MetadataValue.path(str(table))},
            data_version=dg.DataVersion(positions_version(result)),
        )

    return positions
