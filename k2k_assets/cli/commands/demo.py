"""`k2k demo`: all of it on the sandbox, with a summary; `--ui`: the sandbox under Dagster's UI, until Ctrl-C."""

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
    "--registries/--no-registries",
    default=True,
    show_default=True,
    help="A schema registry beside each cluster (142 MB to download, once), and a topic with schemas. Not with --ui.",
)
@click.option("--port", type=click.IntRange(1, 65535), envvar="DAGSTER_PORT", help="Of the UI; a free one by default.")
def demo(ui: bool, registries: bool, port: int | None) -> int:
    """Copies sample topics between two real Kafka clusters, exactly once, through Dagster, and shows the result.

    Ends with 0 when every record was copied, every asset was materialized and no check failed.
    """
    # Dagster and Spark take seconds to import: not for --help.
    from k2k_assets.demo.screen import Screen, all_else_into

    logs.set_up_jvm()
    with _log_file() as log, terminated_as_interrupted(), all_else_into(log) as console:
        if ui:
            from k2k_assets.demo.dagster_ui import run_ui

            run_ui(Screen(console), log, port)
            return 0
        from k2k_assets.demo.demo import run_demo

        if run_demo(Screen(console), registries):
            return 0
        raise K2KError("the demo failed.")


@contextmanager
def _log_file() -> Iterator[Path]:
    """A file for all that Spark and Dagster say; it is kept, and named, when something goes wrong."""
    with tempfile.NamedTemporaryFile(prefix="k2k-demo-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    try:
        yield log
    except KeyboardInterrupt:
        _remove(log)
        click.echo("Interrupted: everything is stopped.", err=True)
        raise
    except BaseException:
        click.echo(f"What Spark and Dagster said is in {log}", err=True)
        raise
    _remove(log)


def _remove(log: Path) -> None:
    with suppress(OSError):
        log.unlink()
