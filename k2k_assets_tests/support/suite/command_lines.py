"""The three programs, and command lines that they have to know."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import click

from k2k_assets.cli import offset_mapping, tool
from k2k_assets.cli.main import cli

PROGRAMS = {"k2k": cli, "k2k-tool": tool.cli, "k2k-offset-mapping": offset_mapping.cli}


def parse(command: click.Command, arguments: Sequence[str]) -> None:
    """Parses a command line and runs nothing; fails if the program does not know the command with these options."""
    rest = list(arguments)
    with click.Context(command) as context:
        while isinstance(command, click.Group):
            found = command.get_command(context, rest.pop(0))
            assert found, arguments
            command = found
    with patch.object(click.File, "convert", lambda self, value, param, ctx: value):  # a file that need not exist
        command.make_context(command.name, rest)
