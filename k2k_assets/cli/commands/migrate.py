"""`k2k migrate`: rewrites a pipeline file of an older release of K2K in today's spellings."""

from __future__ import annotations

from pathlib import Path

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.core.words import plural


@click.command(epilog=epilog(0, 1, 2, 130), context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-f", "--file", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path),
    help="Pipeline file of any release of K2K.",
)  # fmt: skip
def migrate(file: Path) -> None:
    """Prints the file in today's spellings, with its comments and variables, and lists the changes on stderr.

    It changes no file, connects to no cluster, and needs no value of a variable.
    """
    # Importing the YAML library takes a moment, which --help does not need.
    from k2k_assets.pipeline.loader import read_text
    from k2k_assets.pipeline.parsing.migration import migrated
    from k2k_assets.pipeline.parsing.problems import DocumentError, fail

    try:
        found = migrated(read_text(str(file)), str(file))
    except DocumentError as error:
        raise fail(error.problems) from None
    click.echo(found.text, nl=False)
    for change in found.changes:
        click.echo(change, err=True)
    done = f"{plural(len(found.changes), 'old spelling')} rewritten" if found.changes else "nothing to change"
    click.echo(f"{file}: {done}", err=True)
