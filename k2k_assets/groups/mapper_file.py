"""Loads the offset mapper's pipeline file: the replicator's own file, or K2K's shorter one that only a mapper can use.

The shorter file has no `replication` and no consumer `group.id`. Then the mappings of all pipelines in the mapping
topic count, and the routing follows from the mappings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.pipeline.reverse import INFERRED
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic

_DEFAULTS = f"""
source: {{kafka: {{common: {{"group.id": "{ANY_GROUP}"}}}}}}
replication:
  - source: {{topic: ".*", internalTopics: enabled}}
  - sink: {{name: "{INFERRED}", topic: source, partition: source}}
"""


class MappedTopics(SinkTopic):
    """The names of target topics by the mappings. Names are no patterns: a topic is not taken for another one."""

    targets: Mapping[str, str] = Field(description="Target topic by source topic.")

    def target(self, source_topic: str) -> str | None:
        return self.targets.get(source_topic)


def load_mapper_pipeline(files: Sequence[Path], *, variables: bool = True) -> Pipeline:
    """Loads a file for the offset mapper, several files merged into one.

    Args:
        files: Later ones over earlier ones.
        variables: Whether `${...}` stands for a variable.

    Raises:
        PipelineFileError: It cannot be used.
    """
    return load_pipeline(files, defaults=_DEFAULTS, variables=variables)


def is_for_mapper_alone(pipeline: Pipeline) -> bool:
    """Whether the file is the shorter one, which copies nothing."""
    return pipeline.routing.name == INFERRED


def are_published(pipeline: Pipeline) -> bool:
    """Whether the replicator publishes mappings by this file; a file for a mapper alone implies that it does."""
    return pipeline.features.offset_mapping or is_for_mapper_alone(pipeline)


def with_mappings(pipeline: Pipeline) -> Pipeline:
    """The pipeline with `features.offsetMapping` switched on."""
    return pipeline.model_copy(update={"features": pipeline.features.model_copy(update={"offset_mapping": True})})


def routing_of(
    pipeline: Pipeline, maps: Iterable[PartitionMap], copied: Mapping[SourcePartition, CommitRecord] | None = None
) -> Routing:
    """The routing from the file; where the file has none, from the mappings.

    Args:
        pipeline: The pipeline.
        maps: Maps of all mapped source partitions.
        copied: The newest commit records. If a topic was copied to one topic and then to another, they tell the latter.
    """
    if not is_for_mapper_alone(pipeline):
        return pipeline.routing
    newest: dict[str, tuple[int, int, str]] = {}
    same_partition = True
    for mapping in maps:
        record = (copied or {}).get(mapping.source)
        for target, runs in mapping.runs.items():
            end = runs.source_end if len(runs) else 0
            found = (record.time, 0, record.target_topic) if record else (-1, end, target.topic)
            newest[mapping.source.topic] = max(found, newest.get(mapping.source.topic, found))
            same_partition = same_partition and target.partition == mapping.source.partition
    targets = {name: to for name, (_, _, to) in newest.items()}
    return Routing(topic=MappedTopics(targets=targets), partition="source" if same_partition else "producer")
