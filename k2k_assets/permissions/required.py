"""The permissions that each program needs on each cluster: the one list that all commands and checks are made from.

The list is exact: with it everything works, and each permission on it is needed, be it only for what a program warns of
if it is missing. In Kafka 2.8 and later, Read, Write
and Alter on a resource include Describe, and Write on a topic includes idempotent writes: so neither `Describe` beside
these nor `IdempotentWrite` is needed, nor anything on the cluster itself. Copying needs no group on the source, because
partitions are assigned, and no offset is committed there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from k2k_assets.kafka.connection import Role
from k2k_assets.permissions.names import NamePattern
from k2k_assets.permissions.subjects import Resource, Subject, patterns, resource_of
from k2k_assets.pipeline import Pipeline

Program = Literal["replication", "mapper", "checks", "failback", "telemetry"]
"""`replication` copies, pauses topics, and sets positions by hand (`k2k-tool set`, `reset`, `adopt`); `mapper` moves
consumer groups; `checks` looks at both sides (asset checks, `k2k-tool describe`, `translate`); `failback` brings groups
back to the source: the only one that writes there; `telemetry` writes metrics to a topic, if it is told to."""

Operation = Literal["Read", "Write", "Create", "Alter", "Describe", "DescribeConfigs"]

PROGRAMS: tuple[Program, ...] = get_args(Program)
DESCRIBING: frozenset[Operation] = frozenset({"Read", "Write", "Alter"})
"""Operations that include Describe."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One ACL.

    Attributes:
        cluster: The cluster.
        subject: Role of the resource in the pipeline.
        resource: Kafka's kind of resource.
        pattern: Name pattern of the resource.
        operation: The allowed operation.
        why: Text on its purpose.
    """

    cluster: Role
    subject: Subject
    resource: Resource
    pattern: NamePattern
    operation: Operation
    why: str


@dataclass(frozen=True, slots=True)
class Need:
    """One operation that a program needs on one subject.

    Attributes:
        cluster: As in `Permission`; so are `subject`, `operation` and `why`.
        is_demanded: Whether the program refuses to start without it; otherwise it warns of what it cannot do.
    """

    cluster: Role
    subject: Subject
    operation: Operation
    why: str
    is_demanded: bool = True


def programs_of(pipeline: Pipeline) -> tuple[Program, ...]:
    """The programs that a pipeline uses, as far as its file tells."""
    return ("replication", "mapper", "checks") if pipeline.features.offset_mapping else ("replication", "checks")


def required(pipeline: Pipeline, programs: Collection[Program]) -> list[Permission]:
    """The permissions for a principal that runs some programs, without duplicates and implied ones.

    Args:
        pipeline: The pipeline.
        programs: The programs.

    Raises:
        Refused: The routing names no target for a selected topic.
    """
    found: dict[tuple[object, ...], Permission] = {}
    for need in (need for program in PROGRAMS if program in programs for need in needs(pipeline, program)):
        for pattern in patterns(pipeline, need.subject):
            resource = resource_of(need.subject)
            key = (need.cluster, resource, pattern, need.operation)
            known = found.get(key)
            if known is None:
                found[key] = Permission(need.cluster, need.subject, resource, pattern, need.operation, need.why)
            elif need.why not in known.why.split("; "):
                found[key] = replace(known, why=f"{known.why}; {need.why}")
    return [permission for permission in found.values() if not _is_implied(permission, found.values())]


def _is_implied(permission: Permission, all_of_them: Iterable[Permission]) -> bool:
    return permission.operation == "Describe" and any(
        other.operation in DESCRIBING
        and (other.cluster, other.resource, other.pattern)
        == (permission.cluster, permission.resource, permission.pattern)
        for other in all_of_them
    )


def needs(pipeline: Pipeline, program: Program) -> Iterator[Need]:
    """Yields the operations that a program needs, by subject."""
    yield from _NEEDS[program](pipeline)


def _keeps_some(pipeline: Pipeline) -> bool:
    return any(pair.routing.keeps_partitions for pair in pipeline.pairs)


def _replication(pipeline: Pipeline) -> Iterator[Need]:
    features = pipeline.features
    yield Need("source", "copied topics", "Read", "copy the records")
    yield Need("target", "target topics", "Write", "write the copies")
    if _keeps_some(pipeline):
        yield Need("target", "target topics", "Read", "tell aborted records from those of others (partition: source)")
    yield Need("target", "target topics", "DescribeConfigs", "see how large a batch may be")
    if features.auto_create_topics:
        yield Need("source", "copied topics", "DescribeConfigs", "create target topics with the same configs")
        yield Need("target", "target topics", "Create", "create missing topics (features.autoCreateTopics)")
        if _keeps_some(pipeline):
            yield Need(
                "target", "target topics", "Alter", "add partitions when the source has more (partition: source)"
            )
    yield Need(
        "target", "dead-letter topics", "Write", "write records for which a rule fails (transform[].deadLetters)"
    )
    yield Need(
        "target", "dead-letter topics", "DescribeConfigs", "see how large a batch may be, and whether letters stay"
    )
    if features.auto_create_topics:
        yield Need("target", "dead-letter topics", "Create", "create missing topics (features.autoCreateTopics)")
    yield Need("target", "slots", "Write", "the transactions that progress is written in")
    control: list[Subject] = ["assignment topic", "commit topic"]
    if features.offset_mapping:
        control.append("mapping topic")
    for topic in control:
        yield Need("target", topic, "Write", _WRITTEN[topic])
        yield Need("target", topic, "Read", _READ[topic])
        if features.auto_create_control_topics:
            yield Need("target", topic, "Create", _CREATED)
        if features.validate_control_topic_settings:
            yield Need(
                "target",
                topic,
                "DescribeConfigs",
                "warn of settings that lose data (features.validateControlTopicSettings)",
            )
    if pipeline.marker is not None:
        yield from _UNMARKED_COPIES


_UNMARKED_COPIES = (
    Need(
        "source",
        "reverse commit topic",
        "Read",
        "find copies that the pipeline back made without the marker: unless permitted, they come back as new records",
        is_demanded=False,
    ),
    Need(
        "source",
        "reverse assignment topic",
        "Read",
        "know the marker of copies that older releases made: unless permitted, a topic may be stopped for them",
        is_demanded=False,
    ),
)
_CREATED = "create it if missing (features.autoCreateControlTopics)"
_WRITTEN: dict[Subject, str] = {
    "assignment topic": "say who works",
    "commit topic": "write positions",
    "mapping topic": "write which offset became which",
}
_READ: dict[Subject, str] = {
    "assignment topic": "see who works",
    "commit topic": "go on where the copy stands",
    "mapping topic": "see whether positions were lost",
}


def _mapper(pipeline: Pipeline) -> Iterator[Need]:
    yield Need("source", "copied topics", "Describe", "see that they still are those that were copied")
    if pipeline.shares_targets:
        yield Need("source", "copied topics", "Read", "see where copies end that the pipeline back has lost there")
    yield Need("source", "consumer groups", "Describe", "see where they stand")
    yield from _mappings(pipeline)
    yield Need("target", "assignment topic", "Read", "see whether a newer mapper works")
    yield Need("target", "assignment topic", "Write", "say which mapper works")
    yield Need("target", "target topics", "Read", "commit offsets of them")
    yield Need("target", "consumer groups", "Read", "commit translated offsets")
    yield Need("target", "mapper", "Write", "the transactions that groups are committed in")
    if pipeline.features.auto_create_control_topics:
        for topic in _WRITTEN:
            yield Need("target", topic, "Create", _CREATED)


def _checks(pipeline: Pipeline) -> Iterator[Need]:
    yield Need("target", "commit topic", "Read", "show positions")
    if not pipeline.features.offset_mapping:
        yield Need("source", "copied topics", "Describe", "show how far they reach")
        return
    yield from _mappings(pipeline)
    yield Need("target", "assignment topic", "Read", "know the settings under which something was copied")
    for cluster, subject in _BOTH_SIDES:
        yield Need(cluster, subject, "Read", "compare the content of both sides")
        yield Need(cluster, subject, "DescribeConfigs", "tell missing records from compacted ones")


_BOTH_SIDES: tuple[tuple[Role, Subject], ...] = (("source", "copied topics"), ("target", "target topics"))


def _mappings(pipeline: Pipeline) -> Iterator[Need]:
    yield Need("target", "commit topic", "Read", "see how far is copied")
    yield Need("target", "mapping topic", "Read", "translate offsets")
    if pipeline.shares_targets:
        yield Need("source", "reverse commit topic", "Read", "see how far the pipeline back has copied")
        yield Need("source", "reverse mapping topic", "Read", "see what groups have read of the target's own records")


def _failback(pipeline: Pipeline) -> Iterator[Need]:
    yield from _mappings(pipeline)
    yield Need("source", "copied topics", "Read", "commit offsets of them")
    yield Need("source", "consumer groups", "Read", "write positions back: failback alone writes to the source")
    yield Need("target", "target topics", "Read", "commit offsets of them")
    yield Need("target", "consumer groups", "Read", "see where groups stand, and mark those that went back")


def _telemetry(pipeline: Pipeline) -> Iterator[Need]:
    yield Need("target", "metrics topic", "Write", "write metrics (OTEL_METRICS_EXPORTER=kafka)")
    if pipeline.features.auto_create_control_topics:
        yield Need("target", "metrics topic", "Create", _CREATED)


_NEEDS: dict[Program, Callable[[Pipeline], Iterator[Need]]] = {
    "replication": _replication,
    "mapper": _mapper,
    "checks": _checks,
    "failback": _failback,
    "telemetry": _telemetry,
}
