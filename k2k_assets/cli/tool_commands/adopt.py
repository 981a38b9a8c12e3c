"""`k2k-tool adopt`: goes on behind the copy that another tool began."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.tool_commands.set_and_reset import who
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural

if TYPE_CHECKING:
    from k2k_assets.kafka.cluster import Cluster
    from k2k_assets.overrides.adopt import Adoption
    from k2k_assets.overrides.adopted_table import AdoptedTable
    from k2k_assets.pipeline import Pipeline


@click.command(epilog=epilog(0, 1, 2, 3, 4, 130), context_settings={"help_option_names": ["-h", "--help"]})
@tool_options
@click.option(
    "--table", type=click.Path(dir_okay=False, path_type=Path), metavar="TABLE",
    help="Positions as CSV (topic, partition, offset, and perhaps target offset), as YAML or JSON, or what K2K's "
    "'k2k-tool describe' has printed. An offset is the next one to copy.",
)  # fmt: skip
@click.option(
    "--mirror-maker", "alias", metavar="SOURCE",
    help="Positions of MirrorMaker 2, from its own topics; SOURCE is its name for the source cluster.",
)  # fmt: skip
@click.option("--offsets-topic", metavar="TOPIC", help="Of --mirror-maker: the offsets topic of its Connect workers.")
@click.option("--offset-syncs", metavar="TOPIC", help="Of --mirror-maker: its offset syncs, on either cluster.")
@click.option(
    "--follow-target", is_flag=True,
    help="Where the target ends with another record than the position says, adopt the position behind that record.",
)  # fmt: skip
@click.option("--apply", "applies", is_flag=True, help="Write the positions. Without it nothing is written.")
@click.option("--accept-doubts", is_flag=True, help="Write them although some are doubtful.")
@click.option("--reason", "why", metavar="TEXT", help="Why, for the commit log.")
@click.option("--force", is_flag=True, help="Take the partitions from an instance that holds them: it is fenced.")
def adopt(
    call: ToolCall,
    table: Path | None,
    alias: str | None,
    offsets_topic: str | None,
    offset_syncs: str | None,
    follow_target: bool,
    applies: bool,
    accept_doubts: bool,
    why: str | None,
    force: bool,
) -> None:
    """Adopts a copy that another tool began: copying goes on behind it, and nothing is copied again.

    Shows what would be written, and what is doubtful, and writes nothing unless --apply is given. Stop the other tool
    first, and do not start the pipeline before. What lies below is not known to the exact mapping: groups that stand
    there are not moved.
    """
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.adopt import adopt as write
    from k2k_assets.overrides.adopt import plan_adoption

    if (table is None) == (alias is None):
        raise click.UsageError("wanted: either --table or --mirror-maker")
    if alias is None and (offsets_topic or offset_syncs):
        raise click.UsageError("--offsets-topic and --offset-syncs go with --mirror-maker")
    call.show_log(quiet=True)
    pipeline = call.one()
    with both_clusters(pipeline) as (source, target):
        found = _table(pipeline, source, target, table, alias, (offsets_topic, offset_syncs))
        planned = plan_adoption(pipeline, source, target, found)
        if follow_target:
            planned = planned.following_the_target()
        _show(planned)
        count = plural(len(planned.positions), "position")
        if not applies:
            click.echo(f"{count} would be adopted; nothing was. --apply writes them")
            return
        if planned.doubts and not accept_doubts:
            more = ", --follow-target adopts what fits" if planned.fitting else ""
            raise Refused(
                f"{plural(len(planned.doubts), 'position')} doubtful; nothing was written. --accept-doubts writes them "
                f"all the same{more}"
            )
        write(pipeline, source, target, planned, who(), why or f"adopted from {found.name}", force=force)
    click.echo(f"{count} adopted")


def _table(
    pipeline: Pipeline,
    source: Cluster,
    target: Cluster,
    table: Path | None,
    alias: str | None,
    topics: tuple[str | None, str | None],
) -> AdoptedTable:
    if table is not None:
        from k2k_assets.overrides.adopted_table import parse_table

        try:
            text = table.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(str(error), param_hint="'--table'") from None
        return parse_table(text, table.name)
    from k2k_assets.overrides.mirror_maker_offsets import read_mirror_maker

    return read_mirror_maker(pipeline, source, target, alias or "", *topics)


def _show(planned: Adoption) -> None:
    for tp, at in sorted(planned.positions.items()):
        told = f"   {at.told}" if at.told else ""
        click.echo(f"{tp}: {at.offset}, target end {planned.target_ends[tp]}{told}")
        if tp in planned.doubts:
            click.echo(f"  doubtful: {planned.doubts[tp]}")
    for tp, where in planned.begins.items():
        click.echo(f"{tp}: not named, and nothing of it is on the target: {where}")
