"""`k2k-tool pause` and `k2k-tool resume`: a topic is not copied for a while."""

from __future__ import annotations

import click

from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.tool_commands.set_and_reset import who
from k2k_assets.cli.tool_commands.tool_options import ToolCall, tool_options

_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings=_CONTEXT)
@tool_options
@click.option("--reason", "why", metavar="TEXT", help="Why, for whoever asks later.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
def pause(call: ToolCall, topics: tuple[str, ...], why: str | None) -> None:
    """Pauses source topics: they are not copied until they are resumed, also after a restart.

    The pipeline may go on running: within seconds its instances commit what they have of the topics, and leave them
    out. A pause is no stop: nothing fails. Mind the source's retention: what it deletes meanwhile cannot be copied.
    """
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.pausing import pause_topics

    call.show_log(quiet=True)
    pipeline = call.one()
    with both_clusters(pipeline) as (source, target):
        found = pause_topics(pipeline, source, target, topics, who(), why)
    for topic, is_new in found.items():
        click.echo(f"{topic}: {'paused' if is_new else 'was paused before'}")


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings=_CONTEXT)
@tool_options
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
def resume(call: ToolCall, topics: tuple[str, ...]) -> None:
    """Resumes paused source topics: they are copied on from where they stand."""
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.overrides.pausing import resume_topics

    call.show_log(quiet=True)
    pipeline = call.one()
    with both_clusters(pipeline) as (_, target):
        resume_topics(pipeline, target, topics)
    for topic in dict.fromkeys(topics):
        click.echo(f"{topic}: resumed")
