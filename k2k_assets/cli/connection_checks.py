"""What `k2k validate --connect` asks both clusters. Changes nothing on either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from k2k_assets.cli.words import plural
from k2k_assets.errors import K2KError
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.topic_partition import TopicPartition
from k2k_assets.topics.control_topics import control_topics, missing_control_topics
from k2k_assets.topics.creation import WantedTopic, rehearse_creation
from k2k_assets.topics.selection import resolve_topics
from k2k_assets.topics.target_topics import TargetPlan, plan_target_topics, wanted_topics

_READ = (AclOperation.READ, AclOperation.DESCRIBE)
_WRITE = (AclOperation.WRITE, AclOperation.DESCRIBE)
_BOTH = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)


@dataclass
class ConnectionReport:
    """What was found.

    Attributes:
        lines: What is in order and what would be done, for people.
        faults: What would make `k2k start` fail.
    """

    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def check_connections(pipeline: Pipeline) -> ConnectionReport:
    """Asks both clusters all that can be asked without changing anything; goes on after a fault where it can."""
    report = ConnectionReport()
    with (
        Cluster("source", pipeline.client_properties("source", "admin")) as source,
        Cluster("target", pipeline.client_properties("target", "admin")) as target,
    ):
        with ThreadPoolExecutor(2) as both:  # so that two silent clusters take one time-out
            source_answers, target_answers = both.map(partial(_reach, report), (source, target))
        topics = _source(report, pipeline, source) if source_answers else None
        if target_answers:
            _control(report, pipeline, target)
        if topics and target_answers:
            _target(report, pipeline, source, target, topics)
    return report


def _reach(report: ConnectionReport, cluster: Cluster) -> bool:
    try:
        report.lines.append(f"{cluster}: answers, cluster id {cluster.cluster_id()}")
    except K2KError as fault:
        report.faults.append(str(fault))
        return False
    return True


def _source(report: ConnectionReport, pipeline: Pipeline, source: Cluster) -> dict[str, int] | None:
    """Selection, permissions and offsets of the source."""
    try:
        topics = resolve_topics(pipeline, source)
        _permitted(report, source, topics, _READ)
        partitions = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
        source.offsets(partitions, "stable")
    except K2KError as fault:
        report.faults.append(str(fault))
        return None
    report.lines.append(f"selected: {plural(len(topics), 'topic')}, {plural(len(partitions), 'partition')}")
    return topics


def _control(report: ConnectionReport, pipeline: Pipeline, target: Cluster) -> None:
    try:
        missing = missing_control_topics(pipeline, target)
        rehearse_creation(target, missing)
        present = control_topics(pipeline).keys() - {topic.name for topic in missing}
        _permitted(report, target, sorted(present), _BOTH)
    except K2KError as fault:
        report.faults.append(str(fault))
        return
    report.lines += [f"control topic {name}: exists" for name in sorted(present)]
    report.lines += [f"control topic {_to_create(topic)}" for topic in missing]


def _target(
    report: ConnectionReport, pipeline: Pipeline, source: Cluster, target: Cluster, topics: dict[str, int]
) -> None:
    try:
        plan = plan_target_topics(pipeline, source, target, topics)
        missing = {topic.name: topic for topic in wanted_topics(source, target, plan, topics)}
        rehearse_creation(target, list(missing.values()))
        existing = target.describe([name for name in plan.feeding if name not in missing])
        _permitted(report, target, sorted(existing), _WRITE)
    except K2KError as fault:
        report.faults.append(str(fault))
        return
    counts = {name: topic.partitions for name, topic in existing.items()}
    report.lines += _routes(plan, topics, missing, counts)


def _routes(
    plan: TargetPlan, topics: dict[str, int], missing: dict[str, WantedTopic], existing: dict[str, int]
) -> Iterable[str]:
    for name, sources in plan.feeding.items():
        arriving = ", ".join(f"{topic} ({plural(topics[topic], 'partition')})" for topic in sources)
        there = _to_create(missing[name]) if name in missing else f"{name} ({plural(existing[name], 'partition')})"
        yield f"{arriving} -> {there}"


def _to_create(topic: WantedTopic) -> str:
    return f"{topic.name}: would be created with {plural(topic.partitions or 1, 'partition')}"


def _permitted(
    report: ConnectionReport, cluster: Cluster, names: Iterable[str], needed: Sequence[AclOperation]
) -> None:
    """Reports the operations that the broker says are not allowed on topics; a broker may say nothing."""
    names = list(names)
    if not names:
        return
    asked = cluster.admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=cluster.timeout
    )
    for name, future in asked.items():
        allowed = _answer(cluster, future).authorized_operations
        lacking = [operation.name for operation in needed if allowed is not None and operation not in allowed]
        if lacking:
            report.faults.append(
                f"the {cluster} does not allow {' and '.join(lacking)} on the topic '{name}'. Add the ACLs."
            )


def _answer(cluster: Cluster, future: Future[Any]) -> Any:
    try:
        return future.result(timeout=cluster.timeout + 5)
    except KafkaException as exception:
        error = clients.error_of(exception)
        raise K2KError(f"the {cluster} refused to describe its topics: {error.str()}") from None
    except TimeoutError:
        raise clients.unreachable(cluster.role, {"bootstrap.servers": cluster.servers}, "no answer in time") from None
