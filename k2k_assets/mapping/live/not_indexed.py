"""What the mapping records say that an index has not read yet: from where on it does not hold any more.

```
 indexed      0 ........... 100
 not yet                    100 ... 140             as usual: the copy has gone on
 not yet         40 ... 140                         it was set back (`k2k-tool set`): what was mapped from 40 on is void
 not yet                    ?       150 ... 180     records may be lost, of copies from anywhere on: all is void
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from itertools import chain
from typing import NamedTuple

from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_follower import TopicFollower
from k2k_assets.mapping.algebra.fold import Beginning, Order, goes_on
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.index.portion_columns import concerned
from k2k_assets.mapping.live.mapping_messages import MappingMessages, RecordsRead
from k2k_assets.pipeline import Pipeline


class MappedFrom(NamedTuple):
    """From where on newer mapping records answer for a source partition in place of an index.

    Attributes:
        start: The lowest source offset that they cover; what the index says from there on is void.
        after_loss: Whether records may have been lost before them, such as a way back and copies from there on. Then
            all that the index says is void, and positions below `start` are unknown.
        is_doubtful: Whether records may have been lost behind all that were read. Then the newest commit record may
            contradict what the index says (`lost_copies.unless_copied_anew`).
    """

    start: int
    after_loss: bool = False
    is_doubtful: bool = False


# There are no newer records.
AS_INDEXED = MappedFrom(BEYOND_ALL_LOGS)


def mapped_from(
    pipeline: Pipeline, index: IndexReader, target: Cluster, patience: float
) -> dict[SourcePartition, MappedFrom]:
    """From where on mapping records that an index has not read answer in its place, by source partition.

    Source partitions of which there are none, and no doubts, are left out.

    Args:
        pipeline: The pipeline.
        index: The index.
        target: The target cluster.
        patience: Give up after so many seconds without a record.

    Raises:
        IndexUnusable: Some of the records that it has not read are deleted.
        ClusterUnreachable: The target does not answer, or a transaction hangs.
        Refused: A record cannot be read, or the topic was cut off.
    """
    name = pipeline.offset_mapping.topic
    topic = target.describe([name]).get(name)
    if topic is None:
        return first_mapped(index, index.sources(), ())
    manifest = index.manifest
    starts = manifest.offsets if topic.topic_id == manifest.mapping_topic_id else {}
    messages = MappingMessages(pipeline, manifest.source_cluster, others=False)
    reader = pipeline.client_properties("target", "consumer")
    with closing(TopicFollower(topic, target, reader, committed_only=True, starts=starts)) as follower:
        readings = chain.from_iterable(map(messages.read, follower.catch_up(patience)))
        found = first_mapped(index, index.doubtful(topic.topic_id), readings)
        lost = follower.take_lost()
    if lost:
        raise IndexUnusable(
            f"{name} has deleted records that the index has not read ({name}-{lost[0][0]} from {lost[0][1]} to "
            f"{lost[0][2] - 1}): what they change is not known. Materialize offset_mappings, which notes what is lost"
        )
    return found


def first_mapped(
    index: IndexReader, doubtful: Collection[SourcePartition], readings: Iterable[RecordsRead]
) -> dict[SourcePartition, MappedFrom]:
    """Does the work of `mapped_from` with the records that it reads. Pure.

    Args:
        index: The index.
        doubtful: Source partitions of which records may have been lost behind the index (`IndexReader.doubtful`).
        readings: The records, in the order of the mapping topic.
    """
    found: dict[SourcePartition, MappedFrom] = {}
    left = set(doubtful)
    reached: dict[SourcePartition, tuple[Order, int]] = {}
    for records, passed_over in readings:
        for (_, source), placed in records.items():
            newest, position = reached.get(source) or index.reached(source)
            start, after_loss, _ = found.get(source, AS_INDEXED)
            for record in sorted((each.record for each in placed), key=Order.of):
                after_loss |= not goes_on(newest, position, Beginning.of(record), source in left)
                order = Order.of(record)
                if order >= newest:  # else it is late, and an update of the index will begin anew
                    newest, position = order, record.covered_to
                start = min(start, record.covered_from)
                left.discard(source)
            found[source] = MappedFrom(start, after_loss)
            reached[source] = newest, position
        left |= concerned(index.portions, passed_over)
    return found | {source: found.get(source, AS_INDEXED)._replace(is_doubtful=True) for source in left}
