"""Standard output and error of a command that goes on when nobody reads them any more (`k2k start 2>&1 | tee`)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO, Any

import click
from rich.console import Console


class LastingConsole(Console):
    """A console that falls silent when its pipe is closed; rich's own ends the program wherever it is."""

    def on_broken_pipe(self) -> None:
        """Prints nothing from now on."""
        self.quiet = True
        point_at_nothing(self.file)


def error_console() -> LastingConsole:
    """The console of a command's log and progress: standard error."""
    return LastingConsole(stderr=True)


def tell(text: str) -> None:
    """Prints a result on standard output, if somebody reads it: the exit code is to tell of the work, not of that."""
    try:
        click.echo(text)
    except BrokenPipeError:
        point_at_nothing(sys.stdout)


def point_at_nothing(stream: IO[Any]) -> None:
    """Lets a stream without a reader write into nothing: what it still holds would fail once more at the exit."""
    with suppress(OSError, ValueError):  # what is no file has no number
        nothing = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nothing, stream.fileno())
        finally:
            os.close(nothing)
