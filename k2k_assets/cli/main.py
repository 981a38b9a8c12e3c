"""The `k2k` command: finds the subcommand, and turns errors into one message and an exit code.

Exit codes: 0 done, 1 any other error, 2 a fault in the arguments, in the pipeline file, or in an environment variable,
3 a cluster does not answer or the request was refused, 4 superseded by a newer instance, 5 some topics were stopped,
6 stopped before it had caught up, 7 topics differ, 130 interrupted.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from k2k_assets.cli.program import Program

_COMMANDS = "k2k_assets.cli.commands"


class _Entry(NamedTuple):
    """A command: its module in `cli/commands`, which is imported only when the command is used, and its function."""

    module: str
    attribute: str
    help: str


COMMANDS: dict[str, _Entry] = {
    "start": _Entry("start", "start", "Replicate topics until stopped, or once."),
    "status": _Entry("status", "status", "Show how far a copy is: lag, rates, what is stopped."),
    "init": _Entry("init", "init", "Write a first pipeline file between two clusters."),
    "convert": _Entry("convert", "convert_command", "Write pipeline files from MirrorMaker 2's properties."),
    "validate": _Entry("validate", "validate", "Check a pipeline file, and the clusters it names."),
    "migrate": _Entry("migrate", "migrate", "Print a file of an older K2K in today's spellings."),
    "schema": _Entry("schema", "schema", "Print the JSON Schema of the pipeline file, for editors."),
    "topics": _Entry("topics", "topics", "Compare topics with their sources, and put them right."),
    "acls": _Entry("acls", "acls", "Print the permissions that a pipeline needs, as commands."),
    "sandbox": _Entry("sandbox", "sandbox", "Two real Kafka clusters on this machine."),
    "demo": _Entry("demo", "demo", "A whole copy on the sandbox, with a summary."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(f"{_COMMANDS}.{entry.module}"), entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own method would import every command for its help line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="k2k-assets", prog_name="k2k")
def cli() -> None:
    """Kafka-to-Kafka replication with exact offset mappings; exactly once if the pipeline file says so."""


_program = Program(cli, "k2k")
main, run = _program.main, _program.run


if __name__ == "__main__":
    main()
