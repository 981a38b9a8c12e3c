"""The commit log: how far each source partition has been copied, by whom, and how long ago."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import time

import dagster as dg

from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.core.stops.reason import render
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline

_COLUMNS = {
    "topic": "string",
    "partition": "int",
    "position": "int",
    "target topic": "string",
    "target end": "int",
    "kind": "string",
    "committed": "string",
    "age seconds": "float",
    "owner": "string",
    "stop code": "string",
    "stopped": "string",
}


def commit_log_asset(pipeline: Pipeline, names: AssetNames, upstream: dict[str, dg.AssetIn]) -> dg.AssetsDefinition:
    """The asset.

    Args:
        pipeline: Whose commit log.
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
                f"`{pipeline.coordination.commit.topic}`.",
                kinds={"kafka"},
            )
        },
        ins=upstream,
        group_name=names.offsets_group,
    )
    def commit_log(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with failures_as_messages(), both_clusters(pipeline) as (source, target):
            log = read_commit_log(pipeline, source.cluster_id(), target)
        return dg.MaterializeResult(metadata=commit_log_metadata(log, int(time.time() * 1000)))

    return commit_log


def commit_log_metadata(log: CommitLog, now: int) -> keys.Metadata:
    """What is shown of a commit log.

    Args:
        log: What was read.
        now: Milliseconds since the epoch.
    """
    records = [record for _, record in sorted(log.positions.items())]
    rows = (
        (
            record.source.topic,
            record.source.partition,
            record.position,
            record.target_topic,
            record.target_end,
            record.kind,
            keys.instant(record.time),
            max(0, now - record.time) / 1000,
            f"generation {record.generation}, slot {record.slot}",
            *(("", "") if record.reason is None else (record.reason.code, render(record.reason))),
        )
        for record in records
    )
    return {
        keys.PARTITIONS: len(records),
        keys.TOPICS: len({record.source.topic for record in records}),
        keys.STOPPED: sum(record.reason is not None for record in records) + len(log.unreadable),
        keys.POSITIONS: keys.table(_COLUMNS, rows),
    }
