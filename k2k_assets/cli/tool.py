"""`k2k-tool`: answers questions about a pipeline, and sets its positions by hand."""

from __future__ import annotations

import click

from k2k_assets.cli.program import Program
from k2k_assets.cli.tool_commands.adopt import adopt
from k2k_assets.cli.tool_commands.describe import describe
from k2k_assets.cli.tool_commands.pause_and_resume import pause, resume
from k2k_assets.cli.tool_commands.server import server
from k2k_assets.cli.tool_commands.set_and_reset import reset, set_positions
from k2k_assets.cli.tool_commands.show import show
from k2k_assets.cli.tool_commands.translate import translate

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


_program = Program(cli, NAME)
main, run = _program.main, _program.run


if __name__ == "__main__":
    main()
