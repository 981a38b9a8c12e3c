"""What `k2k validate --connect` asks both clusters. Changes nothing on either."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from k2k_assets.control.control_topics import control_topics, missing_control_topics
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT, plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.pipeline.rule_patterns import rules_for_nothing, topics_without_schemas
from k2k_assets.replication.driver.planning import ensure_transaction_timeout
from k2k_assets.topics.create import WantedTopic, rehearse_creation
from k2k_assets.topics.dead_letters import missing_dead_letter_topics
from k2k_assets.topics.names import left_out, selected
from k2k_assets.topics.selection import select_topics, selected_on
from k2k_assets.topics.target_topics import TargetPlan, plan_target_topics, wanted_topics
from k2k_assets.transport.factory import obstacles_to_batches, tries_batches

# The subject need not exist: a registry that answers and accepts the credentials says so.
_ANY_SUBJECT = "k2k-validate"


@dataclass
class ConnectionReport:
    """The result of the checks.

    Attributes:
        lines: What is correct and what `k2k start` would do, for people.
        faults: Faults for which `k2k start` would fail.
    """

    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def check_connections(pipeline: Pipeline) -> ConnectionReport:
    """Checks both clusters without changing anything; continues after a fault if possible."""
    report = ConnectionReport()
    with (
        Cluster("source", pipeline.client_properties("source", "admin")) as source,
        Cluster("target", pipeline.client_properties("target", "admin")) as target,
    ):
        with ThreadPoolExecutor(2) as both:  # so that two silent clusters cost one timeout
            source_answers, target_answers = both.map(partial(_reach, report), (source, target))
            list(both.map(partial(_reach_registry, report, pipeline), ("source", "target")))
        topics = _source(report, pipeline, source) if source_answers else None
        if source_answers and target_answers and _permitted(report, pipeline, source, target, topics or {}):
            report.lines.append(transport_line(pipeline))
            _control(report, pipeline, target)
            if topics:
                _target(report, pipeline, source, target, topics)
    return report


def _reach(report: ConnectionReport, cluster: Cluster) -> bool:
    try:
        report.lines.append(f"{cluster}: answers, cluster id {cluster.cluster_id()}")
    except K2KError as fault:
        report.faults.append(str(fault))
        return False
    return True


def _reach_registry(report: ConnectionReport, pipeline: Pipeline, cluster: ClusterRole) -> None:
    if not pipeline.schema_rules:
        return
    from k2k_assets.registry.of_pipeline import open_registry

    try:
        registry = open_registry(pipeline, cluster)
        registry.versions(_ANY_SUBJECT)
        report.lines.append(f"{registry}: answers")
    except K2KError as fault:
        report.faults.append(str(fault))


def transport_line(pipeline: Pipeline) -> str:
    """By which form of transport records would be brought, and why not by batches; asks the brokers."""
    found = obstacles_to_batches(pipeline, asks_brokers=True)
    why = "; ".join(found)
    if tries_batches(pipeline):
        return f"transport: records: {why}" if found else "transport: batches"
    could = f"batches could not be used: {why}" if found else "batches could be used (transport.form: auto)"
    return f"transport: records, as transport.form says; {could}"


def _source(report: ConnectionReport, pipeline: Pipeline, source: Cluster) -> dict[str, int] | None:
    """Selection and offsets of the source."""
    try:
        found = select_topics(pipeline, source)
        topics = found.topics
        partitions = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
        source.offsets(partitions, "stable")
    except K2KError as fault:
        report.faults.append(str(fault))
        return None
    report.lines.append(f"selected: {plural(len(topics), 'topic')}, {plural(len(partitions), 'partition')}")
    existing = source.topics()
    if internal := sorted(left_out(pipeline, existing)):
        report.lines.append(f"not selected, because internal: {', '.join(internal)}")
    if others := sorted(selected(pipeline, existing) - selected_on(pipeline, source, existing)):
        report.lines.append(f"not selected, as control topics of other pipelines: {', '.join(others)}")
    if unmapped := topics_without_schemas(pipeline, topics):
        report.lines.append(unmapped)
    doubts = (*found.doubts, rules_for_nothing(pipeline, topics))
    report.lines += [f"warning: {doubt}" for doubt in doubts if doubt]
    return topics


def _permitted(
    report: ConnectionReport, pipeline: Pipeline, source: Cluster, target: Cluster, topics: dict[str, int]
) -> bool:
    """Reports every missing permission; other faults can only be found once they are granted."""
    try:
        targets = {pipeline.routing.target_topic(topic) for topic in topics}
        missing = TopicCheck(pipeline, source, target, "replication", topics, targets).before_creation()
    except K2KError as fault:
        report.faults.append(str(fault))
        return False
    if missing:
        report.faults += [*map(str, missing), f"{ACLS_HINT}."]
    return not missing


def _control(report: ConnectionReport, pipeline: Pipeline, target: Cluster) -> None:
    try:
        ensure_transaction_timeout(pipeline, target)
        missing = missing_control_topics(pipeline, target)
        rehearse_creation(target, missing)
        present = control_topics(pipeline).keys() - {topic.name for topic in missing}
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
        missing = {topic.name: topic for topic in wanted_topics(pipeline, source, target, plan, topics)}
        dead_letters = missing_dead_letter_topics(pipeline, target, plan.feeding)
        rehearse_creation(target, [*missing.values(), *dead_letters])
        existing = target.describe([name for name in plan.feeding if name not in missing])
    except K2KError as fault:
        report.faults.append(str(fault))
        return
    counts = {name: topic.partitions for name, topic in existing.items()}
    report.lines += _routes(plan, topics, missing, counts)
    report.lines += [f"dead letters -> {_to_create(topic)}" for topic in dead_letters]


def _routes(
    plan: TargetPlan, topics: dict[str, int], missing: dict[str, WantedTopic], existing: dict[str, int]
) -> Iterable[str]:
    for name, sources in plan.feeding.items():
        arriving = ", ".join(f"{topic} ({plural(topics[topic], 'partition')})" for topic in sources)
        there = _to_create(missing[name]) if name in missing else f"{name} ({plural(existing[name], 'partition')})"
        yield f"{arriving} -> {there}"


def _to_create(topic: WantedTopic) -> str:
    return f"{topic.name}: would be created with {plural(topic.partitions or 1, 'partition')}"
