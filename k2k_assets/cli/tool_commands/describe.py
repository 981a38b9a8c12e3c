"""`k2k-tool describe`: the committed positions of a pipeline, from the commit log."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
import yaml
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.suggestions import with_files
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options
from k2k_assets.core.words import plural, utc

if TYPE_CHECKING:
    from k2k_assets.overrides.committed import CommittedPosition, CommittedPositions
    from k2k_assets.pipeline import Pipeline

# Width of a table that is not on a terminal.
_COLUMNS = 140


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@tool_options
@click.option("--table", "form", flag_value="table", help="Print a table with lag and totals, as on a terminal.")
@click.option("--yaml", "form", flag_value="yaml", help="Print YAML, as in a pipe or a file.")
@click.option("--json", "form", flag_value="json", help="Print the same as JSON.")
def describe(call: ToolCall, form: str | None) -> None:
    """Shows the committed positions: 'committed' is the next offset to copy, 'last' the end of the source.

    A stopped partition shows its reason and the reason's code. A partition that was set by hand shows who did it, when
    and why. Each pipeline is a YAML document, or a line of JSON.
    """
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.committed import committed

    call.show_log(quiet=True)
    for number, pipeline in enumerate(call.each()):
        with both_clusters(pipeline) as (source, target):
            state = committed(pipeline, source, target)
        _print(pipeline, state, form, is_first=number == 0)


def _print(pipeline: Pipeline, state: CommittedPositions, form: str | None, is_first: bool) -> None:
    if (form or ("table" if sys.stdout.isatty() else "yaml")) == "table":
        console = Console()
        if not is_first:
            console.print()
        (console if console.is_terminal else Console(width=_COLUMNS)).print(positions_table(pipeline, state))
        return
    document = {
        "pipeline": pipeline.name,
        "source": state.source,
        "target": state.target,
        "group": pipeline.group,
        "committed": [_partition(one) for one in state.partitions],
    }
    if form == "json":
        click.echo(json.dumps(document))
    else:
        if not is_first:
            click.echo("---")
        click.echo(yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=True), nl=False)


def positions_table(pipeline: Pipeline, state: CommittedPositions) -> Group:
    """Positions and lag by partition, with totals; then the stopped partitions and what to do about them.

    Args:
        pipeline: The pipeline.
        state: Its positions.
    """
    from k2k_assets.core.stops.reason import render

    table = Table("topic", box=None, pad_edge=False, header_style="bold")
    for name in ("partition", "committed", "last", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for one in state.partitions:
        numbers = (one.record.position if one.record else None, one.last, one.lag)
        table.add_row(
            one.source.topic, str(one.source.partition), *map(_shown, numbers), escape(_note(one)),
            style="red" if one.stopped else "",
        )  # fmt: skip
    table.add_section()
    lag = sum(one.lag or 0 for one in state.partitions)
    topics = plural(len({one.source.topic for one in state.partitions}), "topic")
    table.add_row(topics, str(len(state.partitions)), "", "", f"{lag:,}", style="bold")
    stops = [
        Text(f"\n{one.source}: {with_files(render(one.stopped))}", style="red")
        for one in state.partitions
        if one.stopped
    ]
    return Group(Text(f"{pipeline.name}, group {pipeline.group}"), table, *stops)


def _shown(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _note(one: CommittedPosition) -> str:
    """Remarks about a partition, for the table."""
    notes = [f"stopped [{one.stopped.code}]"] if one.stopped else []
    if one.paused:
        notes.append(str(one.paused))
    if one.last is None:
        notes.append("gone from the source, or hidden")
    if one.record and one.record.dropped:
        notes.append(f"{plural(one.record.dropped, 'record')} left out by rules since the last start")
    if one.record and one.record.kind == "override" and one.record.overridden:
        notes.append(f"set by hand by {one.record.overridden.by}")
    return ", ".join(notes)


def _partition(one: CommittedPosition) -> dict[str, Any]:
    from k2k_assets.core.stops.reason import render

    record = one.record
    row: dict[str, Any] = {
        "topic": one.source.topic,
        "partition": one.source.partition,
        "committed": record.position if record else None,
        "last": one.last,
    }
    if record and record.dropped:
        row["dropped"] = record.dropped
    if one.stopped:
        row |= {"stopped": render(one.stopped, with_code=False), "stop_code": one.stopped.code}
    if one.paused:
        row["paused"] = {"by": one.paused.by, "at": utc(one.paused.time)}
        row["paused"] |= {"reason": one.paused.why} if one.paused.why else {}
    if record and record.kind == "override" and record.overridden:
        done = record.overridden
        row["override"] = {"by": done.by, "at": utc(record.time), "before": done.position}
        row["override"] |= {"reason": done.why} if done.why else {}
    return row
