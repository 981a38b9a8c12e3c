"""Runs a click command as a program: errors become one message and an exit code."""

from __future__ import annotations

from collections.abc import Sequence

import click

from k2k_assets.cli.exit_codes import INTERRUPTED
from k2k_assets.errors import K2KError


def run_program(command: click.Command, name: str, arguments: Sequence[str] | None) -> int:
    """Runs a command and returns the exit code; a command that returns an integer has chosen its own.

    Args:
        command: What to run.
        name: The program's name, for messages.
        arguments: Without the program's name; None: those of the process.
    """
    try:
        result = command.main(
            args=None if arguments is None else list(arguments), prog_name=name, standalone_mode=False
        )
    except K2KError as error:
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return result if isinstance(result, int) else 0
