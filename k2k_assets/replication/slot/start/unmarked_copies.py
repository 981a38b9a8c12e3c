"""Finds partitions whose source may hold copies of the pipeline back that the marker does not tell from others.

```
 a -> b, one way         x              x      made without a marker
 b -> a, first start     x  x again     x
```

The pipeline back notes the marker in its commit records, which lie on the source cluster. They are read only where a
partition begins at its beginning, or goes on under another marker. Only copies are looked for that would come back to
the topic from which they came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.copy_settings import all_marked
from k2k_assets.core.stops.reasons.unmarked_copies import UnmarkedCopies
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT, abbreviate
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.granted import on_topics
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.start.pipeline_back import PipelineBack, Settings

log = logging.getLogger("k2k.replication")

_NO_TOPIC = "does not exist. If it has another name, write that into 'bidirectional.reverse.commitTopic'"


def unmarked_copies(
    slot: SlotPlan,
    states: Collection[PartitionState],
    commit_log: CommitLog,
    marked_always: bool,
    source: Cluster,
    keep_waiting: Callable[[], None],
) -> dict[TopicPartition, UnmarkedCopies]:
    """The partitions whose unread records may be such copies, each with its stop.

    If the commit topic of the pipeline back may not be read, that is logged, and nothing is found. One that does not
    exist is only logged at the first start of all: later there may be no pipeline back.

    Args:
        slot: The slot.
        states: The partitions to copy.
        commit_log: Tells which of them begin, and the marker of the last commit.
        marked_always: Whether the group has copied under no other marker than the present one.
        source: The source cluster.
        keep_waiting: Called while it reads; may raise.

    Raises:
        ClusterUnreachable: The source does not answer, or a transaction hides the newest commits of the pipeline back.
    """
    marker = slot.pipeline.marker
    if marker is None:
        return {}
    records = commit_log.positions
    begins = {s.plan.source: s for s in states if _is_new(s, records.get(s.plan.source), marker, marked_always)}
    ends = source.offsets(begins, "latest") if begins else {}
    unread = [state for tp, state in begins.items() if tp in ends and state.committed < ends[tp]]
    back = PipelineBack(slot, source, keep_waiting)
    if not unread or not _is_readable(back.commit_topic, source, unread, is_first=not records):
        return {}
    copies = _Copies(slot, marker, back)
    header, value = marker.of_echoes(slot.target_cluster)
    return {
        (tp := state.plan.source): UnmarkedCopies(
            tp, state.committed, ends[tp], record.pipeline, header, value.decode()
        )
        for state in unread
        if (record := copies.within(state.plan)) is not None
    }


def _is_new(state: PartitionState, record: CommitRecord | None, marker: Marker, marked_always: bool) -> bool:
    """Whether a partition begins, and nobody has said where, or its last commit was under another marker.

    Args:
        state: The partition.
        record: Its last commit.
        marker: The present marker.
        marked_always: Whether the group has never copied under another one.
    """
    if record is None:
        return state.plan.begins_at is None and state.committed == state.log_start
    return not record.is_under(marker, marked_always)


def _is_readable(topic: str, source: Cluster, unread: Collection[PartitionState], is_first: bool) -> bool:
    """Whether the commit topic of the pipeline back exists and may be read; if not, that is logged."""
    granted = on_topics(source, {topic: ["Read"]})()
    if not (granted.absent or granted.lacking):
        return True
    if is_first or not granted.absent:
        log.warning(
            "whether %s holds copies that the pipeline back made without the marker is not known, and they would come "
            "back as new records: its commit topic '%s' on the %s %s",
            abbreviate(state.plan.source for state in unread), topic, source,
            _NO_TOPIC if granted.absent else f"may not be read; {ACLS_HINT}",
        )  # fmt: skip
    return False


class _Copies:
    """What the pipeline back has copied that may not have the marker.

    Args:
        slot: The slot.
        marker: Its marker.
        back: The pipeline back.

    Raises:
        ClusterUnreachable: Its commits or settings could not be read.
    """

    def __init__(self, slot: SlotPlan, marker: Marker, back: PipelineBack) -> None:
        self._marker = marker
        self._routing = slot.pipeline.routing
        from_target = [record for record in back.commits() if record.cluster == slot.target_cluster]
        unnoted = any(record.marker is None and self._tells_of_others(record, {}) for record in from_target)
        settings = back.settings() if unnoted else {}
        self._records = [record for record in from_target if self._tells_of_others(record, settings)]

    def within(self, plan: PartitionPlan) -> CommitRecord | None:
        """A commit of such copies that may be in a source partition, and would come back; None if there is none.

        Where this pipeline keeps the numbers of partitions, the pipeline back is taken to keep them too.
        """
        keeps_partition = self._routing.keeps_partition(plan.source.topic)
        return next(
            (
                record
                for record in self._records
                if (record.target_topic, record.target_topic_id) == (plan.source.topic, plan.source_topic_id)
                and record.source.topic == plan.target_topic
                and (not keeps_partition or record.source.partition == plan.source.partition)
            ),
            None,
        )

    def _tells_of_others(self, record: CommitRecord, settings: Settings) -> bool:
        """Whether a commit tells of copies without the marker; those of another tool have none."""
        always = all_marked(settings.get(record.group, ()), self._marker)
        return record.target_began is not None or record.has_others_than(self._marker, always)
