"""`k2k-tool show`: a record of the source beside its copy."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import utc

if TYPE_CHECKING:
    from k2k_assets.verification.content.record_pair import RecordPlace, ShownRecord

_MOST_SHOWN = 400
# Width of a table that is not on a terminal.
_COLUMNS = 160
_PLACE = "TOPIC:PARTITION:OFFSET"


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@tool_options
@click.option("-o", "--offset", "source", metavar=_PLACE, help="The record on the source.")
@click.option("--target", metavar=_PLACE, help="The record on the target.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; keys, values and headers in base64.")
def show(
    call: ToolCall,
    source: str | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Shows a record of the source beside its copy, and their differences.

    With only -o or only --target, the mappings give the place of the other record. A failed check names this command
    for the records that it found. The output contains the data itself.
    """
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.verification.content.expected_headers import ClusterIds
    from k2k_assets.verification.content.record_pair import (
        Differences,
        differences_of,
        facing,
        record_at,
        settings_at,
    )

    call.show_log(quiet=True)
    there, here = _place(source, "-o"), _place(target, "--target")
    if there is None and here is None:
        raise click.UsageError("expected -o, --target, or both")
    pipeline = call.one()
    dropped_by = None
    if there is None:
        assert here is not None
        there = facing(pipeline, "target", here).place
    elif here is None:
        here, dropped_by = facing(pipeline, "source", there)
    settings = None
    with both_clusters(pipeline) as (on_source, on_target):
        original = record_at(pipeline, on_source, there) if there else None
        copy = record_at(pipeline, on_target, here) if here else None
        ids = ClusterIds.of(on_source, on_target)
        if there and original and copy:
            settings = settings_at(pipeline, there, on_source, on_target)
    (found, without_schema, other_rules), unknown = Differences([], [], []), ""
    if there and original and copy:
        try:
            found, without_schema, other_rules = differences_of(pipeline, there, original, copy, ids, settings)
        except Refused as why:
            unknown = str(why)
    if as_json:
        sides = {"source": _document(there, original), "target": _document(here, copy)}
        dropped = {"droppedBy": dropped_by} if dropped_by else {}
        schemas = {"schemaUnknown": without_schema} if without_schema else {}
        rules = {"schemaRules": other_rules} if other_rules else {}
        differs = {"differs": None, "notCompared": unknown} if unknown else {"differs": found}
        click.echo(json.dumps({**sides, **differs, **schemas, **rules, **dropped}))
        return
    console = Console()
    table = _table([(there, original), (here, copy)], found)
    (console if console.is_terminal else Console(width=_COLUMNS)).print(table)
    click.echo(f"Not compared: {unknown}." if unknown else _message(original, copy, found, dropped_by))
    if without_schema:
        click.echo(f"A registry does not have the schema of the {' and the '.join(without_schema)} any more.")
    if other_rules:
        click.echo(
            f"The target's registry has the schema of the {' and the '.join(other_rules)} without all its rules."
        )


def _place(text: str | None, option: str) -> RecordPlace | None:
    from k2k_assets.verification.content.record_pair import RecordPlace

    try:
        return None if text is None else RecordPlace.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"'{option}'") from None


def _message(original: ShownRecord | None, copy: ShownRecord | None, found: list[str], dropped_by: str | None) -> str:
    if dropped_by:
        return f"The record was left out on purpose, by the rule {dropped_by!r}: it has no copy."
    if original and copy:
        return f"They differ in: {', '.join(found)}." if found else "The copy equals the record."
    return "There are not two records to compare: an offset without a record is a marker, was aborted, or was removed."


def _table(sides: list[tuple[RecordPlace | None, ShownRecord | None]], found: list[str]) -> Table:
    table = Table("", "source", "target", show_edge=False)
    table.add_row("record", *(str(place) if place else "not in the mappings" for place, _ in sides))
    for part in ("timestamp", "key", "value", "headers"):
        cells = (escape(_cell(part, seen)) for _, seen in sides)
        table.add_row(part, *cells, style="red" if part in found else None)
    return table


def _cell(part: str, seen: ShownRecord | None) -> str:
    if seen is None:
        return "no record"
    if part == "timestamp":
        if seen.timestamp is None:
            return "none"
        return utc(seen.timestamp) + (" (set by the broker)" if seen.by_broker else "")
    if part == "headers":
        return "\n".join(f"{name}: {_text(value)}" for name, value in seen.headers) or "none"
    return _text(seen.key if part == "key" else seen.value)


def _text(value: bytes | None) -> str:
    """UTF-8 text, or else hexadecimal; long values are shortened."""
    if value is None:
        return "null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or (value and not text):
        text = f"0x{value[: _MOST_SHOWN // 2].hex()}"
        return text if len(value) <= _MOST_SHOWN // 2 else f"{text}... ({len(value):,} bytes)"
    if len(text) > _MOST_SHOWN:
        return f"{text[:_MOST_SHOWN]}... ({len(value):,} bytes)"
    return text or "empty"


def _document(place: RecordPlace | None, seen: ShownRecord | None) -> dict[str, object] | None:
    if place is None:
        return None
    at: dict[str, object] = {
        "topic": place.partition.topic,
        "partition": place.partition.partition,
        "offset": place.offset,
    }
    if seen is None:
        return {**at, "record": None}
    record = {
        "timestamp": seen.timestamp,
        "timestampByBroker": seen.by_broker,
        "key": _encoded(seen.key),
        "value": _encoded(seen.value),
        "headers": [{"key": name, "value": _encoded(value)} for name, value in seen.headers],
    }
    return {**at, "record": record}


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
