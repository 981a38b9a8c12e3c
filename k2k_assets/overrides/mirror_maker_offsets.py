"""Reads from MirrorMaker 2's own topics how far it has copied, as a table to adopt."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange, read_ranges
from k2k_assets.overrides.adopted_table import AdoptedPosition, AdoptedTable
from k2k_assets.overrides.mirror_maker_records import (
    OffsetSync,
    SourceOffset,
    parse_offset_sync,
    parse_source_offset,
)
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole

log = logging.getLogger("k2k.overrides")

_SYNCS, _INTERNAL = "mm2-offset-syncs.", ".internal"


def read_mirror_maker(
    pipeline: Pipeline,
    source: Cluster,
    target: Cluster,
    alias: str,
    offsets_topic: str | None = None,
    syncs_topic: str | None = None,
) -> AdoptedTable:
    """Reads how far MirrorMaker 2 has copied.

    The position is the one behind Connect's last offset. An offset sync that lies further on counts instead: its record
    is on the target, though Connect had not noted it when MirrorMaker 2 ended.

    Args:
        pipeline: Has the settings of the clients.
        source: The source cluster.
        target: The target cluster.
        alias: MirrorMaker's name for the source cluster.
        offsets_topic: Connect's offsets topic on the target; None: that of MirrorMaker's own workers.
        syncs_topic: The offset syncs, on either cluster; None: they are looked for.

    Raises:
        Refused: There is no such topic, or nothing of that source cluster in it.
        ClusterUnreachable: A cluster does not answer.
    """
    topic = offsets_topic or f"mm2-offsets.{alias}.internal"
    if topic not in target.topics():
        raise Refused(
            f"the {target} has no topic {topic}, where MirrorMaker 2 keeps its positions. Name it with "
            "--offsets-topic: that of its Connect workers (offset.storage.topic); or name the source as its file does"
        )
    offsets = _source_offsets(pipeline, target, topic, alias)
    syncs = _syncs(pipeline, source, target, alias, syncs_topic)
    positions = {}
    for tp, found in offsets.items():
        if found.offset is None:
            continue
        sync = syncs.get(tp)
        further = sync is not None and sync.source_offset > found.offset
        offset = sync.source_offset if sync is not None and further else found.offset
        told = f"offset sync {offset}, beyond Connect's {found.offset}" if further else f"Connect's offset {offset}"
        positions[tp] = AdoptedPosition(offset + 1, told=told)
    return AdoptedTable(positions, None, f"MirrorMaker 2 ({topic}, source {alias})")


def _source_offsets(pipeline: Pipeline, target: Cluster, topic: str, alias: str) -> dict[TopicPartition, SourceOffset]:
    found: dict[TopicPartition, SourceOffset] = {}
    aliases: set[str] = set()
    for message in _records(pipeline, target, topic):
        try:
            one = parse_source_offset(message.key(), message.value())
        except ValueError as error:
            raise Refused(f"{topic}-{message.partition()}@{message.offset()} cannot be read: {error}") from None
        if one is None:
            continue
        aliases.add(one.cluster)
        if one.cluster != alias:
            continue
        before = found.get(one.source)
        if before is not None and before.connector != one.connector and before.offset is not None:
            raise Refused(
                f"two connectors have copied {one.source} ({before.connector}, {one.connector}), as {topic} tells: "
                "say by a table which position counts (--table)"
            )
        found[one.source] = one
    if not found:
        others = f"; it has positions of {', '.join(sorted(aliases))}" if aliases else ""
        raise Refused(f"{topic} on the {target} has no position of a source named {alias}{others}")
    return found


def _syncs(
    pipeline: Pipeline, source: Cluster, target: Cluster, alias: str, given: str | None
) -> dict[TopicPartition, OffsetSync]:
    """The last sync of each partition; none if the topic is not found: it only tells more."""
    on_source, on_target = source.topics().keys(), target.topics().keys()
    if given is None:
        # On the source it has the target's name, which nobody has told.
        likely = [name for name in on_source if name.startswith(_SYNCS) and name.endswith(_INTERNAL)]
        own = f"{_SYNCS}{alias}{_INTERNAL}"
        given = own if own in on_target else likely[0] if len(likely) == 1 else None
        if given is None:
            log.info("not all of MirrorMaker's offset syncs may have been found: only Connect's offsets count")
            return {}
    elif given not in on_source | on_target:
        raise Refused(f"neither cluster has the topic {given}")
    cluster = target if given in on_target else source
    found: dict[TopicPartition, OffsetSync] = {}
    for message in _records(pipeline, cluster, given):
        try:
            one = parse_offset_sync(message.key(), message.value())
        except ValueError as error:
            raise Refused(f"{given}-{message.partition()}@{message.offset()} cannot be read: {error}") from None
        found[one.source] = one
    return found


def _records(pipeline: Pipeline, cluster: Cluster, topic: str) -> Iterator[Message]:
    role: ClusterRole = "source" if cluster.role == "source" else "target"
    partitions = cluster.partitions_of([topic])
    starts, ends = cluster.offsets(partitions, "earliest"), cluster.offsets(partitions, "stable")
    ranges = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in partitions]
    properties = {**pipeline.client_properties(role, "consumer"), "isolation.level": "read_committed"}
    for _, chunk in read_ranges(properties, ranges, skip_deleted=True):
        yield from chunk
