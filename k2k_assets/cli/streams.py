"""Standard output and error of a command that continues when its reader ends (`k2k start 2>&1 | tee`)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO, Any

import click
from rich.console import Console

from k2k_assets.core.json_logs import apply_asked, is_json


class LastingConsole(Console):
    """A console that prints nothing more when its pipe is closed; rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        """Prints nothing from now on."""
        self.quiet = True
        point_at_nothing(self.file)


def error_console() -> LastingConsole:
    """The console of a command's log and progress: standard error. With lines of JSON there is no live display."""
    apply_asked()
    return LastingConsole(stderr=True, force_terminal=False if is_json() else None)


def tell(text: str) -> None:
    """Prints a result on standard output. A closed pipe is no error: the exit code is only about the work."""
    try:
        click.echo(text)
    except BrokenPipeError:
        point_at_nothing(sys.stdout)


def point_at_nothing(stream: IO[Any]) -> None:
    """Points a stream without a reader at the null device, because its buffer would fail again at the exit."""
    with suppress(OSError, ValueError):  # a stream without a file has no descriptor
        nothing = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nothing, stream.fileno())
        finally:
            os.close(nothing)
