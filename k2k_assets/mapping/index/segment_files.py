"""The files of a segment: Parquet with delta-encoded runs, written in Spark tasks and read without Spark.

A file is sorted by source partition, target partition and source offset. A large piece has row groups of its own, so
that a look-up finds the right one by the statistics; small pieces share a row group.
"""

from __future__ import annotations

import os
import uuid
from bisect import bisect_left, bisect_right
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import Offsets, RunTable, SourcePartition
from k2k_assets.mapping.index.manifest import SEGMENTS
from k2k_assets.mapping.index.portions import Portion, PortionPiece, last_run
from k2k_assets.mapping.index.roots import IndexRoot, fetched, publish, writable

ROWS_PER_GROUP = 16_384
_GROUPS_KEPT = 64
_TEXTS = ("cluster", "topic", "source_topic_id", "target_topic", "target_topic_id")
_RUN = ("source_start", "target_start", "count")
_WORD = pa.dictionary(pa.int32(), pa.string())
RUNS = pa.schema(
    [
        *(pa.field(name, _WORD, nullable=False) for name in ("cluster", "topic", "source_topic_id")),
        pa.field("partition", pa.int32(), nullable=False),
        *(pa.field(name, _WORD, nullable=False) for name in ("target_topic", "target_topic_id")),
        pa.field("target_partition", pa.int32(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in _RUN),
    ]
)
"""The columns of a segment's file."""


class SegmentFile:
    """Writes one file of a segment: a context manager to which pieces are added.

    Args:
        root: Directory of the index.
        segment: Name of the segment.

    Attributes:
        name: Name of the file; no other task writes to it, not even another attempt of the same task.
    """

    def __init__(self, root: IndexRoot, segment: str) -> None:
        self.name = f"{uuid.uuid4().hex}.parquet"
        self._place = (root, SEGMENTS, segment, self.name)
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._small: list[pa.Table] = []
        self._small_rows = 0

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write_small()
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if kind is None:
                publish(*self._place)

    def add(self, source: SourcePartition, target: Target, runs: RunTable) -> PortionPiece:
        """Appends runs of one source partition into one target partition; at least one run."""
        table = _table(source, target, runs)
        small = len(runs) < ROWS_PER_GROUP // 2
        if not small:
            self._write_small()
        piece = PortionPiece(
            target=target,
            first_row=self._rows + self._small_rows,
            rows=len(runs),
            mapped=int(runs.counts.sum()),
            start=int(runs.source_starts[0]),
            last=last_run(runs),
        )
        if small:
            self._small.append(table)
            self._small_rows += len(table)
            if self._small_rows >= ROWS_PER_GROUP:
                self._write_small()
        else:
            self._write(table, ROWS_PER_GROUP)
        return piece

    def _write_small(self) -> None:
        if self._small:
            table = pa.concat_tables(self._small).unify_dictionaries()
            self._write(table, len(table))
            self._small, self._small_rows = [], 0

    def _write(self, table: pa.Table, rows_per_group: int) -> None:
        if self._writer is None:
            self._file = writable(*self._place).open("xb")
            self._writer = pq.ParquetWriter(
                self._file,
                RUNS,
                compression="zstd",
                use_dictionary=list(_TEXTS),
                column_encoding={f.name: "DELTA_BINARY_PACKED" for f in RUNS if f.name not in _TEXTS},
                write_statistics=["source_start"],
                store_schema=False,
            )
        self._writer.write_table(table, row_group_size=rows_per_group)
        self._rows += len(table)


def _table(source: SourcePartition, target: Target, runs: RunTable) -> pa.Table:
    zeros = pa.array(np.zeros(len(runs), np.int32))

    def constant(value: str | int) -> pa.Array:
        if isinstance(value, int):
            return pa.array(np.full(len(runs), value, np.int32))
        return pa.DictionaryArray.from_arrays(zeros, pa.array([value], pa.string()))

    keys = [constant(value) for value in (*source, *target)]
    return pa.Table.from_arrays([*keys, runs.source_starts, runs.target_starts, runs.counts], schema=RUNS)


class SegmentReader:
    """Reads pieces, and caches the files' footers.

    Args:
        root: Directory of the index.
    """

    def __init__(self, root: IndexRoot) -> None:
        self._root = root
        self._footers: dict[Path, pq.FileMetaData] = {}
        # Row groups are cached, because many small pieces share one, and neighbouring look-ups need the same one.
        self._one_group = lru_cache(_GROUPS_KEPT)(self._columns)

    def read(self, portion: Portion, piece: PortionPiece, start: int = 0, end: int | None = None) -> RunTable:
        """Reads the valid runs of a piece, or some neighbouring ones of them.

        Args:
            portion: The portion of the piece.
            piece: The piece.
            start: Runs that end at or before this source offset are not needed.
            end: Runs behind the first run that ends after this source offset are not needed; None: all are.

        Raises:
            FileNotFoundError: The segment was removed, because later versions do not need it.
            StoreError: The object store does not answer.
        """
        path = fetched(self._root, SEGMENTS, portion.segment, portion.file)
        groups, first_row = _groups(self._footer(path), piece, start, end)
        read = self._one_group(path, *groups) if len(groups) == 1 else self._columns(path, *groups)
        low, after = max(0, piece.first_row - first_row), piece.first_row + piece.rows - first_row
        source_starts, target_starts, counts = (column[low:after] for column in read)
        if after <= len(read[0]):
            counts = counts.copy()
            counts[-1] = piece.last.count
        return RunTable(source_starts, target_starts, counts)

    def _footer(self, path: Path) -> pq.FileMetaData:
        if path not in self._footers:
            self._footers[path] = pq.read_metadata(path)
        return self._footers[path]

    def _columns(self, path: Path, *groups: int) -> list[Offsets]:
        with pq.ParquetFile(path, metadata=self._footer(path), memory_map=True) as file:
            table = file.read_row_groups(list(groups), columns=list(_RUN), use_threads=False)
        return [np.asarray(table[name].to_numpy()) for name in _RUN]


def _groups(footer: pq.FileMetaData, piece: PortionPiece, start: int, end: int | None) -> tuple[list[int], int]:
    """The neighbouring row groups to read, and the first row of the first one."""
    bounds = np.cumsum([0, *(footer.row_group(i).num_rows for i in range(footer.num_row_groups))]).tolist()
    first = bisect_right(bounds, piece.first_row) - 1
    after = bisect_left(bounds, piece.first_row + piece.rows)
    groups = list(range(first, after))
    if len(groups) > 1:
        column = RUNS.get_field_index(_RUN[0])
        begins = [piece.start, *(footer.row_group(i).column(column).statistics.min for i in groups[1:])]
        # The last row group that begins at or before `start` may have a run that ends behind it.
        low = max(0, bisect_right(begins, start) - 1)
        high = len(groups) if end is None else bisect_right(begins, end) + 1
        groups = groups[low:high]
    return groups, bounds[groups[0]]
