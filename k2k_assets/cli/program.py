"""Runs a click command as a program: errors become one message and an exit code."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from k2k_assets.cli.exit_codes import INTERRUPTED
from k2k_assets.cli.suggestions import forget_files, with_files
from k2k_assets.core.errors import K2KError
from k2k_assets.core.json_logs import apply_asked, format_of_call, is_json, line
from k2k_assets.core.log_fields import forget

_chosen: list[int] = []


class Program:
    """A command as a program.

    Args:
        command: The command to run.
        name: The program's name, for messages.
    """

    def __init__(self, command: click.Command, name: str) -> None:
        self._command = command
        self._name = name

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Runs the program and ends the process with its exit code.

        Threads may log until the process has ended: so the log format that the call chose stays.

        Args:
            arguments: Arguments without the program's name; by default those of the process.
        """
        end_process(self._run(arguments))

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the program and returns the exit code; the log format is as before then."""
        with format_of_call():
            return self._run(arguments)

    def _run(self, arguments: Sequence[str] | None) -> int:
        """The exit code; a command that returns an integer has chosen its own."""
        forget_files()
        forget()
        try:
            _refuse_nul(arguments or ())
            result = self._command.main(
                args=None if arguments is None else list(arguments), prog_name=self._name, standalone_mode=False
            )
        except K2KError as error:
            apply_asked()
            _tell(f"{click.style('Error:', fg='red', bold=True)} {with_files(str(error))}", with_files(str(error)))
            return error.exit_code
        except click.ClickException as error:
            apply_asked()
            if is_json():
                _tell("", error.format_message())
            else:
                error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        return result if isinstance(result, int) else 0


def _refuse_nul(arguments: Sequence[str]) -> None:
    """Refuses what no shell can pass, and no file can be named."""
    if any("\0" in argument for argument in arguments):
        raise click.UsageError("an argument has a NUL character")


def _tell(text: str, plain: str) -> None:
    click.echo(line(plain, logging.ERROR, "k2k.cli") if is_json() else text, err=True)


def end_process(code: int) -> NoReturn:
    """Ends the process as Python does, without the exit handlers of the C library.

    A thread may still wait for a cluster, for example after a refused login. The C library would clean up OpenSSL while
    that thread's client still uses it, and a signal would kill the process.

    Args:
        code: The exit code.
    """
    _chosen.append(code)
    sys.exit(code)


def _leave() -> None:
    if _chosen:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # the reader is gone
                stream.flush()
        os._exit(_chosen[0])


# Functions that are registered later run earlier.
atexit.register(_leave)
