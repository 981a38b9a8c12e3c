"""Converts MirrorMaker 2's properties into a pipeline for each enabled flow, and reports keys without a counterpart.

Overrides are as in MirrorMaker 2: `A->B.key` over `key` for connectors, `A.key` over `key` for clients, and
`A.consumer.key` over both, and over `A->B.consumer.key`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k2k_assets.conversion.client_sections import source_sections, target_sections
from k2k_assets.conversion.flow import Flow
from k2k_assets.conversion.sizes import interval, sizes
from k2k_assets.conversion.without_counterpart import reason_for
from k2k_assets.pipeline.java_regex import RegexError, compile_java

# MirrorMaker 2's defaults.
_TOPICS_EXCLUDED = r"mm2.*\.internal,.*\.replica,__.*"
_GROUPS_EXCLUDED = "console-consumer-.*,connect-.*,__.*"
# Topics that it never copies, and its heartbeats, which have no writer any more.
_INTERNAL = (r"__.*", r"\..*", r".*[-.]internal", r"(?:.*\.)?heartbeats")
_DEFAULT_POLICY, _IDENTITY = "DefaultReplicationPolicy", "IdentityReplicationPolicy"


@dataclass
class Conversion:
    """The result for one flow.

    Attributes:
        flow: The flow, as MirrorMaker 2 writes it.
        name: Name of the pipeline.
        document: The pipeline file.
        told: Keys without a counterpart, with the reason.
    """

    flow: str
    name: str
    document: dict[str, Any]
    told: dict[str, str] = field(default_factory=dict)


@dataclass
class Conversions:
    """The result for a file.

    Attributes:
        flows: The result for each enabled flow.
        told: Keys without a counterpart that belong to no single flow, with the reason.
    """

    flows: list[Conversion]
    told: dict[str, str]


def convert(properties: Mapping[str, str]) -> Conversions:
    """Converts a file.

    Args:
        properties: Properties of the file.

    Raises:
        ValueError: The file is not one of MirrorMaker 2, or enables no flow.
    """
    clusters = [alias.strip() for alias in properties.get("clusters", "").split(",") if alias.strip()]
    if not clusters:
        raise ValueError("no key 'clusters': this is not a properties file of MirrorMaker 2")
    flows = [
        Flow(source, target, properties)
        for source in clusters
        for target in clusters
        if source != target and properties.get(f"{source}->{target}.enabled", "").strip().lower() == "true"
    ]
    if not flows:
        raise ValueError("no flow is enabled: expected a key like 'A->B.enabled = true' for two of the 'clusters'")
    converted = [_converted(flow) for flow in flows]
    read = {"clusters"}.union(*(flow.read for flow in flows))
    told = {key: _reason(key, clusters, flows) for key in properties if key not in read}
    for conversion, flow in zip(converted, flows, strict=True):
        own = [key for key in told if key.startswith(flow.prefix)]
        conversion.told.update((key, told.pop(key)) for key in own)
    return Conversions(converted, told)


def _reason(key: str, clusters: Sequence[str], flows: Sequence[Flow]) -> str:
    for flow in flows:
        if key.startswith(flow.prefix):
            return reason_for(key.removeprefix(flow.prefix))
    for source in clusters:
        if any(key.startswith(f"{source}->{target}.") for target in clusters):
            return "its flow is not enabled"
    for alias in sorted(clusters, key=len, reverse=True):
        if key.startswith(f"{alias}."):
            return _reason_of_cluster(key.removeprefix(f"{alias}."), alias, flows)
    return reason_for(key)


def _reason_of_cluster(name: str, alias: str, flows: Sequence[Flow]) -> str:
    if not any(alias in (flow.source, flow.target) for flow in flows):
        return "the cluster takes part in no enabled flow"
    if name.startswith("producer."):
        return "nothing is written to the source"
    if name.startswith("consumer.") and name != "consumer.group.id":
        return "the engine reads only its control topics on the target"
    return reason_for(name)


def _converted(flow: Flow) -> Conversion:
    flow.setting("enabled")
    (source, of_source), (target, of_target) = source_sections(flow), target_sections(flow)
    for alias, sections in ((flow.source, source), (flow.target, target)):
        if "bootstrap.servers" not in sections.get("common", {}):
            raise ValueError(f"the cluster '{alias}' has no key '{alias}.bootstrap.servers'")
    source.setdefault("consumer", {})["group.id"] = f"k2k.{flow.name}"
    policy = flow.setting("replication.policy.class", default=_DEFAULT_POLICY).rpartition(".")[2]
    separator = flow.setting("replication.policy.separator", default=".")
    document: dict[str, Any] = {
        "name": flow.name,
        "features": {
            "exactlyOnce": "enabled",
            "headerReplication": "enabled",
            "offsetMapping": "enabled" if flow.enabled("emit.checkpoints.enabled", True) else "disabled",
            "autoCreateTopics": "enabled",
            "autoCreateControlTopics": "enabled",
            **_marked(flow, policy),
        },
        **({"bidirectional": {"mode": "cluster"}} if _marked(flow, policy) else {}),
        "source": {"kafka": source},
        "target": {"kafka": target},
        "replication": [
            {"source": {"topic": _topics(flow, policy, separator)}},
            {"sink": {"topic": _sink(flow, policy, separator), "partition": "source"}},
        ],
        "groups": _groups(flow),
        **sizes(flow),
    }
    told = {**of_source, **of_target, **_told(flow, policy)}
    return Conversion(flow.prefix.removesuffix("."), flow.name, document, told)


def _told(flow: Flow, policy: str) -> dict[str, str]:
    """Settings that are known, but have no counterpart in a pipeline file."""
    told: dict[str, str] = {}
    if policy not in (_DEFAULT_POLICY, _IDENTITY):
        told[_key(flow, "replication.policy.class")] = (
            "a Java class that is not MirrorMaker 2's own: topics keep their names. Correct replication[].sink.topic "
            "if the class gives them other names"
        )
    if _marked(flow, policy):
        told[f"{flow.target}->{flow.source}.enabled"] = (
            "with the IdentityReplicationPolicy both ways MirrorMaker 2 copies records round in circles. This pipeline "
            "marks its copies by a header, and leaves out those that come back (features.bidirectionalReplication)"
        )
    if flow.setting("sync.group.offsets.enabled"):
        told[_key(flow, "sync.group.offsets.enabled")] = (
            "a separate program moves groups: `k2k-offset-mapping start -f FILE`"
        )
    return told


def _marked(flow: Flow, policy: str) -> dict[str, str]:
    """The feature that keeps records from going round in circles where names of topics do not tell whence they come."""
    is_both_ways = flow.properties.get(f"{flow.target}->{flow.source}.enabled", "").strip().lower() == "true"
    return {"bidirectionalReplication": "enabled"} if policy != _DEFAULT_POLICY and is_both_ways else {}


def _key(flow: Flow, name: str) -> str:
    """The key in the file."""
    return flow.prefix + name if flow.prefix + name in flow.properties else name


def _topics(flow: Flow, policy: str, separator: str) -> str:
    excluded = [*_INTERNAL, *flow.listed("topics.exclude", "topics.blacklist", default=_TOPICS_EXCLUDED)]
    if policy == _DEFAULT_POLICY:
        # Copies of topics that have passed the target, perhaps on the way through other clusters.
        excluded.append(f"(?:.*{_literal(separator)})?{_literal(flow.target + separator)}.*")
    return _selection(flow.listed("topics", default=".*"), excluded, "topics")


def _sink(flow: Flow, policy: str, separator: str) -> str | dict[str, str]:
    return {"prefix": flow.source + separator} if policy == _DEFAULT_POLICY else "source"


_NO_NAME = "(?!)"  # an expression that matches nothing


def _groups(flow: Flow) -> dict[str, Any]:
    chosen = flow.listed("groups", default=".*")
    excluded = flow.listed("groups.exclude", "groups.blacklist", default=_GROUPS_EXCLUDED)
    groups: dict[str, Any] = {"consumerGroups": _selection(chosen, excluded, "groups") if chosen else _NO_NAME}
    groups.update(interval(flow, "sync.group.offsets.interval.seconds", "pollInterval"))
    return groups


def _selection(chosen: Sequence[str], excluded: Sequence[str], key: str) -> str:
    """One expression for lists of names and expressions; excluded ones have priority.

    Raises:
        ValueError: An expression cannot be used.
    """
    if not chosen:
        raise ValueError(f"{key}: it selects nothing")
    for expression in (*chosen, *excluded):
        try:
            compile_java(expression)
        except RegexError as fault:
            raise ValueError(f"{key}: '{expression}' is not a regular expression that k2k supports: {fault}") from None
    included = "|".join(chosen) if len(chosen) == 1 and "|" not in chosen[0] else f"(?:{'|'.join(chosen)})"
    joined = f"(?!(?:{'|'.join(dict.fromkeys(excluded))})$){included}" if excluded else included
    try:
        compile_java(joined)
    except RegexError as fault:
        hint = "Flags of one expression are written (?i:...)"
        raise ValueError(f"{key}: the expressions cannot be joined to one, '{joined}': {fault}. {hint}") from None
    return joined


def _literal(text: str) -> str:
    """A Java expression that only matches this text."""
    return "".join(letter if letter.isalnum() or letter in "_-" else f"\\{letter}" for letter in text)
