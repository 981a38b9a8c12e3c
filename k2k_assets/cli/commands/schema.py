"""`k2k schema`: the JSON Schema of the pipeline file, for editors."""

from __future__ import annotations

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.pipeline import json_schema


@click.command(epilog=epilog(0, 1, 2, 130), context_settings={"help_option_names": ["-h", "--help"]})
def schema() -> None:
    """Prints the JSON Schema of the pipeline file, with which editors complete and check keys.

    \b
    k2k schema > pipeline.schema.json
    and as the first line of a pipeline file:
    # yaml-language-server: $schema=pipeline.schema.json
    """
    click.echo(json_schema.text(), nl=False)
