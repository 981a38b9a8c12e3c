"""Reads the mapping index without Spark, and only the row groups that a look-up needs.

```
 manifest.json > versions/<version>/portions.parquet > row groups of some files > a PartitionMap
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from k2k_assets.core.dropped_ranges import DroppedRange
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS
from k2k_assets.mapping.algebra.fold import NEVER, Order
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.index.manifest import IndexUnusable, Manifest
from k2k_assets.mapping.index.portion_columns import PortionsBySource
from k2k_assets.mapping.index.portions import (
    Portion,
    PortionPiece,
    by_rule,
    by_target,
    covered_ranges,
    skipped_ranges,
)
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.run_columns import concatenated
from k2k_assets.mapping.index.segment_files import SegmentReader
from k2k_assets.mapping.index.versions import open_version
from k2k_assets.pipeline import Pipeline


class IndexReplaced(IndexUnusable):
    """Later builds have removed the version that was opened; the caller has to open the index again."""


@dataclass(frozen=True)
class IndexReader:
    """One version of an index, open for look-ups. Safe to use from several threads.

    Attributes:
        manifest: The version's manifest.
    """

    manifest: Manifest
    _portions: PortionsBySource = field(repr=False)
    _files: SegmentReader = field(repr=False)

    @classmethod
    def open(cls, pipeline: Pipeline) -> IndexReader:
        """Opens the current version of a pipeline's index.

        Raises:
            IndexUnusable: There is no index yet, or it cannot be read.
        """
        root, manifest, table = open_version(pipeline)
        return cls.of(root, manifest, table)

    @classmethod
    def of(cls, root: IndexRoot, manifest: Manifest, portions: pa.Table) -> IndexReader:
        """Makes a reader of a version that is opened already."""
        return cls(manifest, PortionsBySource(portions), SegmentReader(root))

    @property
    def portions(self) -> pa.Table:
        """Table of portions, columns `portion_table.PORTIONS`."""
        return self._portions.rows

    def sources(self) -> list[SourcePartition]:
        """All source partitions in the index, including those of topics that were created anew since."""
        return self._portions.sources()

    def newest(self, source: SourcePartition) -> Order:
        """Order of the newest mapping record of a source partition in the index; `NEVER` if there is none."""
        portions = self._portions.of(source)
        return portions[-1].newest if portions else NEVER

    def doubtful(self, mapping_topic_id: str) -> set[SourcePartition]:
        """Source partitions whose mapping records may have been lost behind the newest one in the index.

        If the mapping topic was created anew since, these are all, because the last records of the former topic may
        never have been read.

        Args:
            mapping_topic_id: Present topic id of the mapping topic.
        """
        if self.manifest.mapping_topic_id != mapping_topic_id:
            return set(self.sources())
        return {SourcePartition(*source) for source in self.manifest.doubtful}

    def reached(self, source: SourcePartition) -> tuple[Order, int]:
        """The newest mapping record of a source partition in the index, and the source offset that it has reached.

        `NEVER` and 0 if there is none.
        """
        portions = self._portions.of(source)
        return (portions[-1].newest, portions[-1].end) if portions else (NEVER, 0)

    def partition_map(
        self, source: SourcePartition, start: int = 0, end: int | None = None, with_dropped: bool = False
    ) -> PartitionMap:
        """The map of a source partition; without coverage if the index does not have it.

        Args:
            source: The source partition.
            start: Lowest source position that will be looked up.
            end: Highest source position that will be looked up; None: no limit. Runs that answer no position between
                the two are left out, except the last run into each target partition.
            with_dropped: Whether to read the ranges that were left out on purpose too.

        Raises:
            IndexReplaced: The version was removed meanwhile.
        """
        portions = self._portions.of(source)
        runs = {target: self._runs(pieces, start, end) for target, pieces in by_target(portions)}
        began, log_start, target_began = self._began.get(source, (None, None, None))
        ranges = by_rule(portions) if with_dropped else ()
        dropped = {target.topic_id: self._runs(pieces, start, end) for target, pieces in ranges}
        ranges_covered, skipped = covered_ranges(portions), skipped_ranges(portions)
        return PartitionMap(source, began, ranges_covered, runs, log_start, target_began, dropped, skipped)

    def dropped(self, source: SourcePartition, start: int = 0, end: int | None = None) -> list[DroppedRange]:
        """The ranges of a source partition that were left out on purpose, in order.

        Args:
            source: The source partition.
            start: Ranges that end at or before this source offset are left out.
            end: Ranges that start at or behind this source offset are left out; None: no limit.

        Raises:
            IndexReplaced: The version was removed meanwhile.
        """
        found = []
        for target, pieces in by_rule(self._portions.of(source)):
            ranges = self._runs(pieces, start, end)
            found += [DroppedRange(target.topic_id, run.source_start, run.source_end) for run in ranges]
        wanted = (each for each in found if each.end > start and (end is None or each.start < end))
        return sorted(wanted, key=lambda each: each.start)

    def last_runs(self, source: SourcePartition) -> PartitionMap:
        """The map of a source partition with its coverage, but only the last run into each target partition.

        Raises:
            IndexReplaced: The version was removed meanwhile.
        """
        return self.partition_map(source, BEYOND_ALL_LOGS, BEYOND_ALL_LOGS)

    def _runs(self, pieces: Sequence[tuple[Portion, PortionPiece]], start: int, end: int | None) -> RunTable:
        tables: list[RunTable] = []
        for portion, piece in pieces:
            if piece.last.source_end <= start:
                continue
            tables.append(self._read(portion, piece, start, end))
            if end is not None and piece.last.source_end > end:
                break
        last = pieces[-1][1].last
        if not tables or tables[-1].source_end < last.source_end:
            tables.append(RunTable.of([last]))
        return concatenated(tables)

    def _read(self, portion: Portion, piece: PortionPiece, start: int, end: int | None) -> RunTable:
        try:
            return self._files.read(portion, piece, start, end)
        except FileNotFoundError:
            raise IndexReplaced(
                f"version {self.manifest.number} of the mapping index of pipeline {self.manifest.pipeline!r} has been "
                "replaced by later builds: open the index again. If it says so each time, files of it are gone: "
                "materialize offset_mappings, which builds it anew"
            ) from None

    @cached_property
    def _began(self) -> dict[SourcePartition, tuple[int, int | None, int | None]]:
        cluster = self.manifest.source_cluster
        return {
            SourcePartition(cluster, p.topic, p.source_topic_id, p.partition): (p.began, p.log_start, p.target_began)
            for p in self.manifest.positions
            if p.began is not None
        }
