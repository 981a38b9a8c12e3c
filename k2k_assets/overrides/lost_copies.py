"""Finds the copies that a truncated target has lost.

```
 source   0 ... 3 | 4 ... 9 |           position 10
 target   0 ... 3 |                     4 to 9 are lost: the partition is stopped, for its next copy got offset 4
```

What is copied next takes their places, so that the mappings of before tell nothing of positions from 4 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.read_back import ends_of_committed
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.lost_copies import first_lost
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, RunTable, SourcePartition
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.overrides.decide import PartitionFacts
from k2k_assets.pipeline import Pipeline


def with_lost_copies(
    pipeline: Pipeline, target: Cluster, cluster: str, facts: Iterable[PartitionFacts]
) -> list[PartitionFacts]:
    """Adds `lost_from` to partitions that were stopped because the target was truncated.

    Only then are the mappings read.

    Args:
        pipeline: The pipeline.
        target: The target cluster.
        cluster: Source cluster id.
        facts: The partitions.

    Raises:
        Refused: The mappings cannot be read.
        ClusterUnreachable: The target does not answer.
    """
    facts = list(facts)
    found = {each.source: cut for each in facts if (cut := _cut_at(each)) is not None}
    if not found or not _are_mapped(pipeline, target):
        return facts
    cuts = _before_attempts(pipeline, target, {each.source: each for each in facts}, found)
    with LiveMappings(pipeline, cluster, target) as mappings:
        mappings.catch_up(())
        return [
            replace(each, lost_from=first_lost(_runs(mappings, cluster, each), cuts[each.source]))
            if each.source in cuts
            else each
            for each in facts
        ]


def _are_mapped(pipeline: Pipeline, target: Cluster) -> bool:
    """Whether there are mappings; who never had any may not be permitted to see their topic."""
    topic = pipeline.offset_mapping.topic
    return topic in target.describe_async([topic], partly=not pipeline.features.offset_mapping)()


def _cut_at(facts: PartitionFacts) -> int | None:
    """Target offset from which on the copies are lost; None if the target was not truncated."""
    record = facts.record
    if record is None or facts.new_source or facts.new_target:
        return None
    cuts = [record.reason.found_offset] if isinstance(record.reason, TargetTruncated) else []
    # Nothing was copied since, so no copy has noticed.
    if facts.target_end is not None and record.target_end is not None and facts.target_end < record.target_end:
        cuts.append(facts.target_end)
    return min(cuts, default=None)


def _before_attempts(
    pipeline: Pipeline,
    target: Cluster,
    facts: Mapping[TopicPartition, PartitionFacts],
    cuts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The cuts, before what was tried behind them and aborted. What was tried outside transactions counts as copies."""
    places = {source: TopicPartition(facts[source].target_topic, source.partition) for source in cuts}
    properties = pipeline.client_properties("target", "consumer")
    ends = ends_of_committed(target, properties, {places[source]: cut for source, cut in cuts.items()})
    return {source: ends[at] for source, at in places.items()}


def _runs(mappings: LiveMappings, cluster: str, facts: PartitionFacts) -> RunTable:
    topic, partition = facts.source
    found = mappings.map_of(SourcePartition(cluster, topic, facts.source_topic_id, partition), 0, with_lost=True)
    return found.runs.get(Target(facts.target_topic, facts.target_topic_id or "", partition), NO_RUNS)
