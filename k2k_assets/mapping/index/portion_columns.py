"""Updates the table of portions in columns, without a `Portion` object for each row.

The algebra is in `portions.py` and `pruning.py`. This module finds the source partitions for which it changes anything;
only their rows become `Portion` objects, all others are passed on as they are. Tables have columns
`portion_table.PORTIONS` and are sorted by source partition and order, as `portion_table.to_table` sorts them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from k2k_assets.control.mapping_records import MappingKey
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import portions as algebra
from k2k_assets.mapping.index import pruning
from k2k_assets.mapping.index.grouping import Column, groups, numbers, ranks
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets.mapping.index.portion_table import PORTIONS, SOURCE, from_table, to_table
from k2k_assets.mapping.index.portions import Load, Portion

_TARGET = ["target_topic", "target_topic_id", "target_partition"]
_NO_LIMIT = np.iinfo(np.int64).max
_Rows = NDArray[np.bool_]

COVERAGE = ("covered_from", "covered_to", "generation", "sequence")


class PortionsBySource:
    """Looks up the portions of single source partitions; safe to use from several threads.

    Args:
        rows: Table of portions.

    Attributes:
        rows: The same table, in one piece.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()

    def sources(self) -> list[SourcePartition]:
        """All source partitions of the table, in order."""
        return list(self._places)

    def of(self, source: SourcePartition) -> list[Portion]:
        """The portions of a source partition, in order."""
        first, after = self._places.get(source, (0, 0))
        return from_table(self.rows.slice(first, after - first))

    @cached_property
    def _places(self) -> dict[SourcePartition, tuple[int, int]]:
        bounds = groups(self.rows, SOURCE)
        heads = self.rows.select(SOURCE).take(pa.array(bounds[:-1], pa.int64()))
        return dict(zip(sources_of(heads), pairwise(bounds), strict=True))


def extended(rows: pa.Table, added: pa.Table, load: Load, doubtful: Collection[SourcePartition] = ()) -> pa.Table:
    """Does `portions.extended` for tables.

    Raises:
        LateRecord: The new segment has a record that is older than one that was folded before.
    """
    of_row, of_added = ranks(SOURCE, rows, added)
    is_changed = _changed(rows, of_row, added, of_added)
    if doubtful:
        is_changed[of_added] |= np.array([source in doubtful for source in sources_of(added)], bool)
    before, new = is_changed[of_row], is_changed[of_added]
    changed = algebra.extended(from_table(_only(rows, before)), from_table(_only(added, new)), load, doubtful)
    return in_order(_only(rows, ~before), _only(added, ~new), to_table(changed))


def _changed(rows: pa.Table, of_row: Column, added: pa.Table, of_added: Column) -> _Rows:
    """By rank: whether the added portion cuts a portion of the source partition, leaves offsets out, or comes late."""
    count = 1 + max((int(of.max()) for of in (of_row, of_added) if len(of)), default=-1)
    first = {name: np.full(count, _NO_LIMIT) for name in ("start", "began", "oldest_generation", "oldest_sequence")}
    for name, column in first.items():
        column[of_added] = numbers(added[name])
    start, began, generation, sequence = (column[of_row] for column in first.values())
    newest = numbers(rows["newest_generation"])
    is_late = (newest > generation) | ((newest == generation) & (numbers(rows["newest_sequence"]) > sequence))
    reached = np.full(count, -1)
    np.maximum.at(reached, of_row, numbers(rows["end"]))
    leaves_out = (began > reached[of_row]) & (began < _NO_LIMIT)
    changed = np.zeros(count, bool)
    changed[of_row[(numbers(rows["end"]) > start) | is_late | leaves_out]] = True
    return changed


def pruned(
    rows: pa.Table, expired: int, cluster: str, positions: Sequence[NotedPosition]
) -> tuple[pa.Table, dict[SourcePartition, int]]:
    """Does `pruning.pruned` for a table."""
    bounds = np.asarray(groups(rows, SOURCE))
    firsts, sizes = bounds[:-1], np.diff(bounds)
    loses = numbers(rows["until"])[firsts] < expired
    alone = np.flatnonzero(loses & (sizes == 1))
    loses[alone] = _replaced(rows.select(SOURCE).take(pa.array(firsts[alone])), cluster, positions)
    is_changed = np.repeat(loses, sizes)
    if not is_changed.any():
        return rows, {}
    kept, before = pruning.pruned(from_table(_only(rows, is_changed)), expired, cluster, positions)
    return in_order(_only(rows, ~is_changed), to_table(kept)), before


def _replaced(heads: pa.Table, cluster: str, positions: Sequence[NotedPosition]) -> _Rows:
    """Whether the topic of each source partition was created anew since."""
    if not len(heads):
        return np.zeros(0, bool)
    today = pa.table(
        [
            pa.array([cluster] * len(positions), pa.string()),
            pa.array([position.topic for position in positions], pa.string()),
            pa.array([position.source_topic_id for position in positions], pa.string()),
            pa.array([position.partition for position in positions], pa.int32()),
        ],
        schema=heads.schema,
    )
    of_head, of_today = ranks(("cluster", "topic", "partition"), heads, today)
    id_of_head, id_today = ranks(("source_topic_id",), heads, today)
    ids = np.full(1 + max(of_head.max(), of_today.max(initial=0)), -1)
    ids[of_today] = id_today
    is_known: _Rows = ids[of_head] >= 0
    has_other_id: _Rows = ids[of_head] != id_of_head
    return is_known & has_other_id


def replaced(rows: pa.Table, segments: Collection[str], merged: pa.Table) -> pa.Table:
    """Replaces the portions of some segments by those of one segment."""
    return in_order(rows.filter(pc.invert(of_segments(rows, segments))), merged)


def of_segments(rows: pa.Table, segments: Collection[str]) -> pa.ChunkedArray:
    """Whether each row belongs to one of some segments."""
    return pc.is_in(rows["segment"], value_set=pa.array(list(segments), pa.string()))


def in_order(*tables: pa.Table) -> pa.Table:
    """Joins tables into one, sorted by source partition and order."""
    rows = pa.concat_tables([table for table in tables if len(table)] or [PORTIONS.empty_table()])
    [source] = ranks(SOURCE, rows)
    keys = [numbers(rows[name]) for name in ("start", "newest_sequence", "newest_generation")]
    order = np.lexsort([*keys, source])
    return rows if (np.diff(order) == 1).all() else rows.take(pa.array(order))


def sources_of(rows: pa.Table) -> list[SourcePartition]:
    columns = [rows[name].to_pylist() for name in SOURCE]
    return [SourcePartition(*row) for row in zip(*columns, strict=True)]


def concerned(
    rows: pa.Table, passed_over: Collection[MappingKey | None], read_behind: Collection[MappingKey] = ()
) -> frozenset[SourcePartition]:
    """The source partitions of which mapping records may have been passed over (`NewSegment`)."""
    if not passed_over:
        return frozenset()
    places = {(key.topic, key.partition) for key in passed_over if key}
    read = {(key.topic, key.partition) for key in read_behind}

    def is_concerned(place: tuple[str, int]) -> bool:
        return place in places or (None in passed_over and place not in read)

    return frozenset(source for source in sources_of(rows) if is_concerned((source.topic, source.partition)))


def without_coverage(rows: pa.Table, passed_over: Collection[MappingKey | None]) -> pa.Table:
    """Takes the coverage of portions away between whose records some may have been passed over.

    Their runs tell where copies are, and answer nothing.
    """
    if not (sources := concerned(rows, passed_over)):
        return rows
    return to_table([replace(p, covered=()) if p.source in sources else p for p in from_table(rows)])


def files_of(rows: pa.Table) -> set[tuple[str, str]]:
    """The files that the table names: segment and file name."""
    named = rows.select(["segment", "file"]).filter(pc.not_equal(rows["file"], ""))
    distinct = named.group_by(["segment", "file"], use_threads=False).aggregate([])
    return set(zip(distinct["segment"].to_pylist(), distinct["file"].to_pylist(), strict=True))


def runs_of(rows: pa.Table) -> Column:
    """Number of valid runs of each row."""
    return _sum_of_pieces(rows, "rows")


def rows_of(rows: pa.Table) -> Column:
    """Number of rows that each portion has in its file: runs, and ranges that were left out."""
    ranges = _sum_of_pieces(rows, "rows", "dropped")
    return runs_of(rows) + ranges


def mapped_of(rows: pa.Table) -> Column:
    """Number of source records that the valid runs of each row map."""
    return _sum_of_pieces(rows, "mapped")


def by_segment(rows: pa.Table, values: Column) -> dict[str, int]:
    """Sums a value of each row by segment."""
    segment = rows["segment"].combine_chunks().dictionary_encode()
    sums = np.zeros(len(segment.dictionary), np.int64)
    np.add.at(sums, np.asarray(segment.indices), values)
    return dict(zip(segment.dictionary.to_pylist(), sums.tolist(), strict=True))


def coverage(rows: pa.Table) -> pa.Table:
    """The covered ranges of each source partition, joined where they are adjacent: columns `SOURCE` and `COVERAGE`.

    Generation and sequence are those of the newest record of the source partition.
    """
    lists = rows["covered"].combine_chunks()
    row, ranges = np.asarray(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    starts, ends = (np.asarray(pc.struct_field(ranges, name)) for name in COVERAGE[:2])
    bounds = np.asarray(groups(rows, SOURCE))
    source = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[row]
    goes_on = (source[1:] == source[:-1]) & (starts[1:] == ends[:-1])
    firsts = np.flatnonzero(np.concatenate((np.ones(min(1, len(row)), bool), ~goes_on)))
    lasts = np.concatenate((firsts[1:], [len(row)]))[: len(firsts)] - 1
    newest = pa.array(bounds[1:][source[firsts]] - 1)
    columns = {name: rows[name].take(pa.array(row[firsts])) for name in SOURCE}
    columns |= {"covered_from": pa.array(starts[firsts]), "covered_to": pa.array(ends[lasts])}
    columns |= {"generation": rows["newest_generation"].take(newest), "sequence": rows["newest_sequence"].take(newest)}
    return pa.table(columns)


def shared_targets(rows: pa.Table) -> set[Target]:
    """The target partitions that several source partitions feed."""
    lists = rows["pieces"].combine_chunks()
    row, pieces = np.asarray(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    into = pa.table({name: pc.struct_field(pieces, name) for name in _TARGET})
    [source], [target] = ranks(SOURCE, rows), ranks(_TARGET, into)
    pairs = np.unique(np.stack((target, source[row])), axis=1)
    fed, times = np.unique(pairs[0], return_counts=True)
    heads = into.filter(pa.array(np.isin(target, fed[times > 1]))).group_by(_TARGET, use_threads=False).aggregate([])
    return {Target(*head) for head in zip(*heads.to_pydict().values(), strict=True)}


def skipped_by_source(rows: pa.Table) -> dict[SourcePartition, tuple[Covered, ...]]:
    """The ranges that were skipped by hand, for source partitions that have any."""
    skipped = PortionsBySource(rows.filter(pc.greater(pc.list_value_length(rows["skipped"]), 0)))
    return {source: algebra.skipped_ranges(skipped.of(source)) for source in skipped.sources()}


def _only(rows: pa.Table, wanted: _Rows) -> pa.Table:
    return rows.filter(pa.array(wanted))


def _sum_of_pieces(rows: pa.Table, name: str, of: str = "pieces") -> Column:
    lists = rows[of].combine_chunks()
    ends = np.cumsum(numbers(pc.list_value_length(lists)))
    sums = np.concatenate(([0], np.cumsum(numbers(pc.struct_field(pc.list_flatten(lists), name)))))
    of_rows: Column = np.diff(sums[np.concatenate(([0], ends))])
    return of_rows
