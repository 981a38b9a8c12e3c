"""The reverse pipeline of a bidirectional one, as far as its offset mappings are read. Pure.

Its file is not needed: it copies between the same clusters, and its control topics lie on the source cluster.
"""

from __future__ import annotations

from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.pipeline.loops import keeps_names
from k2k_assets.pipeline.model import Pipeline
from k2k_assets.pipeline.sections.bidirectional import Mode
from k2k_assets.pipeline.sections.coordination import Commit, Coordination, OffsetMapping
from k2k_assets.pipeline.sections.kafka import SourceKafka, SourceSection, TargetKafka, TargetSection
from k2k_assets.pipeline.sections.stages import Stage

INFERRED = "as the mappings say"
"""Name of the sink of a pipeline whose routing follows from its mappings."""

_OF_PROGRESS = frozenset({"group.id", "auto.offset.reset"})


def is_told_by_mappings(pipeline: Pipeline) -> bool:
    """Whether the mappings say if a pipeline is bidirectional.

    So it is with a file for a mapper alone that does not say itself that it is, or that nobody else writes to the
    target.
    """
    says = pipeline.features.bidirectional_replication or pipeline.error_handling.on_foreign_writer == "fail"
    return pipeline.routing.name == INFERRED and not says


def as_bidirectional(pipeline: Pipeline, mode: Mode) -> Pipeline:
    """A pipeline whose file does not say that it is bidirectional.

    Args:
        pipeline: The pipeline.
        mode: The mode.
    """
    features = pipeline.features.model_copy(update={"bidirectional_replication": True})
    bidirectional = pipeline.bidirectional.model_copy(update={"mode": mode})
    return pipeline.model_copy(update={"features": features, "bidirectional": bidirectional})


def reverse_of(pipeline: Pipeline, same_names: bool | None = None) -> Pipeline:
    """A pipeline that reads the mappings of whatever copies from the target of a pipeline to its source.

    It copies nothing, and knows no index. Its delivery mode is not known: its mapping records tell it.

    Args:
        pipeline: The pipeline.
        same_names: Whether topics have the same name on both sides. None: as the file says.
    """
    here, there = pipeline.source.kafka, pipeline.target.kafka
    topics = pipeline.bidirectional.reverse
    consumer = {key: value for key, value in here.consumer.items() if key not in _OF_PROGRESS}
    source = SourceKafka.model_construct(
        common=there.common, consumer={**there.consumer, "group.id": ANY_GROUP}, admin=there.admin
    )
    target = TargetKafka.model_construct(common=here.common, consumer=consumer, producer={}, admin=here.admin)
    commit = topics.commit_topic or pipeline.coordination.commit.topic
    mappings = topics.mapping_topic or pipeline.offset_mapping.topic
    everything = Stage.model_validate({"source": {"topic": ".*", "internalTopics": "enabled"}})
    # Where this pipeline keeps names, so does the other one; else its mappings tell.
    same_names = keeps_names(pipeline) if same_names is None else same_names
    sink = {"name": "back" if same_names else INFERRED, "topic": "source", "partition": "source"}
    return Pipeline.model_construct(
        # Both may have the same name; the index of that name is the pipeline's own.
        name=f"{pipeline.name}, reverse",
        source=SourceSection.model_construct(kafka=source, registry=None),
        target=TargetSection.model_construct(kafka=target, registry=None),
        replication=(everything, Stage.model_validate({"sink": sink})),
        features=pipeline.features,
        coordination=Coordination.model_construct(
            commit=Commit.model_construct(topic=commit), assignment=pipeline.coordination.assignment
        ),
        # All of them are kept in memory, for nothing else has them.
        offset_mapping=OffsetMapping.model_construct(topic=mappings),
        error_handling=pipeline.error_handling,
        groups=pipeline.groups,
    )
