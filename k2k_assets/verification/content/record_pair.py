"""Reads a source record and its copy, to show a finding of a check to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from k2k_assets.control.copy_settings import CopySettings, shared
from k2k_assets.control.noted_settings import noted_settings
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Header, Message, headers_of, timestamp_of
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.index.portion_columns import PortionsBySource
from k2k_assets.mapping.index.portions import settings_ranges
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.schema_mapping import facets_word
from k2k_assets.translation import OffsetTranslator
from k2k_assets.verification.content.expected_changes import ChangeRules
from k2k_assets.verification.content.expected_headers import ClusterIds, expected_headers
from k2k_assets.verification.content.payloads import payloads_of, without_ids

Role = Literal["source", "target"]

_PARTS = ("key", "value", "headers", "timestamp")
_UNREADABLE: tuple[Header, ...] = (("a header key that is not UTF-8: the client cannot read it", None),)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a record, which may not exist.

    Attributes:
        partition: The partition.
        offset: The offset.
    """

    partition: TopicPartition
    offset: int

    @classmethod
    def parse(cls, text: str) -> RecordPlace:
        """Reads `TOPIC:PARTITION:OFFSET`.

        Raises:
            ValueError: The text has another form.
        """
        topic, *numbers = text.rsplit(":", 2)
        if not topic or len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"expected TOPIC:PARTITION:OFFSET, such as orders:0:120, found {text!r}")
        partition, offset = map(int, numbers)
        return cls(TopicPartition(topic, partition), offset)

    def __str__(self) -> str:
        return f"{self.partition.topic}:{self.partition.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as it was read.

    Attributes:
        key: The key; None if it is null.
        value: The value; None if it is null.
        headers: The headers, in their order.
        timestamp: Milliseconds since the epoch; None if the record has none.
        by_broker: Whether the broker has set the timestamp.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    by_broker: bool


class Facing(NamedTuple):
    """What faces a record on the other cluster.

    Attributes:
        place: The place of its copy, or of its original; None if the mappings do not prove it.
        dropped_by: Rule by which the record was left out, so that it has no copy; None if it was not.
    """

    place: RecordPlace | None = None
    dropped_by: str | None = None


def facing(pipeline: Pipeline, role: Role, place: RecordPlace) -> Facing:
    """What faces a record on the other cluster, by the mappings.

    Args:
        pipeline: The pipeline.
        role: The cluster of `place`.
        place: The record.

    Raises:
        K2KError: See `OffsetTranslator`.
    """
    with OffsetTranslator.open(pipeline, of_records=True) as translator:
        ask = translator.translate if role == "source" else translator.translate_back
        rows = ask(place.partition.topic, place.partition.partition, [place.offset])
    for row in rows:
        if row.dropped_by:
            return Facing(dropped_by=row.dropped_by)
        if row.state == "exact" and row.to_topic and row.to_partition is not None and row.to_offset is not None:
            return Facing(RecordPlace(TopicPartition(row.to_topic, row.to_partition), row.to_offset))
    return Facing()


def record_at(pipeline: Pipeline, cluster: Cluster, place: RecordPlace) -> ShownRecord | None:
    """Reads the record at an offset; None if it has none: a marker, an aborted record, or a removed one.

    Args:
        pipeline: Has the client settings.
        cluster: One of the pipeline's clusters.
        place: The place of the record.

    Raises:
        Refused: The partition does not exist, or the offset lies outside its log.
        K2KError: The cluster does not answer.
    """
    tp, offset = place.partition, place.offset
    if tp not in set(cluster.partitions_of([tp.topic])):
        raise Refused(f"the {cluster} has no partition {tp}")
    start = cluster.led_offsets([tp], "earliest").offsets.get(tp)
    end = cluster.led_offsets([tp], "stable").offsets.get(tp)
    if start is None or end is None:
        raise Refused(f"the {cluster} does not say where {tp} starts and ends: it has no leader now")
    if not start <= offset < end:
        raise Refused(f"{tp} of the {cluster} holds offsets {start} to {end - 1}; {offset} is not among them")
    properties = pipeline.client_properties(cluster.role, "consumer")
    wanted = OffsetRange(tp.topic, tp.partition, offset, offset + 1)
    return next((_seen(message) for chunk in read_range(properties, wanted) for message in chunk), None)


class Differences(NamedTuple):
    """What was found by comparing a copy with its record.

    Attributes:
        parts: The parts in which they differ.
        without_schema: The parts whose schema a registry does not have any more, so that it could not be compared.
        other_rules: The parts whose schema the target's registry has without all of its rules.
    """

    parts: list[str]
    without_schema: list[str]
    other_rules: list[str]


def differences_of(
    pipeline: Pipeline,
    place: RecordPlace,
    source: ShownRecord,
    target: ShownRecord,
    clusters: ClusterIds,
    settings: CopySettings | None = None,
) -> Differences:
    """The parts in which a copy is not what the settings of the copy make of its record.

    Args:
        pipeline: Has made the copy.
        place: Where the record is on the source.
        source: The record.
        target: Its copy.
        clusters: Source and target.
        settings: The settings under which it was copied, from `settings_at`; None: those of today.

    Raises:
        RegistryUnreachable: A schema registry does not answer.
        Refused: The rules of the copy cannot be applied here: the code of a function is another one now, for one.
    """
    settings, (topic, partition), offset = settings or CopySettings.of(pipeline), place.partition, place.offset
    facets = facets_word(settings.facets(topic))
    rules = ChangeRules(settings.transform, pipeline.folders).of_topic(topic)
    if rules.text:
        parts = (source.timestamp or -1, source.key, source.value, source.headers)
        changed = rules.opened().of_parts(place.partition, offset, *parts)
        source = replace(source, key=changed.key, value=changed.value, headers=tuple(changed.headers or ()))
    by_part = list(
        zip(
            ("key", "value"),
            payloads_of(pipeline, "source").schemas(topic, source.key, source.value, facets),
            payloads_of(pipeline, "target").schemas(topic, target.key, target.value, facets),
            strict=True,
        )
    )
    source_key, source_value = without_ids(source.key, source.value, facets)
    target_key, target_value = without_ids(target.key, target.value, facets)
    expected = expected_headers(settings, clusters, rules.id)
    headers = expected.of(topic, partition, offset, source.headers) if expected else source.headers
    found = differences(
        replace(source, key=source_key, value=source_value, headers=tuple(headers)),
        replace(target, key=target_key, value=target_value),
        settings.headers or bool(expected),
        settings.timestamps,
    )
    unknown = [part for part, *schemas in by_part if None in schemas]
    known = [(part, ours, theirs) for part, ours, theirs in by_part if ours and theirs]
    others = [part for part, ours, theirs in known if ours.text != theirs.text]
    unruly = [part for part, ours, theirs in known if ours.text == theirs.text and not ours.is_kept_by(theirs)]
    return Differences([part for part in _PARTS if part in {*found, *others}], unknown, unruly)


def settings_at(pipeline: Pipeline, place: RecordPlace, source: Cluster, target: Cluster) -> CopySettings:
    """The settings under which a record was copied.

    The index tells; of what it does not know, the settings that hold for all copies; if there are none, those of today.

    Args:
        pipeline: Has made the copy.
        place: Where the record is on the source.
        source: The source cluster.
        target: The target cluster.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    known = noted_settings(pipeline, target)
    found = known.get(_fingerprint_at(pipeline, place, source) or "")
    return found or shared(known.values()) or CopySettings.of(pipeline)


def _fingerprint_at(pipeline: Pipeline, place: RecordPlace, source: Cluster) -> str | None:
    topic, partition = place.partition
    described = source.describe([topic]).get(topic)
    if described is None:
        return None
    try:
        portions = PortionsBySource(IndexReader.open(pipeline).portions)
    except (IndexUnusable, OSError):
        return None
    ranges = settings_ranges(portions.of(SourcePartition(source.cluster_id(), topic, described.topic_id, partition)))
    return next((each.settings for each in ranges if each.start <= place.offset < each.end), None)


def differences(source: ShownRecord, target: ShownRecord, headers: bool, timestamps: bool) -> list[str]:
    """The parts in which a copy differs from its record.

    Args:
        source: The record.
        target: Its copy.
        headers: Whether headers are compared.
        timestamps: Whether the pipeline keeps timestamps; one that a broker has set is never compared.
    """
    judged: Mapping[str, bool] = {
        "key": source.key != target.key,
        "value": source.value != target.value,
        "headers": headers and source.headers != target.headers,
        "timestamp": timestamps
        and not (source.by_broker or target.by_broker)
        and (source.timestamp or 1) != (target.timestamp or 1),  # a copy has 1 instead of 0, which cannot be written
    }
    return [part for part, differs in judged.items() if differs]


def _seen(message: Message) -> ShownRecord:
    milliseconds, by_broker = timestamp_of(message)
    headers = headers_of(message)
    return ShownRecord(
        key=message.key(),
        value=message.value(),
        headers=_UNREADABLE if headers is None else tuple(headers),
        timestamp=milliseconds,
        by_broker=by_broker,
    )
