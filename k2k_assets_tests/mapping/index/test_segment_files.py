"""Files of a segment: large and small pieces are found again, as a whole and in part, and take little room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from k2k_assets.mapping.algebra.fold import NEVER, Beginning, Target
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition
from k2k_assets.mapping.algebra.run_tables import before
from k2k_assets.mapping.index import segment_files
from k2k_assets.mapping.index.manifest import SEGMENTS
from k2k_assets.mapping.index.portions import Portion, PortionPiece, cut
from k2k_assets.mapping.index.segment_files import SegmentFile, SegmentReader

SOURCES = [SourcePartition("c", "orders", "sid", p) for p in range(3)]
TARGETS = [Target("orders", "tid", p) for p in range(3)]


def _runs(count: int, seed: int) -> RunTable:
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, 200, count)
    gaps = draw.integers(0, 3, (2, count))
    starts, targets = (np.cumsum(counts + gap) - counts for gap in gaps)
    return RunTable(starts, targets, counts)


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[SegmentReader, Portion, dict[PortionPiece, RunTable]]:
    """Pieces of all sizes in one file of small row groups."""
    monkeypatch.setattr(segment_files, "ROWS_PER_GROUP", 100)
    sizes = [3, 1, 49, 50, 51, 1234, 7, 100, 30, 30, 30, 30, 1000, 2]
    pieces = {}
    with SegmentFile(tmp_path, "s") as file:
        for number, size in enumerate(sizes):
            runs = _runs(size, number)
            pieces[file.add(SOURCES[number % 3], TARGETS[number % 2], runs)] = runs
    portion = Portion(
        SOURCES[0], "s", file.name, 0, 2**62, (), NEVER, Beginning(-1, -1, 0), NEVER, 0, 0, 0, tuple(pieces)
    )
    return SegmentReader(tmp_path), portion, pieces


def test_every_piece_is_read_as_it_was_written(
    written: tuple[SegmentReader, Portion, dict[PortionPiece, RunTable]],
) -> None:
    reader, portion, pieces = written
    for piece, runs in pieces.items():
        assert reader.read(portion, piece) == runs
        assert (piece.rows, piece.mapped) == (len(runs), runs.counts.sum())


def test_a_part_holds_what_answers_and_little_else(
    written: tuple[SegmentReader, Portion, dict[PortionPiece, RunTable]],
) -> None:
    reader, portion, pieces = written
    for piece, runs in pieces.items():
        highest = runs.source_end + 2
        for position in np.random.default_rng(0).integers(0, highest, 30).tolist():
            part = list(reader.read(portion, piece, position, position))
            answers = [run for run in runs if run.source_end > position][:1]
            assert set(answers) <= set(part) <= set(runs)
            assert len(part) <= 300


def test_a_cut_piece_ends_where_it_was_cut(
    written: tuple[SegmentReader, Portion, dict[PortionPiece, RunTable]],
) -> None:
    reader, portion, pieces = written
    for piece, runs in pieces.items():
        for at in (1, runs.source_end // 2, runs.source_end - 1, runs.source_end):
            kept = cut(replace(portion, pieces=(piece,)), at, reader.read)
            wanted = before(runs, at)
            assert kept
            if not len(wanted):
                assert (kept.pieces, kept.file, kept.mapped) == ((), "", 0)
                continue
            assert reader.read(kept, kept.pieces[0]) == wanted
            assert (kept.runs, kept.mapped) == (len(wanted), wanted.counts.sum())
            again = cut(kept, max(1, at // 3), reader.read)
            assert again
            assert [list(reader.read(again, p)) for p in again.pieces] == [
                list(table) for table in [before(runs, max(1, at // 3))] if len(table)
            ]


def test_a_run_takes_a_few_bytes(tmp_path: Path) -> None:
    runs = _runs(300_000, 1)
    with SegmentFile(tmp_path, "s") as file:
        file.add(SOURCES[0], TARGETS[0], runs)
    path = tmp_path / SEGMENTS / "s" / file.name
    assert path.stat().st_size < 4 * len(runs)
    group = pq.ParquetFile(path).metadata.row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    assert all("DELTA_BINARY_PACKED" in encodings[name] for name in ("source_start", "target_start", "count"))
    assert group.column(0).compression == "ZSTD"


def test_a_file_without_runs_is_not_there(tmp_path: Path) -> None:
    with SegmentFile(tmp_path, "s"):
        pass
    assert list(tmp_path.rglob("*")) == []
