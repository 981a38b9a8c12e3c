"""Finds records that `k2k-tool set` skipped: they are on the source only, which is no fault of a group before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.index.portion_columns import skipped_by_source
from k2k_assets.verification.group_match import RecordWindow, Seen


def skipped_by_hand(portions: pa.Table, source: Cluster) -> Mapping[TopicPartition, Collection[Covered]]:
    """The ranges of present topics that were skipped by hand.

    Args:
        portions: Table of portions of the index, columns `portion_table.PORTIONS`.
        source: The source cluster.
    """
    cluster_id = source.cluster_id()
    found = {at: ranges for at, ranges in skipped_by_source(portions).items() if at.cluster == cluster_id}
    today = source.describe({at.topic for at in found}) if found else {}
    return {
        TopicPartition(at.topic, at.partition): ranges
        for at, ranges in found.items()
        if at.topic in today and today[at.topic].topic_id == at.topic_id
    }


def without(window: RecordWindow, ranges: Collection[Covered]) -> RecordWindow:
    """Drops the records in ranges of offsets from a window."""

    def left(records: Iterable[Seen]) -> tuple[Seen, ...]:
        return tuple(seen for seen in records if not any(each.start <= seen.offset < each.end for each in ranges))

    return replace(window, before=left(window.before), after=left(window.after))
