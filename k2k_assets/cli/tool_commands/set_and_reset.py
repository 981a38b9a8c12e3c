"""`k2k-tool set` and `k2k-tool reset`: positions by hand, recorded in the commit log."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural

if TYPE_CHECKING:
    from k2k_assets.overrides.decide import Override
    from k2k_assets.pipeline import Pipeline

F = TypeVar("F", bound=Callable[..., Any])
_CONTEXT = {"help_option_names": ["-h", "--help"]}


def _override_options(command: F) -> F:
    """The options that `set` and `reset` share: `new_topic`, ... `force`."""
    options: tuple[Callable[[F], F], ...] = (
        click.option(
            "--accept-new-topic", "new_topic", is_flag=True,
            help="Continue although a source or target topic was deleted and created again.",
        ),
        click.option(
            "--accept-foreign-records", "foreign_records", is_flag=True,
            help="Accept the records that others have written to the target partitions so far.",
        ),
        click.option("--reason", "why", metavar="TEXT", help="Reason, for the commit log."),
        click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing."),
        click.option(
            "--force", is_flag=True, help="Take the partitions from an instance that has claimed them: it is fenced."
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command("set", epilog=epilog(0, 1, 2, 3, 4, 130), context_settings=_CONTEXT)
@tool_options
@click.option(
    "-o", "--offset", "offsets", metavar="TOPIC:PARTITION:OFFSET", multiple=True, required=True,
    help="Source topic, source partition or 'all', and the offset to copy next: a number, 'earliest' (the log start), "
    "'latest' (the end of what can be read) or 'current' (stay). Repeat it for several.",
)  # fmt: skip
@_override_options
def set_positions(call: ToolCall, offsets: tuple[str, ...], **options: Any) -> None:
    """Sets the positions at which copying continues. Skipped records are never copied, and are noted as skipped.

    A lower position copies records a second time. Stop the pipeline first.
    """
    from k2k_assets.overrides.request import Wanted

    try:
        wanted = tuple(map(Wanted.parse, offsets))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'-o'") from None
    call.show_log()
    _override(call.one(), wanted, **options)


@click.command(epilog=epilog(0, 1, 2, 3, 4, 130), context_settings=_CONTEXT)
@tool_options
@_override_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def reset(call: ToolCall, yes: bool, dry_run: bool, **options: Any) -> None:
    """Sets all positions of the pipeline, or of several, to the log start: everything is copied again.

    On a terminal it shows the changes and asks for confirmation. Stop the pipeline first.
    """
    asks = not (yes or dry_run) and sys.stdin.isatty()
    call.show_log()
    for pipeline in call.each():
        if len(call.pipelines) > 1:
            click.echo(f"{pipeline.name}:")
        _override(pipeline, None, dry_run=dry_run, asks=asks, **options)


def _override(
    pipeline: Pipeline,
    wanted: Any,
    new_topic: bool,
    foreign_records: bool,
    why: str | None,
    dry_run: bool,
    force: bool,
    asks: bool = False,
) -> None:
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.apply import override, rehearse
    from k2k_assets.overrides.request import Request, from_log_start
    from k2k_assets.topics.selection import resolve_topics

    with both_clusters(pipeline) as (source, target):
        if wanted is None:
            wanted = from_log_start(resolve_topics(pipeline, source))
        request = Request(wanted, who(), why, new_topic, foreign_records)
        if dry_run or asks:
            decided = rehearse(pipeline, source, target, request)
            _show(decided)
        if asks:
            _confirm(decided)
        if not dry_run:
            decided = override(pipeline, source, target, request, force=force)
            if not asks:
                _show(decided)
    count = plural(len(decided), "position")
    click.echo(f"{count} would be set; nothing was" if dry_run else f"{count} set")


def _show(decided: Sequence[Override]) -> None:
    from k2k_assets.overrides.decide import describe_override

    for one in decided:
        click.echo(describe_override(one))


def _confirm(decided: Sequence[Override]) -> None:
    """Asks whether to copy these offsets again."""
    again = plural(sum(len(one.again) for one in decided), "source offset")
    if not click.confirm(f"Copy {again} again, behind what was copied?", err=True):
        raise Refused("not confirmed; nothing was changed")


def who() -> str:
    """User and host, if they are known."""
    user = "?"
    with suppress(KeyError, OSError):  # a container may know no name for its user
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"
