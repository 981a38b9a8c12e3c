"""The positions of all consumer groups, as one table: where each stands on the source, and belongs on the target."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import dagster as dg

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.group_results import positions_metadata, positions_version
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.interruption import interruptible
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline

# Type and meaning of each column of the table, as Dagster shows them.
_COLUMNS = {
    "group": ("string", "The consumer group."),
    "target_topic": ("string", "Where its source partition is copied to."),
    "target_partition": ("int", "Target partition."),
    "target_offset": ("int", "Next offset to read there; empty if the mappings have no answer."),
    "left_on_target": ("int", "Offsets left to read there."),
    "state": ("string", "What is said of the position: exact, ahead, waiting, unknown, active, ..."),
    "source_topic": ("string", "Source topic."),
    "source_partition": ("int", "Source partition."),
    "source_offset": ("int", "Next offset to read there."),
    "left_on_source": ("int", "Offsets left to read there."),
}


def group_positions_asset(pipeline: Pipeline, names: AssetNames) -> dg.AssetsDefinition:
    """The asset: it looks where groups belong, and moves none."""

    @dg.multi_asset(
        name=names.op("group_positions"),
        outs={
            "group_positions": dg.AssetOut(
                key=names.group_positions_key,
                dagster_type=dg.Nothing,
                description="Where each consumer group stands on the source, and belongs on the target: a row for each "
                "position. Nothing is moved by it.",
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
        # With pandera, which a run that moves groups has no use for.
        from k2k_assets.orchestration.assets.group_sync import look_at_groups
        from k2k_assets.tables.group_positions import group_positions, write_group_positions

        with failures_as_messages():
            result = look_at_groups(pipeline)
            spark = getattr(context.resources, names.resource).session()
            table = write_group_positions(spark, pipeline, group_positions(result))
        return dg.MaterializeResult(
            metadata={**positions_metadata(result), keys.TABLE_PATH: dg.MetadataValue.path(str(table))},
            data_version=dg.DataVersion(positions_version(result)),
        )

    return positions
