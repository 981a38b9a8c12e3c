"""Which topic names are never ordinary data: Kafka's own topics and the control topics of pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

KAFKA_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})

# The defaults count even where this pipeline uses other names: a source cluster is often the target of
# another pipeline, and that pipeline's bookkeeping is not data.
_DEFAULT_CONTROL = frozenset({"__k2k_consumer-offsets", "__k2k_assignment", "__k2k_offset_mappings", "__k2k_metrics"})


def own_control_topics(pipeline: Pipeline) -> frozenset[str]:
    """The names that this pipeline uses for its own bookkeeping on the target."""
    return frozenset(
        {
            pipeline.coordination.commit.topic,
            pipeline.coordination.assignment.topic,
            pipeline.offset_mapping.topic,
            pipeline.metrics.kafka.topic,
        }
    )


def never_selected(pipeline: Pipeline) -> frozenset[str]:
    """The names that no pattern selects, whatever it matches."""
    return KAFKA_INTERNAL | _DEFAULT_CONTROL | own_control_topics(pipeline)


def left_out(pipeline: Pipeline, names: Collection[str]) -> set[str]:
    """Those of some source topics that a pattern would select if their names were not of bookkeeping.

    Args:
        pipeline: Whose.
        names: Source topics.
    """
    selection = pipeline.selection.with_internal_topics()
    return {name for name in names if selection.matches(name)} - selected(pipeline, names) - never_selected(pipeline)


def selected(pipeline: Pipeline, names: Iterable[str]) -> set[str]:
    """Those of some source topics that a pipeline selects.

    Args:
        pipeline: Its selection is one pattern or a list of names.
        names: Source topics.
    """
    barred = never_selected(pipeline)
    return {name for name in names if name not in barred and pipeline.selection.matches(name)}
