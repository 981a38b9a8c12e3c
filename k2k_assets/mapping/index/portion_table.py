"""The table of portions: its columns, and its file in the directory of a version. Arrow only, no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import VERSIONS
from k2k_assets.mapping.index.portions import Portion, PortionPiece, SettingsRange, by_source, covered_ranges
from k2k_assets.mapping.index.roots import IndexRoot, fetched, publish, writable

_FILE = "portions.parquet"


def _fields(**types: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, type_, nullable=False) for name, type_ in types.items()]


_TARGET = {"target_topic": pa.string(), "target_topic_id": pa.string(), "target_partition": pa.int32()}
_OF_PIECE = ("first_row", "rows", "mapped", "start", "last_source_start", "last_target_start", "last_count")
_PIECE = pa.struct(_fields(**_TARGET, **dict.fromkeys(_OF_PIECE, pa.int64())))
_COVERED = pa.struct(_fields(covered_from=pa.int64(), covered_to=pa.int64()))
_UNDER = pa.struct(_fields(start=pa.int64(), end=pa.int64(), settings=pa.string()))
_SOURCE = {
    "cluster": pa.string(),
    "topic": pa.string(),
    "source_topic_id": pa.string(),
    "partition": pa.int32(),
}
_NUMBERS = (
    "start",
    "end",
    "oldest_generation",
    "oldest_sequence",
    "forward_since",
    "began",
    "newest_generation",
    "newest_sequence",
    "since",
    "until",
    "records",
)
PORTIONS = pa.schema(
    _fields(
        **_SOURCE,
        segment=pa.string(),
        file=pa.string(),
        **dict.fromkeys(_NUMBERS, pa.int64()),
        covered=pa.list_(pa.field("element", _COVERED)),
        pieces=pa.list_(pa.field("element", _PIECE)),
        skipped=pa.list_(pa.field("element", _COVERED)),
        settings=pa.list_(pa.field("element", _UNDER)),
        set_at=pa.list_(pa.field("element", pa.int64(), nullable=False)),
        dropped=pa.list_(pa.field("element", _PIECE)),
    )
)
"""One row for each segment and source partition; see `Portion` and `PortionPiece`."""

SOURCE = tuple(_SOURCE)
"""The columns that name the source partition."""


def to_row(portion: Portion) -> dict[str, object]:
    """A portion as a row of the table."""
    numbers = (portion.start, portion.end, *portion.oldest, *portion.beginning[1:], *portion.newest)
    return {
        **dict(zip(_SOURCE, portion.source, strict=True)),
        "segment": portion.segment,
        "file": portion.file,
        **dict(zip(_NUMBERS, (*numbers, portion.since, portion.until, portion.records), strict=True)),
        "covered": [{"covered_from": start, "covered_to": end} for start, end in portion.covered],
        "pieces": [_piece_row(piece) for piece in portion.pieces],
        "skipped": [{"covered_from": start, "covered_to": end} for start, end in portion.skipped],
        "settings": [under._asdict() for under in portion.settings],
        "set_at": list(portion.set_at),
        "dropped": [_piece_row(piece) for piece in portion.dropped],
    }


def from_row(row: Mapping[str, Any]) -> Portion:
    """Makes a portion from a row of the table."""
    return Portion(
        source=SourcePartition(*(row[name] for name in _SOURCE)),
        segment=row["segment"],
        file=row["file"],
        start=row["start"],
        end=row["end"],
        covered=tuple(Covered(c["covered_from"], c["covered_to"]) for c in row["covered"]),
        oldest=Order(row["oldest_generation"], row["oldest_sequence"]),
        beginning=Beginning(row["oldest_generation"], row["forward_since"], row["began"]),
        newest=Order(row["newest_generation"], row["newest_sequence"]),
        since=row["since"],
        until=row["until"],
        records=row["records"],
        pieces=tuple(_piece(piece) for piece in row["pieces"]),
        # Tables of older releases lack these columns.
        skipped=tuple(Covered(c["covered_from"], c["covered_to"]) for c in row.get("skipped") or ()),
        settings=tuple(SettingsRange(**under) for under in row.get("settings") or ()),
        set_at=tuple(row.get("set_at") or ()),
        dropped=tuple(_piece(piece) for piece in row.get("dropped") or ()),
    )


def _piece_row(piece: PortionPiece) -> dict[str, object]:
    numbers = (piece.first_row, piece.rows, piece.mapped, piece.start, *piece.last)
    return {**dict(zip(_TARGET, piece.target, strict=True)), **dict(zip(_OF_PIECE, numbers, strict=True))}


def _piece(row: Mapping[str, Any]) -> PortionPiece:
    first_row, rows, mapped, start, *last = (row[name] for name in _OF_PIECE)
    return PortionPiece(Target(*(row[name] for name in _TARGET)), first_row, rows, mapped, start, Run(*last))


def to_table(portions: Iterable[Portion]) -> pa.Table:
    """Makes a table of portions, sorted by source partition and order."""
    rows = [to_row(portion) for of_source in by_source(portions).values() for portion in of_source]
    return pa.Table.from_pylist(rows, schema=PORTIONS)


def from_table(table: pa.Table) -> list[Portion]:
    """The portions of a table, in its order."""
    return [from_row(row) for row in table.to_pylist()]


def write_portions(root: IndexRoot, version: str, table: pa.Table) -> None:
    """Writes the table of a new version, which no manifest names yet."""
    with writable(root, VERSIONS, version, _FILE).open("xb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    publish(root, VERSIONS, version, _FILE)


def complete(table: pa.Table) -> pa.Table:
    """Adds the columns that an older release did not write, and converts all columns to the types of this release.

    That one did not ask what becomes of positions below a hole in the coverage: these are unknown (`fold.goes_on`).
    """
    is_old = "began" not in table.column_names
    for name, usual in (("forward_since", "oldest_generation"), ("began", "start")):
        if name not in table.column_names:
            table = table.append_column(name, table[usual])
    for field in PORTIONS:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.array([[]] * len(table), field.type))
    table = table.select(PORTIONS.names).cast(PORTIONS)
    return to_table(_behind_holes(from_table(table))) if is_old else table


def _behind_holes(portions: Iterable[Portion]) -> Iterator[Portion]:
    """Portions that cover only what lies behind the last hole of their source partition."""
    for of_source in by_source(portions).values():
        last = covered_ranges(of_source)[-1:]
        for portion in of_source:
            yield replace(portion, covered=tuple(each for each in portion.covered if each.start >= last[0].start))


def read_portions(root: IndexRoot, version: str, columns: Sequence[str] = PORTIONS.names) -> pa.Table:
    """Reads the table of a version; columns that an older release did not write are empty.

    Args:
        root: Directory of the index.
        version: Name of the version.
        columns: The columns to read.

    Raises:
        FileNotFoundError: The version was removed, because later ones have replaced it.
    """
    with fetched(root, VERSIONS, version, _FILE).open("rb") as file:
        table = pq.ParquetFile(file).read(columns=list(columns), use_threads=False)
    return complete(table) if list(columns) == PORTIONS.names else table
