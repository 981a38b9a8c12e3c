"""What `k2k-tool set` has passed over is on the source alone, and no fault of a group that stands before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

import pyarrow.compute as pc

from k2k_assets.checks.group_match import Seen, Window
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.fold import Covered
from k2k_assets.mapping.index import IndexUnusable
from k2k_assets.mapping.index.versions import open_version
from k2k_assets.mapping.partition_map import SourcePartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.topic_partition import TopicPartition

_SOURCE = ("cluster", "topic", "source_topic_id", "partition")


def skipped_by_hand(pipeline: Pipeline, source: Cluster) -> dict[TopicPartition, list[Covered]]:
    """What was skipped by hand of topics as they are today; nothing where there is no index to tell."""
    try:
        table = open_version(pipeline)[2]
    except IndexUnusable:
        return {}
    cluster_id = source.cluster_id()
    found: dict[SourcePartition, list[Covered]] = defaultdict(list)
    if "skipped" not in table.column_names:  # an older release built it
        return {}
    skipped = table.select([*_SOURCE, "skipped"]).filter(pc.greater(pc.list_value_length(table["skipped"]), 0))
    for row in skipped.to_pylist():
        at = SourcePartition(*(row[name] for name in _SOURCE))
        if at.cluster == cluster_id:
            found[at] += [Covered(each["covered_from"], each["covered_to"]) for each in row["skipped"]]
    today = source.describe({at.topic for at in found}) if found else {}
    return {
        TopicPartition(at.topic, at.partition): ranges
        for at, ranges in found.items()
        if at.topic in today and today[at.topic].topic_id == at.topic_id
    }


def without(window: Window, ranges: Collection[Covered]) -> Window:
    """A window without the records in ranges of offsets."""

    def left(records: Iterable[Seen]) -> tuple[Seen, ...]:
        return tuple(seen for seen in records if not any(each.start <= seen.offset < each.end for each in ranges))

    return replace(window, before=left(window.before), after=left(window.after))
