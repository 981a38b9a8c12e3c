"""The options that K2K's programs share: the pipeline file, and those of `start`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from k2k_assets.cli.termination_log import DEFAULT

F = TypeVar("F", bound=Callable[..., Any])

_SWITCH = click.Choice(["enabled", "disabled"])


def pipeline_files(command: F) -> F:
    """`-f`, repeatable: parameter `files`."""
    return click.option(
        "-f", "--file", "files",
        multiple=True, required=True, type=click.Path(dir_okay=False, path_type=Path),
        help="Pipeline file. Repeated: merged into one, later files over earlier ones.",
    )(command)  # fmt: skip


def template_engine(command: F) -> F:
    """`-g`: parameter `template_engine`."""
    return click.option(
        "-g", "--template-engine", type=_SWITCH, default="enabled", show_default=True,
        help="Whether ${...} in the file stands for a variable.",
    )(command)  # fmt: skip


def start_options(command: F) -> F:
    """`-t`, `-g`, `-l` and `-w` as K2K has them: `telemetry`, `template_engine`, `termination_log`, `..._enabled`."""
    options: tuple[Callable[[F], F], ...] = (
        click.option("-t", "--telemetry", is_flag=True, help="Accepted; telemetry is not built yet."),
        template_engine,
        click.option(
            "-l", "--termination-log", type=click.Path(dir_okay=False, path_type=Path), default=DEFAULT,
            show_default=True,
            help="File that receives the failure that ended the program. The default is written only if it exists.",
        ),
        click.option(
            "-w", "--termination-log-enabled", type=_SWITCH, default="enabled", show_default=True,
            help="Whether the termination log is written.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
