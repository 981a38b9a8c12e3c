"""Finds records that were skipped by hand, or left out on purpose: they are on the source only.

That is no fault of a group before them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.portion_columns import skipped_by_source
from k2k_assets.mapping.index.read import IndexReader
from k2k_assets.verification.groups.match import RecordWindow, Seen
from k2k_assets.verification.groups.windows import At

# Distance in offsets; all compared records lie within it.
NEAR = 100_000


@dataclass(frozen=True, slots=True)
class NotCompared:
    """The ranges of source partitions that are not compared.

    Attributes:
        by_hand: Those that were skipped by hand.
        by_rule: Those whose records a rule left out.
    """

    by_hand: Mapping[TopicPartition, Collection[Covered]] = field(default_factory=dict)
    by_rule: Mapping[TopicPartition, Collection[Covered]] = field(default_factory=dict)


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


def dropped_near(
    reader: IndexReader, cluster: str, topic_ids: Mapping[str, str], positions: Iterable[At]
) -> dict[TopicPartition, list[Covered]]:
    """The ranges near some positions that were left out by rules, as far as the index knows them.

    Args:
        reader: The index.
        cluster: Source cluster id.
        topic_ids: Present ids of the source topics.
        positions: Positions on the source.
    """
    found: dict[TopicPartition, list[Covered]] = defaultdict(list)
    for tp, at in positions:
        if tp.topic in topic_ids:
            source = SourcePartition(cluster, tp.topic, topic_ids[tp.topic], tp.partition)
            found[tp] += [Covered(start, end) for _, start, end in reader.dropped(source, at - NEAR, at + NEAR)]
    return dict(found)


def without(window: RecordWindow, ranges: Collection[Covered]) -> RecordWindow:
    """Drops the records in ranges of offsets from a window."""

    def left(records: Iterable[Seen]) -> tuple[Seen, ...]:
        return tuple(seen for seen in records if not any(each.start <= seen.offset < each.end for each in ranges))

    return replace(window, before=left(window.before), after=left(window.after))
