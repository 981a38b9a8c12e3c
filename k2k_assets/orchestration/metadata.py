"""The metadata of assets and checks: their keys, and how to make tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dagster import MetadataValue, TableColumn, TableMetadataValue, TableRecord, TableSchema

TARGET_TOPIC = "k2k/target_topic"
COPIED_BY = "k2k/copied_by"
RECORDS = "k2k/records"
BYTES = "k2k/bytes"
OFFSET_RANGES = "k2k/offset_ranges"
LAG = "k2k/lag"
SECONDS_BEHIND = "k2k/seconds_behind"
LATENCY = "k2k/latency_seconds"
RATE = "k2k/records_per_second"
OFFSETS_WRITTEN = "k2k/offsets_written_per_second"
OFFSETS_COPIED = "k2k/offsets_copied_per_second"
WORST = "k2k/worst_partition"
SECONDS = "k2k/seconds"
TARGET_END = "k2k/target_end_offset"
POSITIONS = "k2k/positions"
PARTITIONS = "k2k/partitions"
END_OFFSETS = "k2k/end_offsets"
TOPICS = "k2k/topics"
STOPPED = "k2k/stopped"
PAUSED = "k2k/paused"
TRANSPORT_FORM = "k2k/transport_form"
MAPPED = "k2k/mapped_records"
COMPRESSION = "k2k/records_per_offset_range"
COVERAGE = "k2k/coverage"
INDEX_PATH = "k2k/index_path"
TABLE_PATH = "k2k/table_path"
INDEX_VERSION = "k2k/index_version"
LOST = "k2k/lost_mapping_ranges"
SEGMENTS = "k2k/segments"
PRUNED = "k2k/pruned"
SUMMARY = "k2k/summary"
OFFENDERS = "k2k/offenders"
COUNTS = "k2k/counts"
VERIFIED = "k2k/verified"
LOOKED_AT = "k2k/looked_at_percent"
WAY = "k2k/compared_how"
SHOW = "k2k/show_first_offender"
GROUPS = "k2k/groups"
GROUPS_EXACT = "k2k/groups_exact"
GROUPS_AHEAD = "k2k/groups_ahead"
GROUPS_UNKNOWN = "k2k/groups_unknown"
COMMITTED = "k2k/committed"
LEFT_ON_SOURCE = "k2k/left_on_source"
LEFT_ON_TARGET = "k2k/left_on_target"
STATE = "k2k/state"
POSITIONS_BY_STATE = "k2k/positions_by_state"
OBSERVATION = "k2k/observation"
NOT_HANDLED = "k2k/not_handled"
HELD_BACK = "k2k/held_back"
READ_AGAIN = "k2k/read_again"
UNPROVEN = "k2k/unproven"
MAPPINGS = "k2k/mappings"
MOVED_BY = "k2k/moved_by"

# A table of metadata is one event in Dagster's database, which should stay small.
MOST_ROWS = 500
# Rows of a table that is reported repeatedly.
MOST_ROWS_AGAIN = 20

Metadata = dict[str, MetadataValue[Any] | str | int | float]
Cell = str | int | float | bool | None


def table(columns: Mapping[str, str], rows: Iterable[Sequence[Cell]], most: int = MOST_ROWS) -> TableMetadataValue:
    """A table.

    Args:
        columns: Name to type (`string`, `int`, `float`).
        rows: Cells in the order of the columns.
        most: Most rows to show.
    """
    names = list(columns)
    records = [TableRecord(dict(zip(names, row, strict=True))) for row, _ in zip(rows, range(most), strict=False)]
    return MetadataValue.table(records, TableSchema([TableColumn(name, kind) for name, kind in columns.items()]))


def transport_form(form: str) -> Metadata:
    """The entry that says how a topic's records were brought; none where none were.

    Args:
        form: `batches`, or `records` with the reason; may be empty.
    """
    return {TRANSPORT_FORM: form} if form else {}


def column_schema(columns: Mapping[str, tuple[str, str]]) -> dict[str, TableSchema]:
    """The column schema of an asset that is a table.

    Args:
        columns: Type and description of each column.
    """
    of_all = [TableColumn(name, kind, meaning) for name, (kind, meaning) in columns.items()]
    return {"dagster/column_schema": TableSchema(of_all)}


def instant(milliseconds: int) -> str:
    """A wall time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
