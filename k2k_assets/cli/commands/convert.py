"""`k2k convert`: writes pipeline files from MirrorMaker 2's properties, and names keys without a counterpart."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import yaml

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.new_files import ensure_new, write_checked
from k2k_assets.conversion.java_properties import parse_properties
from k2k_assets.conversion.mirror_maker import Conversion, Conversions, convert
from k2k_assets.core.errors import PipelineFileError
from k2k_assets.core.words import plural

_HEAD = """\
# The flow {flow} of MirrorMaker 2, by `k2k convert`. It may contain passwords, as the properties file did.
# Check it:  k2k validate -f {file} --connect
"""
_OTHERWISE = (
    "copies exactly once, and offsets are mapped exactly",
    "begins at the log start, or as auto.offset.reset says, without MirrorMaker 2's positions. Let it write to\n"
    "    empty topics; else it copies again what MirrorMaker 2 has copied",
    "does not follow later changes of a source topic's configs, and copies no ACLs",
)


@click.command("convert", epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("properties", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--output", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="FOLDER",
    help="Directory for the pipeline files; by default the current one.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def convert_command(properties: Path, directory: Path, force: bool) -> None:
    """Reads a properties file of MirrorMaker 2 and writes a pipeline file for each enabled flow.

    It names every key without a counterpart, and the reason. It copies passwords from the file, and never prints them.
    It connects to no cluster.
    """
    found = _converted(properties)
    files = {flow.name: directory / f"{flow.name}.yaml" for flow in found.flows}
    for file in files.values():
        ensure_new(file, force)
    for flow in found.flows:
        file = files[flow.name]
        write_checked(file, _text(flow, file), variables=False)  # they may only have values where the pipeline runs
        click.echo(f"{flow.flow}: {file}")
        click.echo("".join(f"  {line}\n" for line in _told(flow.told)), nl=False)
    if found.told:
        click.echo("all flows:")
        click.echo("".join(f"  {line}\n" for line in _told(found.told)), nl=False)
    click.echo("\nUnlike MirrorMaker 2, such a pipeline")
    click.echo("".join(f"  - {what}\n" for what in _OTHERWISE))
    click.echo("Next:")
    for file in files.values():
        click.echo(f"  k2k validate -f {shlex.quote(str(file))} --connect")


def _converted(properties: Path) -> Conversions:
    try:
        return convert(parse_properties(properties.read_text(encoding="utf-8")))
    except OSError as error:
        raise PipelineFileError(f"{properties}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PipelineFileError(f"{properties}: expected UTF-8 text, found other bytes") from None
    except ValueError as fault:
        raise PipelineFileError(f"{properties}: {fault}") from None


def _told(told: Mapping[str, str]) -> Iterator[str]:
    if told:
        yield f"{plural(len(told), 'key')} without a counterpart:"
    for key, reason in sorted(told.items()):
        yield f"  {key}: {reason}"


def _text(flow: Conversion, file: Path) -> str:
    head = _HEAD.format(flow=flow.flow, file=shlex.quote(str(file)))
    told = "".join(f"# {line}\n" for line in _told(flow.told))
    return head + told + yaml.safe_dump(flow.document, sort_keys=False, allow_unicode=True, width=10_000)
