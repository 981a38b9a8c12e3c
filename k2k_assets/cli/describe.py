"""`k2k-tool describe`: how far a pipeline has copied, as the commit log says."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.options import defaults_files, pipeline_files, template_engine
from k2k_assets.cli.streams import error_console

if TYPE_CHECKING:
    from k2k_assets.overrides.committed import CommittedPosition


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@defaults_files
@template_engine
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of YAML.")
def describe(files: tuple[Path, ...], defaults: tuple[Path, ...], variables: bool, as_json: bool) -> None:
    """Prints the committed positions: 'committed' is the next offset to copy, 'last' the end of the source.

    A partition that is stopped has its reason and the reason's code with it, one that was set by hand who did it, when
    and why.
    """
    # Importing Kafka takes a moment: not for --help.
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.committed import committed
    from k2k_assets.pipeline import load_pipeline

    logs.configure(error_console())
    logging.getLogger("k2k").setLevel(logging.WARNING)
    pipeline = load_pipeline([*defaults, *files], variables=variables)
    with both_clusters(pipeline) as (source, target):
        state = committed(pipeline, source, target)
    document = {
        "pipeline": pipeline.name,
        "source": state.source,
        "target": state.target,
        "group": pipeline.group,
        "committed": [_partition(one) for one in state.partitions],
    }
    if as_json:
        click.echo(json.dumps(document))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=True), nl=False)


def _partition(one: CommittedPosition) -> dict[str, Any]:
    from k2k_assets.cli.timestamps import shown
    from k2k_assets.core.stops.reason import render

    record = one.record
    row: dict[str, Any] = {
        "topic": one.source.topic,
        "partition": one.source.partition,
        "committed": record.position if record else None,
        "last": one.last,
    }
    if one.stopped:
        row |= {"stopped": render(one.stopped, with_code=False), "stop_code": one.stopped.code}
    if record and record.overridden:
        done = record.overridden
        row["override"] = {"by": done.by, "at": shown(record.time), "before": done.position}
        row["override"] |= {"reason": done.why} if done.why else {}
    return row
