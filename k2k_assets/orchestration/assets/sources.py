"""The source topics as external assets: Dagster knows of them, nobody here makes them."""

from __future__ import annotations

import dagster as dg

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.shown import ShownTopic
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline


def source_specs(pipeline: Pipeline, names: AssetNames, topics: list[ShownTopic]) -> list[dg.AssetSpec]:
    """One spec for each source topic."""
    servers = pipeline.client_properties("source", "admin").get("bootstrap.servers", "?")
    return [
        dg.AssetSpec(
            names.source_key(topic.name),
            group_name=names.group,
            description=f"Topic `{topic.name}` of the source cluster at {servers}; it is only read.",
            kinds={"kafka"},
            metadata={} if topic.partitions is None else {keys.PARTITIONS: topic.partitions},
        )
        for topic in topics
    ]
