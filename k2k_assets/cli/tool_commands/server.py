"""`k2k-tool server`: a page and a JSON API over the pipelines of some files, or of a folder."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import defaults_files, template_engine
from k2k_assets.cli.signals import terminated_as_interrupted
from k2k_assets.cli.tool_commands.set_and_reset import who
from k2k_assets.cli.tool_commands.tool_options import pipelines_option
from k2k_assets.core.errors import Refused

_EXTRA = "'k2k-assets[server]'"


@click.command(epilog=epilog(0, 1, 2, 3), context_settings={"help_option_names": ["--help"]})
@pipelines_option(required=False)
@click.option(
    "--dir", "folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path),
    help="Folder that is watched: each YAML file in it is a pipeline.",
)  # fmt: skip
@defaults_files
@template_engine
@click.option("-h", "--host", default="127.0.0.1", show_default=True, help="Address at which it listens.")
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0: any that is free.",
)  # fmt: skip
@click.option(
    "--token-file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that others have to know; by default that of K2K_TOOL_TOKEN. At another address than "
    "the loopback one it is needed.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
def server(
    pipelines: tuple[tuple[Path, ...], ...],
    folder: Path | None,
    defaults: tuple[Path, ...],
    variables: bool,
    host: str,
    port: int,
    token_file: Path | None,
    read_only: bool,
) -> None:
    """Shows pipelines on a page of its own: positions, lag, consumer groups, stops and what to do about them.

    Positions are set there in two steps: first the page shows what would change. What the page shows and does is a JSON
    API too, described at /api/v1/openapi.json. It ends with Ctrl-C.
    """
    if not pipelines and folder is None:
        raise click.UsageError("say which pipelines: -f FILE, or --dir FOLDER")
    if not all(map(find_spec, ("starlette", "uvicorn"))):
        raise Refused(f"the server needs more libraries: pip install {_EXTRA}")
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.server.pipeline_files import PipelineFiles
    from k2k_assets.server.serve import TOKEN_VARIABLE, serve

    if folder is not None and not folder.is_dir():
        raise click.BadParameter(f"there is no folder {folder}", param_hint="'--dir'")
    token = _token_in(token_file) if token_file else os.environ.get(TOKEN_VARIABLE, "")
    files = PipelineFiles(pipelines, folder, defaults, variables)

    def announce(address: str) -> None:
        click.echo(f"{address}  (Ctrl-C ends it)")

    try:
        with terminated_as_interrupted():
            serve(files, host, port, token, f"{who()} (k2k-tool server)", read_only, announce)
    except KeyboardInterrupt:
        return


def _token_in(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}", param_hint="'--token-file'") from None
