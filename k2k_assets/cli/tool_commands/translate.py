"""`k2k-tool translate`: translates a position of one cluster into a position of the other."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.timestamps import Timestamp
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import utc

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.translation import TranslatedCheckpoint, TranslatedOffset

_WHAT_TO_DO = {
    "may be read again": "nothing is skipped, and some records are read for a second time",
    "ahead": "beyond what is copied: the answer is the end of the copy, and moves with it",
    "unknown": "the mappings do not prove an answer: mapping was switched on later, mapping records are lost, or the "
    "position lies beyond the end of the log",
    "not replicated": "nothing of this partition was copied there",
    "expired": "the record is deleted there: the answer is raised to the log start",
}


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@tool_options
@click.option("--topic", help="Source topic; with --reverse target topic.")
@click.option("--partition", type=click.IntRange(0, 2**31 - 1), help="Partition of the topic.")
@click.option("--offset", type=click.IntRange(0), help="The position: next offset to read.")
@click.option("--timestamp", type=Timestamp(), help="Instead of an offset: time of the first record to read.")
@click.option(
    "--checkpoint", "checkpoint", type=click.File(),
    help='Instead of a topic: all offsets of a Spark query, {"topic":{"0":23}}, or a file of its checkpoint\'s '
    "directory 'offsets'; - reads standard input.",
)  # fmt: skip
@click.option("--reverse", is_flag=True, help="From the target back to the source.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --checkpoint, in the form of startingOffsets.")
def translate(
    call: ToolCall,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    timestamp: int | None,
    checkpoint: IO[str] | None,
    reverse: bool,
    as_json: bool,
) -> None:
    """Translates a position of the source into one of the target, or --reverse; exact where the mappings prove it.

    The exit code is 3 if there is no answer.
    """
    # The mapper's log must not be part of the answer.
    call.show_log(quiet=True)
    if checkpoint is not None:
        if topic is not None or partition is not None or offset is not None or timestamp is not None:
            raise click.UsageError("--checkpoint cannot be combined with --topic, --partition, --offset or --timestamp")
        _translate_checkpoint(call.one(), checkpoint.read(), checkpoint.name, reverse, as_json)
        return
    if topic is None or partition is None or (offset is None) == (timestamp is None):
        raise click.UsageError(
            "expected --topic, --partition and one of --offset and --timestamp; or --checkpoint alone"
        )
    _translate_position(call.one(), (topic, partition), offset, timestamp, reverse, as_json)


def _translate_position(
    pipeline: Pipeline,
    place: tuple[str, int],
    offset: int | None,
    timestamp: int | None,
    reverse: bool,
    as_json: bool,
) -> None:
    from k2k_assets.translation import OffsetTranslator

    with OffsetTranslator.open(pipeline) as translator:
        if offset is None and timestamp is not None:
            offset = translator.offset_at(*place, timestamp, reverse=reverse)
        assert offset is not None
        rows = (translator.translate_back if reverse else translator.translate)(*place, [offset])
        unknown = any(row.state == "unknown" for row in rows)
        end = translator.end_of(*place, reverse=reverse) if unknown else None
    if as_json:
        click.echo(json.dumps(_document(rows, timestamp, "source" if reverse else "target")))
    else:
        click.echo(_message(rows, timestamp, end))
    if all(row.to_offset is None for row in rows):
        raise Refused(f"{place[0]}-{place[1]} at {offset} has no answer: {_what_to_do(rows[0], end)}")


def _translate_checkpoint(pipeline: Pipeline, text: str, name: str, reverse: bool, as_json: bool) -> None:
    from k2k_assets.translation import spark_offsets, translate_checkpoint

    positions = spark_offsets.parse(text, name)
    found = translate_checkpoint(pipeline, positions, reverse=reverse)
    if not as_json or not found.complete:
        # With --json, standard output is only for the answer, and a part of it would skip records.
        click.echo(_table(found), err=as_json)
    if not found.complete:
        missing = [f"{row.partition} ({row.state})" for row in found.partitions if row.offset is None]
        raise Refused(f"no answer for {', '.join(missing)}. {_explained(found)}")
    click.echo(found.spark_json())


def _document(rows: list[TranslatedOffset], timestamp: int | None, side: str) -> dict[str, object]:
    first = rows[0]
    asked: dict[str, object] = {"topic": first.topic, "partition": first.partition, "offset": first.offset}
    if timestamp is not None:
        asked["timestamp"] = timestamp
    answers = [
        {
            f"{side}Topic": row.to_topic,
            f"{side}Partition": row.to_partition,
            f"{side}Offset": row.to_offset,
            "state": row.state,
            **({"readAgain": row.read_again} if row.read_again else {}),
            **({"droppedBy": row.dropped_by} if row.dropped_by else {}),
        }
        for row in rows
    ]
    return {**asked, "answers": answers}


def _what_to_do(row: TranslatedOffset, end: int | None) -> str:
    """Advice for a state that is not exact.

    Args:
        row: The answer.
        end: End of the log that the position belongs to, if known.
    """
    if row.state == "unknown" and end is not None and row.offset > end:
        return (
            f"beyond the end of the log, {end}: there is no such record yet, or it was in a deleted topic of that name"
        )
    return _WHAT_TO_DO[row.state]


def _message(rows: list[TranslatedOffset], timestamp: int | None, end: int | None) -> str:
    first = rows[0]
    at = f", first record from {utc(timestamp)} on" if timestamp is not None else ""
    lines = [f"{first.topic}-{first.partition} at {first.offset}{at}"]
    for row in rows:
        place = "nowhere" if row.to_topic is None else f"{row.to_topic}-{row.to_partition}"
        offset = "" if row.to_offset is None else f" at {row.to_offset}"
        note = f": {_what_to_do(row, end)}" if row.state in _WHAT_TO_DO else ""
        if row.read_again:
            note += f" ({row.read_again} that lie in another order there)"
        if row.dropped_by:
            note += f" (the record at {row.offset} was left out by the rule {row.dropped_by!r})"
        lines.append(f"  -> {place}{offset}   {row.state}{note}")
    return "\n".join(lines)


def _table(found: TranslatedCheckpoint) -> str:
    lines = []
    for row in found.partitions:
        offset = "?" if row.offset is None else str(row.offset)
        come_from = ", ".join(f"{tp} at {at}" for tp, at in sorted(row.sources.items())) or "nothing is copied to it"
        lines.append(f"{row.partition} at {offset}   {row.state}   <- {come_from}")
    return "\n".join(lines)


def _explained(found: TranslatedCheckpoint) -> str:
    states = sorted({row.state for row in found.partitions if row.offset is None})
    return "; ".join(f"{state}: {_WHAT_TO_DO[state]}" for state in states)
