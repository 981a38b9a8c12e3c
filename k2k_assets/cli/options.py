"""The options that K2K's programs share: the pipeline file, and those of `start`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from k2k_assets.cli.suggestions import remember_files
from k2k_assets.cli.termination_log import DEFAULT
from k2k_assets.core import json_logs

F = TypeVar("F", bound=Callable[..., Any])

_SWITCH = click.Choice(["enabled", "disabled"])


def split_files(values: Sequence[Path]) -> tuple[Path, ...]:
    """Splits lists with commas, as K2K's tools do. A path of an existing file with a comma stays whole."""
    return tuple(
        Path(name.strip())
        for value in values
        for name in ([str(value)] if value.exists() else str(value).split(","))
        if name.strip()
    )


def _each_file(_: click.Context, option: click.Parameter, values: Sequence[Path]) -> tuple[Path, ...]:
    files = split_files(values)
    remember_files(option.opts[0], files)
    return files


def pipeline_files(command: F) -> F:
    """`-f`, repeatable, or a list with commas: parameter `files`."""
    return click.option(
        "-f", "--file", "files", metavar="FILE",
        multiple=True, required=True, type=click.Path(dir_okay=False, path_type=Path), callback=_each_file,
        help="Pipeline file. Repeated, or several with commas: merged into one, later files over earlier ones.",
    )(command)  # fmt: skip


def defaults_files(command: F) -> F:
    """`-d` of K2K's tool: parameter `defaults`, files that come before those of `-f`."""
    return click.option(
        "-d", "--defaults", "defaults", metavar="FILE",
        multiple=True, type=click.Path(dir_okay=False, path_type=Path), callback=_each_file,
        help="File of defaults: the same as a first -f.",
    )(command)  # fmt: skip


def template_engine(command: F) -> F:
    """`-g`: parameter `variables`, whether the file has variables."""
    return click.option(
        "-g", "--template-engine", "variables", type=_SWITCH, default="enabled", show_default=True,
        callback=lambda _, __, value: value == "enabled",
        help="Whether ${...} in the file is a variable.",
    )(command)  # fmt: skip


def log_format(command: F) -> F:
    """`--log-format`: no parameter, it counts for the whole call."""

    def chosen(_: click.Context, __: click.Parameter, value: str) -> None:
        json_logs.ask_for(value)

    return click.option(
        "--log-format", type=click.Choice([json_logs.TEXT, json_logs.JSON]), default=json_logs.TEXT,
        show_default=True, envvar=json_logs.FORMAT_VARIABLE, show_envvar=True, expose_value=False, is_eager=True,
        callback=chosen, help="Log lines for people, or as JSON with fields.",
    )(command)  # fmt: skip


def start_options(command: F) -> F:
    """`-t`, `-g`, `-l` and `-w` of K2K: `telemetry`, `variables`, `termination_log`, `..._enabled`."""
    options: tuple[Callable[[F], F], ...] = (
        click.option("-t", "--telemetry", is_flag=True, help="Export metrics by OpenTelemetry, and tell the health."),
        log_format,
        template_engine,
        click.option(
            "-l", "--termination-log", type=click.Path(dir_okay=False, path_type=Path), default=DEFAULT,
            show_default=True,
            help="File for the failure that ended the program. The default is written only if it exists.",
        ),
        click.option(
            "-w", "--termination-log-enabled", type=_SWITCH, default="enabled", show_default=True,
            help="Whether the termination log is written.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
