"""The commit log in Dagster where a `k2k start` copies: a materialization from what the sensor has read."""

from __future__ import annotations

import dagster as dg

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.commit_log import commit_log_metadata, commit_log_version
from k2k_assets.orchestration.assets.data_versions import current_versions, provenance_tags
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.observation import Observation
from k2k_assets.status.lag import PartitionLag
from k2k_assets.status.positions import positions_of


def commit_log_report(
    instance: dg.DagsterInstance, names: AssetNames, seen: Observation, copied_by: str
) -> dg.AssetMaterialization:
    """The materialization, made from the topics as they were reported last.

    Args:
        instance: Dagster's instance.
        names: The pipeline's names.
        seen: The clusters.
        copied_by: Who copies.
    """
    ends = {TopicPartition(topic, n): end for topic, of in seen.ends.items() for n, end in enumerate(of)}
    at = {tp: record.position for tp, record in seen.log.positions.items()}
    lags = {tp: PartitionLag(position, ends.get(tp), None) for tp, position in at.items()}
    rows = positions_of(seen.log.positions, lags)
    metadata = commit_log_metadata(rows, seen.log.stopped_without_position, keys.MOST_ROWS_AGAIN)
    if metadata[keys.LAG]:
        # It would be that of the partitions without lag: the sensor reads no records, which would tell.
        metadata.pop(keys.SECONDS_BEHIND, None)
    inputs = current_versions(instance, [names.topic_key(topic) for topic in seen.topics])
    return dg.AssetMaterialization(
        names.commit_log_key,
        metadata={**metadata, keys.COPIED_BY: copied_by},
        tags=provenance_tags(commit_log_version(rows), None, inputs),
    )
