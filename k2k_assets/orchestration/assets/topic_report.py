"""What Dagster is told of a topic that moves, by a run from inside, or by the sensor where `k2k start` copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import dagster as dg

from k2k_assets.core.words import plural
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import provenance_tags, version_of, version_tags
from k2k_assets.orchestration.metadata import Metadata
from k2k_assets.orchestration.names import AssetNames


def source_metadata(ends: Mapping[int, int]) -> Metadata:
    """What is shown of a source topic.

    Args:
        ends: Where it ends, by partition.
    """
    table = keys.table({"partition": "int", "end": "int"}, sorted(ends.items()), keys.MOST_ROWS_AGAIN)
    return {keys.PARTITIONS: plural(len(ends), "partition"), keys.END_OFFSETS: table}


def topic_report(
    names: AssetNames,
    code_version: str | None,
    topic: str,
    ends: Mapping[int, int],
    positions: Mapping[int, int],
    metadata: Metadata,
) -> Iterator[dg.AssetObservation | dg.AssetMaterialization]:
    """An observation of the source topic, and a materialization of its copy.

    Dagster shows the copy as synced where it has come as far as its source was observed to be.

    Args:
        names: The pipeline's names.
        code_version: Of the copy's asset.
        topic: The source topic.
        ends: Where the source ends, by partition.
        positions: Next source offset to copy, read no earlier than `ends`, by partition.
        metadata: Of the materialization.
    """
    source = names.source_key(topic)
    yield dg.AssetObservation(source, metadata=source_metadata(ends), tags=version_tags(version_of(ends.items())))
    # Of what was seen, as much as is copied: the same version where that is all.
    copied = version_of((n, min(positions.get(n, 0), end)) for n, end in ends.items())
    tags = provenance_tags(version_of(positions.items()), code_version, {source: copied})
    yield dg.AssetMaterialization(names.topic_key(topic), metadata=metadata, tags=tags)
