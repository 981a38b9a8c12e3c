"""Checks that need several sections of the file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.clients import guarantees
from k2k_assets.pipeline.clients.client_properties import CLIENTS, ClientKind, ClusterRole, PropertyTranslation
from k2k_assets.pipeline.clients.registry_properties import header_faults, translate_registry
from k2k_assets.pipeline.model import Pipeline
from k2k_assets.pipeline.parsing.problems import Path, is_secret
from k2k_assets.pipeline.sections.transform import RecordPart, functions_faults
from k2k_assets.pipeline.sections.values import format_duration


def check_all(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Path and message of every fault that spans sections."""
    for check in _CHECKS:
        yield from check(pipeline)


def check_clients(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Path and message of every fault in the client properties."""
    told: set[Path] = set()
    for cluster, client in CLIENTS:
        translation = pipeline.translation(cluster, client)
        for path, message in [*_faults(translation), *_missing(cluster, client, translation)]:
            if path not in told:
                told.add(path)
                yield path, message


def _faults(translation: PropertyTranslation) -> Iterator[tuple[Path, str]]:
    for fault in translation.faults:
        yield (*fault.section.split("."), fault.key), fault.text


def _missing(cluster: ClusterRole, client: ClientKind, translation: PropertyTranslation) -> Iterator[tuple[Path, str]]:
    required = {"bootstrap.servers": "common"}
    if (cluster, client) == ("source", "consumer"):
        required["group.id"] = "consumer"
    for key, section in required.items():
        if not str(translation.values.get(key, "")).strip():
            yield (cluster, "kafka", section, key), "expected this key, found nothing"


def check_registries(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Path and message of every fault in the settings of schema registries, where ids are mapped."""
    if not pipeline.features.schema_mapping:
        return
    for cluster in ("source", "target"):
        for key, message in translate_registry(pipeline.registry(cluster).config).faults:
            yield (cluster, "registry", "config", key), message
        for name, message in header_faults(pipeline.registry(cluster).headers):
            yield (cluster, "registry", "headers", name), message


def check_topics(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Mappings and metrics have topics of their own: both are deleted by age, and progress and claims must stay."""
    progress = ("coordination.commit.topic", "coordination.assignment.topic")
    names = {
        progress[0]: pipeline.coordination.commit.topic,
        progress[1]: pipeline.coordination.assignment.topic,
        "offsetMapping.topic": pipeline.offset_mapping.topic,
        "metrics.kafka.topic": pipeline.metrics.kafka.topic,
    }
    for one, other in combinations(names, 2):
        if names[one] == names[other] and (one, other) != progress:
            yield tuple(other.split(".")), f"'{names[one]}' is {one} too; they cannot be shared"


def check_routing(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Each listed topic must have a target topic; only the cluster knows which topics a pattern selects."""
    for number, pair in enumerate(pipeline.pairs):
        for position, topic in enumerate(pair.selection.literal or ()):
            try:
                pair.routing.target_topic(topic)
            except Refused as refusal:
                yield ("replication", 2 * number, "source", "topic", position), str(refusal)


def check_pairs(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Pairs of stages select different topics."""
    for number, pair in enumerate(pipeline.pairs):
        source: Path = ("replication", 2 * number, "source")
        for position, topic in enumerate(pair.selection.literal or ()):
            for other, earlier in enumerate(pipeline.pairs):
                # With two lists the fault is reported at the later one; with a list and a pattern, at the list.
                if (
                    other != number
                    and earlier.selection.matches(topic)
                    and (earlier.selection.pattern or other < number)
                ):
                    yield (*source, "topic", position), f"'{topic}' is selected twice: by replication[{2 * other}] too"


def check_marker(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """No other header that the pipeline adds may look like the marker."""
    marker = pipeline.marker
    if marker and marker.header in {header.name for header in pipeline.added_headers}:
        yield ("bidirectional", "headers", "bidirectional"), f"'{marker.header}' is the name of a tracing header too"


def check_transform(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Functions can be loaded, the marker stays, and dead letters go to a topic of their own."""
    for position, why in functions_faults(pipeline.transform, pipeline.folders):
        yield ("transform", position, "python"), why
    marker = pipeline.marker.header if pipeline.marker else ""
    control = {
        pipeline.coordination.commit.topic,
        pipeline.coordination.assignment.topic,
        pipeline.offset_mapping.topic,
        pipeline.metrics.kafka.topic,
    }
    for position, rule in enumerate(pipeline.transform):
        places: dict[str, tuple[RecordPart, ...]] = {"mask": rule.mask, "drop": rule.drop}
        for kind, of_kind in places.items():
            for number, place in enumerate(of_kind):
                if marker and place.header == marker:
                    at: Path = ("transform", position, kind, number, "header")
                    yield at, f"'{marker}' marks copies (features.bidirectionalReplication): without it they come back"
        if rule.dead_letters in control:
            yield ("transform", position, "deadLetters"), f"'{rule.dead_letters}' is a control topic of the pipeline"


def check_timeouts(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Exactly-once: transactions end before their timeout, and the commit topic may take longer than that to read."""
    if not pipeline.features.exactly_once:
        return
    try:
        timeout = pipeline.transaction_timeout
    except ValueError:
        return  # reported with the client properties
    commit = pipeline.coordination.commit
    if "batch_timeout" in commit.model_fields_set and (longest := commit.batch_timeout) >= timeout:
        yield (
            ("coordination", "commit", "batchTimeout"),
            f"exactly-once needs less than {format_duration(timeout)} (the producer's transaction.timeout.ms, after "
            f"which the target aborts a transaction), found {format_duration(longest)}",
        )
    least = timeout + guarantees.SYNC_MARGIN
    found = commit.sync_timeout
    if found <= least:
        yield (
            ("coordination", "commit", "syncTimeout"),
            f"exactly-once needs more than {format_duration(least)} (the producer's transaction.timeout.ms and 10 "
            f"seconds), found {format_duration(found)}",
        )


def check_guard(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """The guard has two spellings, which must not contradict each other."""
    features = pipeline.features
    other = features.apply_mappings_guards
    if "apply_mappings_guard" in features.model_fields_set and other not in (None, features.apply_mappings_guard):
        yield ("features", "applyMappingsGuards"), "contradicts applyMappingsGuard; keep one of them"


def check_slots(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """The number of slots has two keys, which must not contradict each other."""
    other = pipeline.configuration.partition_parallelism
    if "slots" in pipeline.spark.model_fields_set and other not in (None, pipeline.spark.slots):
        yield ("spark", "slots"), f"contradicts configuration.partitionParallelism, which is {other}; keep one of them"


def warnings(pipeline: Pipeline) -> tuple[str, ...]:
    """One line for each reason why keys have no effect or may reveal a secret. Lines show keys, never values."""
    by_reason: dict[str, dict[str, None]] = {}
    for cluster, client in CLIENTS:
        for remark in pipeline.translation(cluster, client).warnings:
            by_reason.setdefault(remark.text, {})[f'{remark.section}."{remark.key}"'] = None
    lines = [f"no effect: {', '.join(keys)}: {reason}" for reason, keys in by_reason.items()]
    lines += [
        f'spark.config."{key}": Spark passes it as an argument of its process, where others may read it'
        for key in pipeline.spark.config
        if is_secret((key,))
    ]
    if pipeline.error_handling.on_foreign_writer == "fail" and not pipeline.routing.keeps_partitions:
        lines.append(
            "no effect: errorHandling.onForeignWriter: where several source partitions feed one target partition, "
            "foreign records cannot be told from our own"
        )
    has_start = all(pair.selection.start is not None for pair in pipeline.pairs)
    if has_start and "auto.offset.reset" in pipeline.client_properties("source", "consumer"):
        lines.append(
            'no effect: source.kafka.consumer."auto.offset.reset": replication[].source.start says where to begin'
        )
    if pipeline.features.schema_mapping:
        for cluster in ("source", "target"):
            remarks = translate_registry(pipeline.registry(cluster).config).remarks
            lines += [f'no effect: {cluster}.registry.config."{key}": {reason}' for key, reason in remarks]
            if "cache_size" in pipeline.registry(cluster).model_fields_set:
                lines.append(
                    f"no effect: {cluster}.registry.cacheSize: each schema is asked for once in a slot, and kept"
                )
    if pipeline.shares_targets and pipeline.features.offset_mapping and not _one_to_one(pipeline):
        lines.append(
            "features.bidirectionalReplication: where several source partitions feed one target partition, or one goes "
            "to several, nobody knows which of the target's own records a group has read: groups there stay unknown, "
            "and are not moved. See docs/bidirectional.md"
        )
    if pipeline.configuration.pipeline_parallelism > 1:
        lines.append("no effect: configuration.pipelineParallelism: slots do the work (partitionParallelism)")
    return tuple(lines)


def _one_to_one(pipeline: Pipeline) -> bool:
    sinks = [pair.routing.topic for pair in pipeline.pairs]
    return pipeline.routing.keeps_partitions and not any(sink.static for sink in sinks)


_CHECKS = (
    check_clients,
    check_registries,
    check_topics,
    check_routing,
    check_pairs,
    check_timeouts,
    check_guard,
    check_slots,
    check_marker,
    check_transform,
)
