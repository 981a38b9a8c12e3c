"""`k2k-offset-mapping`: moves consumer groups, so that they can continue at the exact record on the target."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.mapper_commands.failback import failback
from k2k_assets.cli.mapper_commands.validate_mapper import validate_mapper
from k2k_assets.cli.options import pipeline_files, start_options
from k2k_assets.cli.program import Program
from k2k_assets.cli.signals import run_aside, stop_on_signals
from k2k_assets.cli.streams import error_console
from k2k_assets.cli.telemetry_extra import telemetry_needed
from k2k_assets.cli.termination_log import failure_written_to
from k2k_assets.core.errors import Refused
from k2k_assets.core.log_fields import note
from k2k_assets.core.this_process import this_process
from k2k_assets.core.words import plural

if TYPE_CHECKING:
    from k2k_assets.cli.mapper_commands.group_status import Observer
    from k2k_assets.groups.report import PollResult
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.telemetry.mapper_listener import MapperListener

NAME = "k2k-offset-mapping"

_log = logging.getLogger("k2k.cli")
_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_CONTEXT)
@click.version_option(package_name="k2k-assets", prog_name=NAME)
def cli() -> None:
    """Translates the positions of consumer groups from the source cluster to the target cluster."""


@cli.command(epilog=epilog(0, 1, 2, 3, 4, 130), context_settings=_CONTEXT)
@pipeline_files
@click.option("--once", is_flag=True, help="Poll all groups once, commit, and end with a summary.")
@start_options
def start(
    files: tuple[Path, ...],
    once: bool,
    telemetry: bool,
    variables: bool,
    termination_log: Path,
    termination_log_enabled: str,
) -> None:
    """Translates the positions of consumer groups until SIGINT or SIGTERM, or --once.

    It uses the replicator's own file. It commits only on the target, and never in a group that has members there.
    """
    console = error_console()
    logs.configure(console)
    with failure_written_to(termination_log, termination_log_enabled == "enabled"), stop_on_signals() as stop:
        run_aside(_start, files, variables, console, once, telemetry, stop)


def _start(
    files: Sequence[Path], variables: bool, console: Console, once: bool, telemetry: bool, stop: threading.Event
) -> None:
    # Importing Kafka and Arrow takes a moment, which --help does not need.
    from k2k_assets.cli.mapper_commands.group_status import GroupLines, summary
    from k2k_assets.groups.mapper import sync_once
    from k2k_assets.groups.mapper_file import load_mapper_pipeline

    pipeline = load_mapper_pipeline(files, variables=variables)
    note(pipeline=pipeline.name, instance=this_process())
    for info in pipeline.infos:
        _log.info(info)
    for warning in pipeline.warnings:
        _log.warning(warning)
    with _exporting(pipeline) if telemetry else nullcontext() as listener:
        if not once:
            _sync(pipeline, console, stop, listener)
            return
        result = sync_once(pipeline, stop=stop, observer=_both(GroupLines().show, listener))
    click.echo(summary(pipeline.name, result))
    if result.failed:
        reasons = "".join(f"\n  {group}: {why}" for group, why in sorted(result.failed.items()))
        raise Refused(f"{plural(len(result.failed), 'group')} could not be read or committed; run it again:{reasons}")


def _sync(pipeline: Pipeline, console: Console, stop: threading.Event, listener: MapperListener | None) -> None:
    from k2k_assets.cli.mapper_commands.group_status import shown
    from k2k_assets.groups.mapper import sync

    on_trouble = listener.troubled if listener else None
    with shown(console) as observer:
        sync(pipeline, stop, observer=_both(observer, listener), on_trouble=on_trouble)


def _exporting(pipeline: Pipeline) -> AbstractContextManager[MapperListener]:
    with telemetry_needed():
        from k2k_assets.telemetry.exporting import exporting_mapper
    return exporting_mapper(pipeline)


def _both(show: Observer, listener: MapperListener | None) -> Observer:
    if listener is None:
        return show
    hears = listener

    def observe(result: PollResult) -> None:
        show(result)
        hears.polled(result)

    return observe


cli.add_command(failback)
cli.add_command(validate_mapper)


_program = Program(cli, NAME)
main, run = _program.main, _program.run


if __name__ == "__main__":
    main()
