"""`k2k-tool`: answers questions about a pipeline, and sets its positions by hand."""

from __future__ import annotations

from collections.abc import Sequence

import click

from k2k_assets.cli.adopt import adopt
from k2k_assets.cli.describe import describe
from k2k_assets.cli.overrides import reset, set_positions
from k2k_assets.cli.pausing import pause, resume
from k2k_assets.cli.program import end_process, run_program
from k2k_assets.cli.server import server
from k2k_assets.cli.show import show
from k2k_assets.cli.translate import translate

NAME = "k2k-tool"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="k2k-assets", prog_name=NAME)
def cli() -> None:
    """Answers questions about a pipeline, and sets its positions by hand."""


cli.add_command(describe)
cli.add_command(set_positions)
cli.add_command(reset)
cli.add_command(adopt)
cli.add_command(pause)
cli.add_command(resume)
cli.add_command(translate)
cli.add_command(show)
cli.add_command(server)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `k2k-tool` and ends the process with its exit code.

    Args:
        arguments: Arguments without the program's name; by default those of the process.
    """
    end_process(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs `k2k-tool` and returns the exit code."""
    return run_program(cli, NAME, arguments)


if __name__ == "__main__":
    main()
