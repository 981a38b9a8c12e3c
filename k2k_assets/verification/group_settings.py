"""Under which isolation levels records around a group's position were copied.

What was read uncommitted holds aborted records; so what is right under one level is a fault under the other. The index
knows which range was copied under which settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from k2k_assets.control.copy_settings import CopySettings, Isolation
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.portion_columns import PortionsBySource
from k2k_assets.mapping.index.portions import Portion, covered_ranges, settings_ranges, skipped_ranges

# Offsets; the records that are compared lie within as good as always.
_NEAR = 100_000

Around = Callable[[TopicPartition, int], set[Isolation | None]]
"""The isolation levels of what was copied around an offset; None among them where nobody knows that of some of it."""


def isolation_in_index(portions: pa.Table, source: Cluster, known: Mapping[str, CopySettings]) -> Around:
    """Asks a version of the index.

    Args:
        portions: What it holds, columns `portion_table.PORTIONS`.
        source: The source cluster: topics count as they are today.
        known: What the fingerprints stand for.
    """
    mapped = PortionsBySource(portions)
    cluster = source.cluster_id()
    topics = source.describe({at.topic for at in mapped.sources()})

    def around(tp: TopicPartition, at: int) -> set[Isolation | None]:
        if tp.topic not in topics:
            return set()
        of_source = mapped.of(SourcePartition(cluster, tp.topic, topics[tp.topic].topic_id, tp.partition))
        return isolation_around(of_source, at, known)

    return around


def isolation_around(portions: Sequence[Portion], at: int, known: Mapping[str, CopySettings]) -> set[Isolation | None]:
    """The same, of the portions of a source partition, in order."""
    under = [each for each in settings_ranges(portions) if _length([each[:2]], at)]
    copied = _length(covered_ranges(portions), at) - _length(skipped_ranges(portions), at)
    settings = [known.get(each.settings) for each in under]
    levels = {each.isolation if each else None for each in settings}
    if _length((each[:2] for each in under), at) < copied:
        levels.add(None)  # a release that noted nothing has copied some of it
    return levels


def _length(ranges: Iterable[tuple[int, int]], at: int) -> int:
    """How much of disjoint ranges lies near an offset."""
    return sum(max(0, min(end, at + _NEAR) - max(start, at - _NEAR)) for start, end in ranges)
