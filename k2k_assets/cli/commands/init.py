"""`k2k init`: writes a first pipeline file, exactly once, with headers and offset mappings."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.new_files import ensure_new, write_checked
from k2k_assets.pipeline.first_file import first_file


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("pipeline.yaml"))
@click.option(
    "--source", metavar="HOST:PORT", help="Bootstrap address of the source cluster. Without it, the command asks."
)
@click.option("--target", metavar="HOST:PORT", help="Bootstrap address of the target cluster.")
@click.option("--topics", default=".*", show_default=True, help="Which topics: a regular expression for whole names.")
@click.option("--name", help="Name of the pipeline; by default that of the file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(file: Path, source: str | None, target: str | None, topics: str, name: str | None, force: bool) -> None:
    """Writes a pipeline file between two clusters: exactly once, with headers and offset mappings.

    FILE is pipeline.yaml by default. It connects to no cluster.
    """
    ensure_new(file, force)
    source = _address("source", source)
    target = _address("target", target)
    if source == target:
        raise click.UsageError(f"source and target are both {source}: a cluster cannot be copied to itself")
    name = name or file.stem
    shown = shlex.quote(str(file))
    text = first_file(
        name, source, target, topics, f"`k2k init` wrote it; check it:  k2k validate -f {shown} --connect"
    )
    write_checked(file, text)
    click.echo(f"{file}: a pipeline from {source} to {target}, exactly once, with headers and offset mappings\n\nNext:")
    for command, what in (
        (f"k2k validate -f {shown} --connect", "checks both clusters, and changes nothing"),
        (f"k2k start -f {shown}", "copies until Ctrl-C"),
        (f"k2k status -f {shown}", "shows how far the copy is"),
    ):
        click.echo(f"  {command}  # {what}")


def _address(role: str, given: str | None) -> str:
    """The given address, or the answer to a prompt; both must have the form of an address."""
    if given is None and not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to ask on: name the {role} cluster with --{role} HOST:PORT")
    address: str = given or click.prompt(f"Bootstrap address of the {role} cluster (HOST:PORT)", err=True)
    servers = [server.strip() for server in address.split(",")]
    if not all(host and port.isdecimal() for host, _, port in (server.rpartition(":") for server in servers)):
        raise click.BadParameter(
            f"{address!r} is not an address: expected HOST:PORT, or several with commas", param_hint=f"'--{role}'"
        )
    return ",".join(servers)
