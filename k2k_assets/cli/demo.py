"""`k2k demo`: a whole copy on the sandbox, with a summary; `--ui`: the sandbox under Dagster's UI, until Ctrl-C."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from k2k_assets.cli import logs
from k2k_assets.cli.signals import terminated_as_interrupted
from k2k_assets.core.errors import K2KError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--ui", is_flag=True, help="Keep writing sample traffic and open Dagster's UI on it, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(1, 65535), envvar="DAGSTER_PORT", help="Port of the UI; by default a free one."
)
def demo(ui: bool, port: int | None) -> int:
    """Copies sample topics between two real Kafka clusters, exactly once, through Dagster, and shows the result.

    Ends with 0 when every record was copied, every asset was materialized and no check failed.
    """
    # Importing Dagster and Spark takes seconds, which --help does not need.
    from k2k_assets.demo.screen import Screen, all_else_into

    logs.set_up_jvm()
    with _log_file() as log, terminated_as_interrupted(), all_else_into(log) as console:
        if ui:
            from k2k_assets.demo.dagster_ui import run_ui

            run_ui(Screen(console), log, port)
            return 0
        from k2k_assets.demo.demo import run_demo

        if run_demo(Screen(console)):
            return 0
        raise K2KError("the demo failed.")


@contextmanager
def _log_file() -> Iterator[Path]:
    """A file for the output of Spark and Dagster; after a failure it is kept, and a message names it."""
    with tempfile.NamedTemporaryFile(prefix="k2k-demo-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    try:
        yield log
    except KeyboardInterrupt:
        _remove(log)
        click.echo("Interrupted: everything is stopped.", err=True)
        raise
    except BaseException:
        click.echo(f"The output of Spark and Dagster is in {log}", err=True)
        raise
    _remove(log)


def _remove(log: Path) -> None:
    with suppress(OSError):
        log.unlink()
