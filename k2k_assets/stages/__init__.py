"""Stages: the changes to a chunk between source and target.

A stage takes a chunk and returns it, changed. A stage that the pipeline does not need is not in the list, so it costs
nothing. A stage costs something per chunk, not per record, unless it looks into the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from k2k_assets.pipeline import Pipeline
from k2k_assets.stages.headers import drop_headers, header_adder
from k2k_assets.stages.marker import marker_stage
from k2k_assets.stages.routing import router
from k2k_assets.stages.schema_mapping import SchemaMapper
from k2k_assets.stages.timestamps import drop_timestamps
from k2k_assets.transport.chunk import Chunk

if TYPE_CHECKING:
    from k2k_assets.stages.transform.isolated import IsolatedFunctions

Stage = Callable[[Chunk], Chunk]


@runtime_checkable
class LongStage(Protocol):
    """A stage that may work on a chunk for long."""

    def call_while_working(self, call: Callable[[], None]) -> None:
        """Has something called now and then meanwhile; what it raises leaves the stage."""
        ...


def isolated_functions_of(pipeline: Pipeline) -> IsolatedFunctions | None:
    """The functions of users that a pipeline names, for a process of their own; None if it names none.

    Raises:
        Refused: The module of a function cannot be found.
    """
    if not any(rule.python for rule in pipeline.transform):
        return None
    from k2k_assets.stages.transform.isolated import IsolatedFunctions

    return IsolatedFunctions.of_pipeline(pipeline)


def stages_of(
    pipeline: Pipeline, source_cluster: str, target_cluster: str, functions: IsolatedFunctions | None = None
) -> tuple[Stage, ...]:
    """The stages that a pipeline needs, in order.

    Args:
        pipeline: The pipeline.
        source_cluster: Source cluster id.
        target_cluster: Target cluster id.
        functions: Functions of users; None: they are called in this process.
    """
    stages: list[Stage] = []
    if pipeline.marker:
        stages.append(marker_stage(pipeline.marker, source_cluster, target_cluster))
    if pipeline.transform:
        # Functions of users, and Arrow for them, are imported only where they are asked for.
        from k2k_assets.stages.transform.rules import Transforms
        from k2k_assets.stages.transform.stage import TransformStage

        call_of = functions.call_of if functions else None
        stages.append(TransformStage(Transforms(pipeline.transform_text, pipeline.folders, call_of), pipeline.name))
    if not pipeline.features.header_replication:
        stages.append(drop_headers)
    if pipeline.added_headers:
        stages.append(header_adder(pipeline.added_headers))
    if not pipeline.features.keep_record_creation_timestamp:
        stages.append(drop_timestamps)
    if pipeline.schema_rules:
        # What Confluent's client imports takes a third of a second: only who maps ids pays for it.
        from k2k_assets.registry.of_pipeline import facets_with_schemas, open_schema_ids

        facets, refusals = facets_with_schemas(pipeline), pipeline.schema_mapping.refusals
        stages.append(SchemaMapper(open_schema_ids(pipeline), facets, pipeline.routing.target_topic, refusals))
    stages.append(router(pipeline.routing))
    return tuple(stages)
