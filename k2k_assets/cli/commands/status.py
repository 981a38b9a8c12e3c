"""`k2k status`: how far a copy is, on one screen or as JSON. It only reads."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.signals import terminated_as_interrupted
from k2k_assets.cli.streams import error_console, tell
from k2k_assets.core.errors import K2KError
from k2k_assets.pipeline import Pipeline, load_pipeline

if TYPE_CHECKING:
    from k2k_assets.status.copy_status import CopyStatus

Show = Callable[["CopyStatus"], None]

# Width of a screen that is not a terminal.
_COLUMNS = 140


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(0.5), default=2.0, show_default=True, metavar="SECONDS",
    help="Time between two refreshes of --watch.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch one document a line.")
@template_engine
def status(files: tuple[Path, ...], watch: bool, interval: float, as_json: bool, variables: bool) -> None:
    """Shows how far a copy is: what is stopped and why, how far behind it is, and how fast it goes.

    It works beside a running copy or without one. It reads both clusters and the commit log, and writes nothing.
    """
    from k2k_assets.cli.commands.status_screen import LiveScreen, status_screen
    from k2k_assets.status.document import status_document

    logs.configure(error_console())
    logging.getLogger("k2k").setLevel(logging.WARNING)
    pipeline = load_pipeline(files, variables=variables)
    screen = partial(status_screen, pipeline)

    def print_json(found: CopyStatus) -> None:
        tell(json.dumps(status_document(pipeline, found)))

    console = Console()
    if not console.is_terminal:
        console = Console(width=_COLUMNS)
    if not watch:
        _look(pipeline, print_json if as_json else lambda found: console.print(screen(found)))
    elif as_json:
        _watch(pipeline, interval, print_json, lambda error: click.echo(str(error), err=True))
    else:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            in_place = LiveScreen(live, screen)
            _watch(pipeline, interval, in_place.show, in_place.tell)


def _look(pipeline: Pipeline, show: Show) -> None:
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.status.copy_reader import CopyReader

    with both_clusters(pipeline) as (source, target), CopyReader(pipeline, source, target) as reader:
        show(reader.read())


def _watch(pipeline: Pipeline, interval: float, show: Show, tell_error: Callable[[K2KError], None]) -> None:
    """Refreshes until it is interrupted; after the first refresh it waits for a cluster that does not answer."""
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.status.copy_reader import CopyReader

    seen = False
    try:
        with terminated_as_interrupted():
            while True:
                try:
                    with both_clusters(pipeline) as (source, target), CopyReader(pipeline, source, target) as reader:
                        while True:
                            show(reader.read())
                            seen = True
                            time.sleep(interval)
                except K2KError as error:
                    if not seen:
                        raise
                    tell_error(error)
                    time.sleep(interval)
    except KeyboardInterrupt:
        return
