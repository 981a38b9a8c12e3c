"""What the mapping records say that an index has not read yet: from where on it does not hold any more.

```
 indexed      0 ........... 100
 not yet                    100 ... 140             as usual: the copy has gone on
 not yet         40 ... 140                         it was set back (`k2k-tool set`): what was mapped from 40 on is void
```
"""

from __future__ import annotations

from contextlib import closing

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_follower import TopicFollower
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import IndexUnusable, Manifest
from k2k_assets.mapping.live.mapping_messages import MappingMessages
from k2k_assets.pipeline import Pipeline


def mapped_from(pipeline: Pipeline, manifest: Manifest, target: Cluster, patience: float) -> dict[SourcePartition, int]:
    """The lowest source offset that mapping records cover which an index has not read, by source partition.

    Args:
        pipeline: The pipeline.
        manifest: Manifest of the index.
        target: The target cluster.
        patience: Give up after so many seconds without a record.

    Raises:
        IndexUnusable: Some of these records are deleted.
        ClusterUnreachable: The target does not answer, or a transaction hangs.
        Refused: A record cannot be read, or the topic was cut off.
    """
    name = pipeline.offset_mapping.topic
    topic = target.describe([name]).get(name)
    if topic is None:
        return {}
    starts = manifest.offsets if topic.topic_id == manifest.mapping_topic_id else {}
    messages = MappingMessages(pipeline, manifest.source_cluster, others=False)
    found: dict[SourcePartition, int] = {}
    reader = pipeline.client_properties("target", "consumer")
    with closing(TopicFollower(topic, target, reader, committed_only=True, starts=starts)) as follower:
        for batch in follower.catch_up(patience):
            for (_, source), placed in messages.read(batch).items():
                start = min(each.record.covered_from for each in placed)
                found[source] = min(start, found.get(source, start))
        lost = follower.take_lost()
    if lost:
        raise IndexUnusable(
            f"{name} has deleted records that the index has not read ({name}-{lost[0][0]} from {lost[0][1]} to "
            f"{lost[0][2] - 1}): what they change is not known. Materialize offset_mappings, which notes what is lost"
        )
    return found
