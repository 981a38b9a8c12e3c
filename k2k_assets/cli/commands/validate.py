"""`k2k validate`: says whether a pipeline file is valid, and what it does. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import combinations
from pathlib import Path

import click

from k2k_assets.cli import logs
from k2k_assets.cli.commands.connection_checks import check_connections
from k2k_assets.cli.exit_codes import epilog
from k2k_assets.cli.guarantee import guarantee
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.streams import error_console
from k2k_assets.core.errors import K2KError, Refused
from k2k_assets.core.words import duration, plural, utc
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.pipeline.loops import loops, opposite
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic

_FEATURES = {
    "header_replication": "headers",
    "keep_record_creation_timestamp": "source timestamps",
    "schema_mapping": "schema ids mapped",
    "offset_mapping": "offset mapping",
    "auto_create_topics": "creation of topics",
    "auto_create_control_topics": "creation of control topics",
}


@click.command(epilog=epilog(0, 1, 2, 3, 130), context_settings={"help_option_names": ["-h", "--help"]})
@pipeline_files
@click.option(
    "--connect", is_flag=True,
    help="Also check both clusters: reachability, permissions, partition counts, topics that would be created.",
)  # fmt: skip
@template_engine
def validate(files: tuple[Path, ...], connect: bool, variables: bool) -> None:
    """Checks a pipeline file, and with --connect the clusters that it names. It changes nothing.

    Several files are one pipeline; but files of which each is whole, and that copy in opposite directions, are
    pipelines of their own, and refused if they would copy each other's copies.
    """
    logs.configure(error_console())
    apart = _opposite(files, variables)
    if found := list(loops(apart)):
        raise Refused("\n  ".join(found))
    for pipeline in apart or [load_pipeline(files, variables=variables)]:
        _validate(pipeline, connect)


def _opposite(files: tuple[Path, ...], variables: bool) -> list[Pipeline]:
    """The pipelines of the files, if each file is a whole one and two copy in opposite directions; else none."""
    found = []
    for file in files if len(files) > 1 else ():
        with suppress(K2KError):  # a part of a pipeline
            found.append(load_pipeline([file], variables=variables))
    are_opposite = any(opposite(one, other) for one, other in combinations(found, 2))
    return found if are_opposite and len(found) == len(files) else []


def _validate(pipeline: Pipeline, connect: bool) -> None:
    _ensure_mechanisms(pipeline)
    _ensure_functions(pipeline)
    click.echo(f"{pipeline.name}: the pipeline file is valid")
    for title, text in effective(pipeline):
        click.echo(f"  {title:<10} {text}")
    if connect:
        report = check_connections(pipeline)
        click.echo("".join(f"\n  {line}" for line in report.lines).lstrip("\n"))
        if report.faults:
            raise Refused("\n  ".join(["k2k start would fail:", *report.faults]))
        click.echo("both clusters are ready")


def _ensure_mechanisms(pipeline: Pipeline) -> None:
    """Refuses what the installed client cannot do, where that depends on how it was built."""
    for role in ("source", "target"):
        properties = pipeline.client_properties(role, "admin")
        if str(properties.get("security.protocol", "")).lower().startswith("sasl"):
            from k2k_assets.kafka.clients import ensure_mechanism  # importing Kafka takes a moment

            ensure_mechanism(role, properties)


def _ensure_functions(pipeline: Pipeline) -> None:
    """Refuses functions that cannot be loaded: a copy finds that out when it needs them, and stops their topics."""
    if any(rule.python for rule in pipeline.transform):
        from k2k_assets.stages import isolated_functions_of

        functions = isolated_functions_of(pipeline)
        assert functions is not None
        with closing(functions.process):
            functions.load()


def effective(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """What the pipeline does, as pairs of a title and a text without secrets."""
    commit = pipeline.coordination.commit
    yield "source", str(pipeline.client_properties("source", "admin")["bootstrap.servers"])
    yield "target", str(pipeline.client_properties("target", "admin")["bootstrap.servers"])
    for pair in pipeline.pairs:
        yield "copies", pair.selection.describe()
        yield "to", f"{_target_names(pair.routing.topic)}; {_target_partition(pair.routing)}"
        if pair.selection.start is not None:
            yield "begins", _beginning(pair.selection.start)
    yield "delivery", guarantee(pipeline)
    if pipeline.transport.form != "records":
        yield from _form(pipeline)
    longest = duration(commit.batch_timeout.total_seconds())
    yield "commits", f"after {plural(commit.batch_size, 'record')} or {longest}"
    yield "features", ", ".join(_features(pipeline))
    yield "progress", f"group {pipeline.group} in {commit.topic}"
    for info in pipeline.infos:
        yield "note", info
    for warning in pipeline.warnings:
        yield "warning", warning


def _form(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    from k2k_assets.transport.factory import costs_of_batches, obstacles_to_batches  # importing it takes a moment

    if found := obstacles_to_batches(pipeline, asks_brokers=False):
        yield "moves", f"record by record, not whole batches: {'; '.join(found)}"
        return
    yield "moves", "whole record batches, where the brokers speak what that needs; else record by record"
    for cost in costs_of_batches(pipeline):
        yield "costs", cost


def _beginning(start: str | int | dict[str, dict[int, int]]) -> str:
    if isinstance(start, dict):
        text = ", ".join(f"{topic}-{p} at {offset}" for topic, of in start.items() for p, offset in of.items())
        return f"{text}, where there is no position yet"
    return f"{start if isinstance(start, str) else utc(start)}, where there is no position yet"


def _target_names(topic: SinkTopic) -> str:
    if topic.static is not None:
        return f"the topic {topic.static}"
    if topic.static_mapping is not None:
        return ", ".join(f"{source} -> {target}" for source, target in topic.static_mapping)
    if topic.prefix or topic.suffix:
        return f"topics named {topic.prefix}<source topic>{topic.suffix}"
    return "topics of the same name"


def _target_partition(routing: Routing) -> str:
    return "the same partition" if routing.keeps_partitions else "the partition of the key"


def _features(pipeline: Pipeline) -> Iterator[str]:
    for flag, words in _FEATURES.items():
        yield words if getattr(pipeline.features, flag) else f"no {words}"
    if pipeline.added_headers:
        yield f"tracing headers ({', '.join(header.name for header in pipeline.added_headers)})"
    if pipeline.marker:
        yield f"echoes dropped (by {pipeline.marker.header}, {pipeline.marker.mode})"
    if pipeline.transform:
        yield f"records left out or changed by {plural(len(pipeline.transform), 'rule')} of transform"
