"""Tables of positions to adopt: CSV, YAML or JSON, also as `k2k-tool describe` prints it. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition

# What a column may be called; the first is the name that messages use.
_COLUMNS = {
    "topic": ("topic",),
    "partition": ("partition",),
    "offset": ("offset", "source offset", "source_offset", "sourceOffset", "committed"),
    "target": ("target offset", "target_offset", "targetOffset"),
}

_STARTS = ("earliest", "latest", "end")


@dataclass(frozen=True, slots=True)
class AdoptedPosition:
    """How far another tool has copied a source partition.

    Attributes:
        offset: Next source offset to copy.
        target_offset: Target offset after the last record that it copied; None if nobody says.
        told: Who says so, where that is more than the table.
    """

    offset: int
    target_offset: int | None = None
    told: str = ""


@dataclass(frozen=True, slots=True)
class AdoptedTable:
    """A table.

    Attributes:
        positions: By source partition.
        cluster: Source cluster id that it is of; None if it does not say.
        name: Names it in messages.
    """

    positions: Mapping[TopicPartition, AdoptedPosition]
    cluster: str | None
    name: str


def parse_table(text: str, name: str) -> AdoptedTable:
    """Reads a table.

    Args:
        text: CSV with a line of column names, or YAML or JSON: a list of rows, or what `k2k-tool describe` prints.
        name: Names it in errors.

    Raises:
        Refused: It cannot be read.
    """
    text = text.removeprefix("\ufeff")  # by which some programs begin a file in UTF-8
    first = next((line for line in text.splitlines() if line.strip()), "")
    if "," in first and ":" not in first and not first.lstrip().startswith(("[", "{")):
        rows = csv.DictReader(io.StringIO(text.strip(), newline=None), skipinitialspace=True)
        try:
            return AdoptedTable(_positions(rows, name), None, name)
        except csv.Error as error:
            raise Refused(f"{name} cannot be read as CSV: {error}") from None
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise Refused(f"{name} is neither CSV nor YAML nor JSON: {_one_line(error)}") from None
    if len(documents) != 1:
        raise Refused(f"{name} holds {len(documents)} documents; wanted: those of one pipeline")
    (document,) = documents
    cluster = None
    if isinstance(document, dict):
        cluster = document.get("source")
        document = document.get("committed", document.get("positions"))
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise Refused(
            f"{name} has no rows: wanted is a list of topic, partition, offset and perhaps target offset, CSV with "
            "these columns, or what k2k-tool describe prints"
        )
    return AdoptedTable(_positions(document, name), cluster if isinstance(cluster, str) else None, name)


def _positions(rows: Iterable[Mapping[Any, Any]], name: str) -> dict[TopicPartition, AdoptedPosition]:
    found: dict[TopicPartition, AdoptedPosition] = {}
    for number, row in enumerate(rows, 1):
        where = f"{name}, row {number}"
        cells = {str(column).strip(): value for column, value in row.items() if column is not None}
        topic = _cell(cells, "topic", where)
        if not isinstance(topic, str):
            # Whoever wrote 007 or 2026-11-26 meant a name; which one, only they know.
            raise Refused(f"{where}: 'topic' is no text but {topic!r} to YAML or JSON: put the name in quotes")
        tp = TopicPartition(topic.strip(), _number(_cell(cells, "partition", where), "partition", where))
        if tp in found:
            raise Refused(f"{where}: {tp} comes twice")
        target = _cell(cells, "target", where, is_needed=False)
        found[tp] = AdoptedPosition(
            _number(_cell(cells, "offset", where), "offset", where),
            None if target in (None, "") else _number(target, "target offset", where),
        )
    if not found:
        raise Refused(f"{name} has no rows")
    return found


def _cell(cells: Mapping[str, Any], column: str, where: str, is_needed: bool = True) -> Any:
    names = _COLUMNS[column]
    value = next((cells[name] for name in names if name in cells), None)
    if is_needed and value in (None, ""):
        raise Refused(f"{where}: '{names[0]}' is missing" + (f" ({' or '.join(names[1:])})" if names[1:] else ""))
    return value


def _number(value: object, column: str, where: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        named = f"; '{text}' says where to begin, not how far a copy has come" if text in _STARTS else ""
        raise Refused(f"{where}: '{column}' is no whole number from 0{named}")
    return int(text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
