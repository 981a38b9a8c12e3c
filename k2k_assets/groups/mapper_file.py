"""The offset mapper's pipeline file: the replicator's own, or K2K's shorter one that only a mapper can use.

The shorter one has no `replication` and no consumer `group.id`. All pipelines' mappings in the mapping topic count
then, and where topics go is what the mappings say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from k2k_assets.mapping.held_mappings import ANY_GROUP
from k2k_assets.mapping.partition_map import PartitionMap
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.pipeline.routing import Routing, SinkTopic

_INFERRED = "as the mappings say"
_DEFAULTS = f"""
source: {{kafka: {{common: {{"group.id": "{ANY_GROUP}"}}}}}}
replication:
  - source: {{topic: ".*"}}
  - sink: {{name: "{_INFERRED}", topic: source, partition: source}}
"""


def load_mapper_pipeline(files: Sequence[Path], *, variables: bool = True) -> Pipeline:
    """Loads a file for the offset mapper, several files merged into one.

    Args:
        files: Later ones over earlier ones.
        variables: Whether `${...}` stands for a variable.

    Raises:
        PipelineFileError: It cannot be used.
    """
    return load_pipeline(files, defaults=_DEFAULTS, variables=variables)


def are_published(pipeline: Pipeline) -> bool:
    """Whether the replicator publishes mappings, as far as this file tells; one for a mapper alone means that."""
    return pipeline.features.offset_mapping or pipeline.routing.name == _INFERRED


def with_mappings(pipeline: Pipeline) -> Pipeline:
    """The pipeline with `features.offsetMapping` switched on."""
    return pipeline.model_copy(update={"features": pipeline.features.model_copy(update={"offset_mapping": True})})


def routing_of(pipeline: Pipeline, maps: Iterable[PartitionMap]) -> Routing:
    """Where records go: as the file says, or where it does not, as the mappings say.

    Args:
        pipeline: Its file.
        maps: All that is mapped.
    """
    if pipeline.routing.name != _INFERRED:
        return pipeline.routing
    topics: dict[str, str] = {}
    same_partition = True
    for mapping in maps:
        for target in mapping.runs:
            topics.setdefault(mapping.source.topic, target.topic)
            same_partition = same_partition and target.partition == mapping.source.partition
    names = SinkTopic(static_mapping=tuple(sorted(topics.items())))
    return Routing(topic=names, partition="source" if same_partition else "producer")
