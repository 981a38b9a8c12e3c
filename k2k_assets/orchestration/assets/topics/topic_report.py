"""What Dagster is told of a topic that moves, by a run from inside, or by the sensor where `k2k start` copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import dagster as dg

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import provenance_tags, version_of, version_tags
from k2k_assets.orchestration.metadata import Metadata
from k2k_assets.orchestration.names import AssetNames

# In the place of an offset in a data version: no source ends there.
_NOTHING = -1


def out_of_step(log: CommitLog, on_source: Mapping[str, TopicDescription]) -> dict[str, set[int]]:
    """Partitions whose position says nothing of what the source holds now, by topic.

    They are stopped, or the position is that of a topic that was deleted since.

    Args:
        log: The commit log.
        on_source: Source topics that exist, asked for after their ends were.
    """
    found: dict[str, set[int]] = defaultdict(set)
    for tp in log.stopped:
        found[tp.topic].add(tp.partition)
    for tp, record in log.positions.items():
        if tp.topic not in on_source or on_source[tp.topic].topic_id != record.source_topic_id:
            found[tp.topic].add(tp.partition)
    return dict(found)


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
    topic_id: str,
    not_in_step: Collection[int] = (),
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
        topic_id: Id of the source topic that these are of; empty if it is not known.
        not_in_step: Partitions of which nothing counts as copied, however their offsets compare (`out_of_step`).
    """
    source = names.source_key(topic)
    seen = version_tags(version_of(ends.items(), topic_id))
    yield dg.AssetObservation(source, metadata=source_metadata(ends), tags=seen)
    # Of what was seen, as much as is copied: the same version where that is all.
    part = ((n, _NOTHING if n in not_in_step else min(positions.get(n, 0), end)) for n, end in ends.items())
    inputs = {source: version_of(part, topic_id)}
    tags = provenance_tags(version_of(positions.items(), topic_id), code_version, inputs)
    yield dg.AssetMaterialization(names.topic_key(topic), metadata=metadata, tags=tags)
