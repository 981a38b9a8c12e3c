"""Removes portions that are older than `index.retention` from the index. Pure.

A portion is removed as a whole, once its newest mapping record is older than the retention. So up to an eighth more
than the retention is kept (see `merging.py`); of segments that were merged before the key was set, as much as they
span. The newest portion of a partition always stays: without it, groups at the end of a topic without new records could
not be translated. Only for a topic that was created anew since, all portions of the former topic are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import NotedPosition, Pruned
from k2k_assets.mapping.index.portions import Portion, by_source


def pruned(
    portions: Iterable[Portion], expired: int, cluster: str, positions: Sequence[NotedPosition]
) -> tuple[list[Portion], dict[SourcePartition, int]]:
    """Removes portions that are too old.

    Args:
        portions: Portions, in any order.
        expired: Milliseconds since the epoch; older portions are removed.
        cluster: Id of the source cluster of the positions.
        positions: Committed positions, whose topic ids tell which topics were created anew.

    Returns:
        The portions that stay, and for each source partition with removed portions the offset below which it lost them.
    """
    today = {(p.topic, p.partition): p.source_topic_id for p in positions}
    kept: list[Portion] = []
    before: dict[SourcePartition, int] = {}
    for source, of_source in by_source(portions).items():
        was_replaced = source.cluster == cluster and today.get((source.topic, source.partition)) not in (
            None,
            source.topic_id,
        )
        gone = _expired(of_source, expired, len(of_source) - (not was_replaced))
        if gone:
            before[source] = of_source[gone - 1].end
        kept += of_source[gone:]
    return kept, before


def noted(known: Sequence[Pruned], before: dict[SourcePartition, int]) -> list[Pruned]:
    """Updates the notes of what was pruned."""
    notes = {(note.topic, note.partition, note.source_topic_id): note for note in known}
    for source, offset in before.items():
        key = (source.topic, source.partition, source.topic_id)
        notes[key] = Pruned(topic=key[0], partition=key[1], source_topic_id=key[2], before=offset)
    return [notes[key] for key in sorted(notes)]


def _expired(portions: Sequence[Portion], expired: int, most: int) -> int:
    """Number of the oldest portions to remove: none is removed behind one that stays."""
    for number, portion in enumerate(portions[:most]):
        if portion.until >= expired:
            return number
    return most
