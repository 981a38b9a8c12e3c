"""Finds partitions whose source may hold copies of the pipeline back that the marker does not tell from others.

```
 a -> b, one way         x              x      made without a marker
 b -> a, first start     x  x again     x
```

The pipeline back notes the marker in its commit records, which lie on the source cluster. They are read only where a
partition begins, or goes on under another marker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord, is_other_kind
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.stops.reasons.unmarked_copies import UnmarkedCopies
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.permissions.granted import on_topics
from k2k_assets.pipeline.reverse import reverse_of
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState

log = logging.getLogger("k2k.replication")

_NO_TOPIC = "does not exist. If it has another name, write that into 'bidirectional.reverse.commitTopic'"


def unmarked_copies(
    slot: SlotPlan,
    states: Collection[PartitionState],
    commit_log: CommitLog,
    noted: Collection[Mapping[str, Any]],
    source: Cluster,
    keep_waiting: Callable[[], None],
) -> dict[TopicPartition, UnmarkedCopies]:
    """The partitions whose unread records may be such copies, each with its stop.

    If the commit topic of the pipeline back cannot be read, that is logged, and nothing is found. One that does not
    exist is only logged at the first start of all: later there may be no pipeline back.

    Args:
        slot: The slot.
        states: The partitions to copy.
        commit_log: Tells which of them begin, and the marker of the last commit.
        noted: All settings under which the group has copied. They tell where commits of older releases do not.
        source: The source cluster.
        keep_waiting: Called while it reads; may raise.

    Raises:
        ClusterUnreachable: The source does not answer.
    """
    marker = slot.pipeline.marker
    if marker is None:
        return {}
    always = all(Marker.parse(settings.get("marker")) == marker for settings in noted)
    begins = {s.plan.source: s for s in states if _is_new(commit_log.positions.get(s.plan.source), marker, always)}
    ends = source.offsets(begins, "latest") if begins else {}
    unread = [state for tp, state in begins.items() if tp in ends and state.committed < ends[tp]]
    if not unread:
        return {}
    back = {
        (record.target_topic, record.target_topic_id): record.pipeline
        for record in _commits_back(slot, unread, not commit_log.positions, source, keep_waiting)
        if record.cluster == slot.target_cluster and _tells_of_others(record, marker)
    }
    header, value = marker.of_echoes(slot.target_cluster)
    return {
        tp: UnmarkedCopies(tp, state.committed, ends[tp], pipeline, header, value.decode())
        for state in unread
        if (pipeline := back.get(((tp := state.plan.source).topic, state.plan.source_topic_id))) is not None
    }


def _is_new(record: CommitRecord | None, marker: Marker, always: bool) -> bool:
    """Whether a partition begins, or its last commit was under another marker.

    Args:
        record: Its last commit.
        marker: The present marker.
        always: Whether the group has never copied under another one.
    """
    if record is None:
        return True
    return record.marker != marker and not (record.marker is None and always)


def _tells_of_others(record: CommitRecord, marker: Marker) -> bool:
    """Whether a commit of the pipeline back tells of copies without a marker; those of another tool have none."""
    has_copied = record.position != record.began
    return record.target_began is not None or (has_copied and record.has_others_than(marker))


def _commits_back(
    slot: SlotPlan,
    unread: Collection[PartitionState],
    is_first: bool,
    source: Cluster,
    keep_waiting: Callable[[], None],
) -> Iterator[CommitRecord]:
    """The last commit records of all pipelines that the commit topic of the pipeline back has."""
    back = reverse_of(slot.pipeline)
    topic = back.coordination.commit.topic
    granted = on_topics(source, {topic: ["Read"]})()
    if granted.absent and not is_first:
        return
    why = _NO_TOPIC if granted.absent else "may not be read" if granted.lacking else ""
    newest: Mapping[tuple[int, bytes | None], Message] = {}
    if not why:
        try:
            newest = _last_of_each_key(slot, topic, source, keep_waiting)
        except NotReadToTheEnd as behind:
            why = f"was not read to its end ({behind})"
    if why:
        log.warning(
            "whether %s holds copies that the pipeline back made without the marker is not known, and they would come "
            "back as new records: its commit topic '%s' on the %s %s",
            abbreviate(state.plan.source for state in unread), topic, source, why,
        )  # fmt: skip
    for message in newest.values():
        if message.value() is not None and not is_other_kind(message.key()):
            with suppress(ValueError):  # a record that is not readable here stops the pipeline that it belongs to
                yield CommitRecord.parse(message.key(), message.value(), topic)


def _last_of_each_key(
    slot: SlotPlan, topic: str, source: Cluster, keep_waiting: Callable[[], None]
) -> Mapping[tuple[int, bytes | None], Message]:
    """The last record of each key in each partition.

    Raises:
        NotReadToTheEnd: That took longer than `coordination.commit.syncTimeout`.
    """
    partitions = source.partitions_of([topic])
    starts, ends = source.offsets(partitions, "earliest"), source.offsets(partitions, "latest")
    deadline = Deadline(slot.pipeline.coordination.commit.sync_timeout.total_seconds())
    newest: dict[tuple[int, bytes | None], Message] = {}
    with LogReader(slot.pipeline.client_properties("source", "consumer"), starts, committed_only=True) as reader:
        for batch in reader.read_until(ends, deadline):
            keep_waiting()
            newest.update({(message.partition(), message.key()): message for message in batch})
    return newest
