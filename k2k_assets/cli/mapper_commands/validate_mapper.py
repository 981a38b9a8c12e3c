"""`k2k-offset-mapping validate`: says whether a file is valid for the mapper, and what it does. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.streams import error_console
from k2k_assets.core.words import duration
from k2k_assets.pipeline import Pipeline


@click.command("validate", epilog=epilog(0, 1, 2, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@template_engine
def validate_mapper(files: tuple[Path, ...], variables: bool) -> None:
    """Checks the mapper's file: the replicator's own, or one without `replication`. It connects to no cluster."""
    # Importing Kafka takes a moment, which --help does not need.
    from k2k_assets.groups.mapper_file import are_published, is_for_mapper_alone, load_mapper_pipeline

    logs.configure(error_console())
    pipeline = load_mapper_pipeline(files, variables=variables)
    alone = is_for_mapper_alone(pipeline)
    what = (
        "the file is valid, only for the offset mapper" if alone else "the pipeline file is valid for the offset mapper"
    )
    click.echo(f"{pipeline.name}: {what}")
    for title, text in _effective(pipeline, alone):
        click.echo(f"  {title:<10} {text}")
    if not are_published(pipeline):
        click.echo("  warning    features.offsetMapping is disabled: no mappings are published, and no group is moved")


def _effective(pipeline: Pipeline, alone: bool) -> Iterator[tuple[str, str]]:
    """What the mapper does, as pairs of a title and a text without secrets."""
    groups, errors = pipeline.groups, pipeline.error_handling
    yield "source", str(pipeline.client_properties("source", "admin")["bootstrap.servers"])
    yield "target", str(pipeline.client_properties("target", "admin")["bootstrap.servers"])
    wanted = groups.consumer_groups
    yield "groups", f"that match '{wanted}'" if isinstance(wanted, str) else ", ".join(wanted)
    yield "topics", "all that are mapped" if alone else pipeline.selection.describe()
    yield "mappings", f"topic {pipeline.offset_mapping.topic}"
    yield "looks", f"every {duration(groups.poll_interval.total_seconds())}"
    yield "guard", "on" if pipeline.features.mappings_guard else "off: a commit may go back"
    yield "active", _policy(errors.on_active_consumer_group_commit, "a group that has members on the target")
    yield "doubled", _policy(errors.on_multiple_target_committed_offsets, "a record that two pipelines have mapped")
    for info in pipeline.infos:
        yield "note", info
    for warning in pipeline.warnings:
        yield "warning", warning


def _policy(policy: str, what: str) -> str:
    return f"{what} {'is left alone' if policy == 'ignore' else 'ends the mapper'}"
