"""The heavy work of an update, which runs outside the driver: what `update.py` asks of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from k2k_assets.control.mapping_records import MappingKey
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.index.roots import IndexRoot


@dataclass(frozen=True, slots=True)
class NewSegment:
    """The result of a fold.

    Attributes:
        stretches: Portions of the new segment, by the number of their stretch (`folding.Folded`): at most one for each
            source partition in each; columns `portion_table.PORTIONS`.
        left: Ranges that were not read, because they are too much for one segment.
        passed_over: Keys of records that cannot be read, and are ignored (`RecordReader.passed_over`). Where `most` was
            None, they may lie between the records of a portion.
        read_behind: `RecordReader.read_behind`.
    """

    stretches: list[pa.Table]
    left: list[OffsetRange]
    passed_over: frozenset[MappingKey | None] = frozenset()
    read_behind: frozenset[MappingKey] = frozenset()


class Jobs(Protocol):
    """Writes the segments of an index."""

    def fold(self, root: IndexRoot, segment: str, ranges: Sequence[OffsetRange], most: int | None) -> NewSegment:
        """Writes a segment with the mapping records in ranges of the mapping topic.

        Args:
            root: Directory of the index.
            segment: Name of the new segment.
            ranges: The ranges to read, at most one for each partition.
            most: Stop reading a range after so many bytes of records; None: read it to its end.
        """
        ...

    def merge(self, root: IndexRoot, segment: str, portions: pa.Table) -> pa.Table:
        """Writes a segment with the valid runs of portions.

        Args:
            root: Directory of the index.
            segment: Name of the new segment.
            portions: All portions of the segments that it replaces; columns `portion_table.PORTIONS`.
        """
        ...
