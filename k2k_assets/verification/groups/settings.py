"""Finds the settings under which the records around a group's position were read and changed.

Copies that were read uncommitted include aborted records, so that a right copy under one level is a fault under the
other; likewise under other rules of `transform`. The index knows the settings of each copied range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from k2k_assets.control.copy_settings import CopySettings, Reading
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.portion_columns import PortionsBySource
from k2k_assets.mapping.index.portions import Portion, covered_ranges, settings_ranges, skipped_ranges

# Distance in offsets; nearly always all compared records lie within it.
_NEAR = 100_000

Around = Callable[[TopicPartition, int], set[Reading | None]]
"""Returns the readings of the copies around an offset; None among them if some of them is not known."""


def readings_in_index(portions: pa.Table, source: Cluster, known: Mapping[str, CopySettings]) -> Around:
    """Makes a function that looks them up in a version of the index.

    Args:
        portions: Its table of portions, columns `portion_table.PORTIONS`.
        source: The source cluster; only its present topics count.
        known: The settings behind the fingerprints.
    """
    mapped = PortionsBySource(portions)
    cluster = source.cluster_id()
    topics = source.describe({at.topic for at in mapped.sources()})

    def around(tp: TopicPartition, at: int) -> set[Reading | None]:
        if tp.topic not in topics:
            return set()
        of_source = mapped.of(SourcePartition(cluster, tp.topic, topics[tp.topic].topic_id, tp.partition))
        return readings_around(of_source, at, known)

    return around


def readings_around(portions: Sequence[Portion], at: int, known: Mapping[str, CopySettings]) -> set[Reading | None]:
    """The readings around an offset, from the portions of its source partition in order."""
    under = [each for each in settings_ranges(portions) if _length([each[:2]], at)]
    copied = _length(covered_ranges(portions), at) - _length(skipped_ranges(portions), at)
    settings = [known.get(each.settings) for each in under]
    readings = {each.reading if each else None for each in settings}
    if _length((each[:2] for each in under), at) < copied:
        readings.add(None)  # an older release, which noted no settings, has copied some of it
    return readings


def _length(ranges: Iterable[tuple[int, int]], at: int) -> int:
    """Number of offsets of disjoint ranges that lie near an offset."""
    return sum(max(0, min(end, at + _NEAR) - max(start, at - _NEAR)) for start, end in ranges)
