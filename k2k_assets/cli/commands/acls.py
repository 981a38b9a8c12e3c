"""`k2k acls`: prints the commands that grant a pipeline exactly the permissions that it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.streams import error_console

if TYPE_CHECKING:
    from k2k_assets.permissions.commands import Administration
    from k2k_assets.pipeline import Pipeline

_Role = Literal["source", "target"]
_PROGRAMS = ("replication", "mapper", "checks", "failback", "telemetry")


@click.command(epilog=epilog(0, 1, 2, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@click.option(
    "--for", "programs", multiple=True, type=click.Choice(_PROGRAMS),
    help="Only the permissions of this program; repeat it for several. By default replication and checks, and with "
    "features.offsetMapping the mapper. Failback writes to the source, and telemetry is needed only with "
    "OTEL_METRICS_EXPORTER=kafka, so they are never part of the default.",
)  # fmt: skip
@click.option("--principal", help="Principal of the pipeline, such as User:k2k. By default the user name in the file.")
@click.option("--source-principal", help="Principal on the source cluster only.")
@click.option("--target-principal", help="Principal on the target cluster only.")
@click.option("--source-bootstrap-server", help="By default the address in the file.")
@click.option("--target-bootstrap-server", help="By default the address in the file.")
@click.option(
    "--source-command-config", metavar="FILE",
    help="Client properties of an administrator, for kafka-acls.sh. By default source-admin.properties if the "
    "cluster uses authentication.",
)  # fmt: skip
@click.option("--target-command-config", metavar="FILE", help="The same for the target cluster.")
@click.option(
    "--format", "form", type=click.Choice(["commands", "json"]), default="commands", show_default=True,
    help="Shell commands, or JSON for other tools.",
)  # fmt: skip
@template_engine
def acls(
    files: tuple[Path, ...],
    programs: tuple[str, ...],
    principal: str | None,
    form: str,
    variables: bool,
    **of_clusters: str | None,
) -> None:
    """Prints the least permissions that a pipeline needs, as commands for the administrators of both clusters.

    Asks no cluster, and changes nothing.
    """
    from k2k_assets.groups.mapper_file import load_mapper_pipeline
    from k2k_assets.permissions.commands import commands, optional, rows
    from k2k_assets.permissions.required import Program, programs_of, required
    from k2k_assets.pipeline import load_pipeline

    logs.configure(error_console())
    assert set(_PROGRAMS) == set(get_args(Program))
    load = load_mapper_pipeline if programs == ("mapper",) else load_pipeline
    pipeline = load(files, variables=variables)
    chosen = programs or programs_of(pipeline)
    permissions = required(pipeline, [program for program in get_args(Program) if program in chosen])
    clusters: dict[_Role, Administration] = {
        role: _administration(pipeline, role, principal, of_clusters) for role in get_args(_Role)
    }
    if form == "json":
        click.echo(json.dumps(rows(permissions, clusters), indent=2))
        return
    besides = optional(clusters["target"]) if "replication" in chosen else ()
    click.echo("\n".join([*commands(permissions, clusters), *besides]).rstrip())


def _administration(
    pipeline: Pipeline, role: _Role, principal: str | None, options: dict[str, str | None]
) -> Administration:
    from k2k_assets.permissions.commands import Administration
    from k2k_assets.permissions.principals import principal_of

    properties = pipeline.client_properties(role, "admin")
    known = options[f"{role}_principal"] or principal or principal_of(properties)
    if known is None:
        raise click.UsageError(
            f"only the broker knows the pipeline's principal on the {role} cluster (from a certificate or a token): "
            f"name it with --{role}-principal, such as User:CN=k2k"
        )
    secured = str(properties.get("security.protocol", "plaintext")).lower() != "plaintext"
    config = options[f"{role}_command_config"] or (f"{role}-admin.properties" if secured else None)
    servers = options[f"{role}_bootstrap_server"] or str(properties["bootstrap.servers"])
    return Administration(servers, known, config)
