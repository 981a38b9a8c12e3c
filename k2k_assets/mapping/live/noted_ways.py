"""What mapping records say of pipelines that copy both ways: so those learn it who do not have their files. Pure."""

from __future__ import annotations

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import BothWays, MappingRecord
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.pipeline.sections.bidirectional import RULE


class NotedWays:
    """How the records of source partitions were copied, as far as their mapping records say."""

    def __init__(self) -> None:
        self._ways: dict[tuple[str, SourcePartition], set[BothWays | None]] = {}

    def note(self, source: SourcePartition, record: MappingRecord) -> None:
        """Takes in a mapping record. That of an override copied nothing, and says nothing."""
        if record.override is None:
            self._ways.setdefault((record.group, source), set()).add(record.both_ways or _inferred(record))

    def of(self, group: str, source: SourcePartition) -> frozenset[BothWays | None]:
        """How a source partition was copied.

        Args:
            group: The pipeline's `group.id`.
            source: The source partition.

        Returns:
            Each way that a record notes; None is among them if some record notes none. Empty if there are no records.
        """
        return frozenset(self._ways.get((group, source), ()))


def _inferred(record: MappingRecord) -> BothWays | None:
    """What a record of a release that noted nothing shows: who leaves out echoes copies both ways."""
    if any(each.rule == RULE for each in record.dropped):
        return BothWays("pipeline", shared=True, exactly_once=False)
    return None


def is_exactly_once(ways: frozenset[BothWays | None], newest: CommitRecord | None) -> bool:
    """Whether all records say that they were copied exactly once; not if some say nothing, or if there are none.

    Args:
        ways: As `NotedWays.of`.
        newest: The newest commit record, which tells of copies at least once before the first of them; None if there is
            none.
    """
    is_noted = newest is not None and newest.repeats_below is not None
    return bool(ways) and not is_noted and all(way is not None and way.exactly_once for way in ways)
