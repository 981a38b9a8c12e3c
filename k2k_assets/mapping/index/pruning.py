"""`index.retention`: what is older leaves the index. Pure.

A portion (what a segment holds of a source partition) goes as a whole, once the newest mapping record in it is older
than the retention; so up to an eighth more than the retention is kept (see `compaction`), and of segments that were
merged before the key was set as much as they span. The newest portion of a partition always stays: without it the
groups at the end of a topic that nobody writes to would be lost. Only a topic that was created anew since loses its
former self entirely.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import NotedPosition, Pruned
from k2k_assets.mapping.index.portions import Portion, by_source


def pruned(
    portions: Iterable[Portion], expired: int, cluster: str, positions: Sequence[NotedPosition]
) -> tuple[list[Portion], dict[SourcePartition, int]]:
    """Takes out what is too old.

    Args:
        portions: In any order.
        expired: Milliseconds since the epoch; what is older goes.
        cluster: Id of the source cluster of the positions.
        positions: They tell which topics were created anew.

    Returns:
        What stays, and for each source partition that lost something the offset below which it did.
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
    """The notes on what was pruned, brought up to date."""
    notes = {(note.topic, note.partition, note.source_topic_id): note for note in known}
    for source, offset in before.items():
        key = (source.topic, source.partition, source.topic_id)
        notes[key] = Pruned(topic=key[0], partition=key[1], source_topic_id=key[2], before=offset)
    return [notes[key] for key in sorted(notes)]


def _expired(portions: Sequence[Portion], expired: int, most: int) -> int:
    """How many of the oldest portions go: never one behind another that stays."""
    for number, portion in enumerate(portions[:most]):
        if portion.until >= expired:
            return number
    return most
