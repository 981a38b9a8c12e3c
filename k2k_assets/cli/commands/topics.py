"""`k2k topics`: the topics of the target as a difference to what they have to be like, and how it is put right."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2k_assets.cli import logs
from k2k_assets.cli.exit_codes import DIFFERS, epilog
from k2k_assets.cli.options import pipeline_files, template_engine
from k2k_assets.cli.streams import error_console
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural

if TYPE_CHECKING:
    from k2k_assets.kafka.cluster import Cluster
    from k2k_assets.topics.differences import Difference, Kind
    from k2k_assets.topics.plan import TopicsPlan

F = TypeVar("F", bound=Callable[..., Any])
_CONTEXT = {"help_option_names": ["-h", "--help"]}
_LONGEST = 60


@click.group(context_settings=_CONTEXT)
def topics() -> None:
    """Compares the topics of the target with their sources, and with what the pipeline file says of them."""


def _kinds(command: F) -> F:
    """The options that ask for what is never done unasked: `acls`, `partitions`, `min_isr`, `reset`."""
    options: tuple[Callable[[F], F], ...] = (
        click.option("--acls", is_flag=True, help="Also who may read: rights to read are copied, no others."),
        click.option("--partitions", is_flag=True, help="Add partitions."),
        click.option("--min-insync-replicas", "min_isr", is_flag=True, help="Change min.insync.replicas."),
        click.option(
            "--reset-configs", "reset", is_flag=True,
            help="Take configs off that only the target's topics have: the broker's default counts then.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@topics.command(epilog=epilog(0, 1, 2, 3, DIFFERS, 130), context_settings=_CONTEXT)
@pipeline_files
@_kinds
@click.option(
    "--reassignment", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write what kafka-reassign-partitions.sh needs to change replication factors to FILE.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@template_engine
def plan(
    files: tuple[Path, ...], acls: bool, reassignment: Path | None, as_json: bool, variables: bool, **asked: bool
) -> int:
    """Shows what `k2k topics apply` with the same options would do, and what it would not touch. Changes nothing.

    Replication factors, min.insync.replicas, partitions, and configs that only the target has are not touched unless an
    option asks for it.
    """
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.pipeline import load_pipeline
    from k2k_assets.topics.plan import plan_topics

    logs.configure(error_console())
    pipeline, allowed = load_pipeline(files, variables=variables), _allowed(**asked)
    with both_clusters(pipeline) as (source, target):
        found = plan_topics(pipeline, source, target, acls=acls)
        if as_json:
            click.echo(json.dumps(_document(found, allowed), indent=2))
        else:
            _show(found, allowed)
        if reassignment is not None:
            _write_reassignment(reassignment, found, target)
    return DIFFERS if found else 0


@topics.command("apply", epilog=epilog(0, 1, 2, 3, 130), context_settings=_CONTEXT)
@pipeline_files
@_kinds
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@template_engine
def apply(files: tuple[Path, ...], acls: bool, yes: bool, variables: bool, **asked: bool) -> None:
    """Creates missing topics, and sets the configs that their sources and the pipeline file have.

    Nothing else is touched unless an option asks for it. On a terminal it shows what it would do, and asks first.
    """
    from k2k_assets.kafka.clusters import both_clusters
    from k2k_assets.pipeline import load_pipeline
    from k2k_assets.topics.apply import apply_plan
    from k2k_assets.topics.plan import plan_topics

    logs.configure(error_console())
    pipeline, allowed = load_pipeline(files, variables=variables), _allowed(**asked)
    with both_clusters(pipeline) as (source, target):
        found = plan_topics(pipeline, source, target, acls=acls)
        _show(found, allowed)
        count = len(found.to_do(allowed)) + len(found.acls)
        if not count:
            return
        if not yes and sys.stdin.isatty() and not click.confirm(f"Make {plural(count, 'change')}?", err=True):
            raise Refused("not confirmed; nothing was changed")
        apply_plan(pipeline, target, found, allowed)
    click.echo(f"{plural(count, 'change')} made")


def _allowed(partitions: bool, min_isr: bool, reset: bool) -> frozenset[Kind]:
    asked: dict[Kind, bool] = {
        "partitions": partitions,
        "min.insync.replicas": min_isr,
        "only on the target": reset,
    }
    return frozenset(kind for kind, is_asked in asked.items() if is_asked)


def _show(found: TopicsPlan, allowed: Collection[Kind]) -> None:
    for line in _lines(found, allowed):
        click.echo(line)


def _lines(found: TopicsPlan, allowed: Collection[Kind]) -> Iterator[str]:
    topic = None
    for each in found.differences:
        if each.topic != topic:
            topic = each.topic
            yield topic
        yield f"  {_change(found, each, allowed)}"
    yield from (f"  + {acl}" for acl in found.acls)
    done = found.to_do(allowed)
    counts = Counter("create" if each.kind == "missing" else "change" for each in done)
    left = len(found.differences) - len(done)
    words = [f"{counts['create']} to create", f"{counts['change']} to change"]
    words += [f"{plural(len(found.acls), 'ACL')} to create"] if found.acls else []
    words += [f"{left} not touched"] if left else []
    of = plural(len(found.wanted), "topic")
    yield f"{of}: {', '.join(words)}" if found else f"{of}: nothing to do"


def _change(found: TopicsPlan, each: Difference, allowed: Collection[Kind]) -> str:
    if each.kind == "missing":
        topic = found.wanted[each.topic].topic
        configs = "".join(f", {name}={value}" for name, value in sorted(topic.config.items()))
        return f"+ {plural(topic.partitions or 1, 'partition')}, replication factor {topic.replication}{configs}"
    why = found.why_not(each, allowed)
    change = f"{each.what}: {_value(each.found)} -> {_value(each.wanted)}"
    return f"! {change}   not touched: {why}" if why else f"~ {change}"


def _value(text: str | None) -> str:
    if text is None:
        return "(default)"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _document(found: TopicsPlan, allowed: Collection[Kind]) -> dict[str, Any]:
    return {
        "topics": len(found.wanted),
        "differences": [
            {
                "topic": each.topic,
                "kind": each.kind,
                "what": each.what,
                "found": each.found,
                "wanted": each.wanted,
                "notTouched": found.why_not(each, allowed) or None,
            }
            for each in found.differences
        ],
        "acls": [
            {
                "topic": acl.topic,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission": "DENY" if acl.is_denial else "ALLOW",
            }
            for acl in found.acls
        ],
    }


def _write_reassignment(file: Path, found: TopicsPlan, target: Cluster) -> None:
    from k2k_assets.topics.reassignment import reassignment

    brokers = target.brokers()
    factors = {e.topic: int(e.wanted or 0) for e in found.differences if e.kind == "replication factor"}
    if too_many := sorted(name for name, factor in factors.items() if factor > len(brokers)):
        raise Refused(
            f"the {target} has {plural(len(brokers), 'broker')}: too few for the replication factor of "
            f"{', '.join(too_many)}"
        )
    document = reassignment(factors, target.replica_ids(list(factors)), brokers)
    try:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}") from None
