"""The names of topics that are never copied: Kafka's internal topics and the control topics of pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from k2k_assets.pipeline.sections.values import KAFKA_INTERNAL

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.pipeline.sections.selection import TopicSelection

# The default names count even if this pipeline uses other names: a source cluster is often the target of another
# pipeline, whose control topics are no data.
_DEFAULT_CONTROL = frozenset({"__k2k_consumer-offsets", "__k2k_assignment", "__k2k_offset_mappings", "__k2k_metrics"})


def own_control_topics(pipeline: Pipeline) -> frozenset[str]:
    """The names of this pipeline's control topics on the target."""
    return frozenset(
        {
            pipeline.coordination.commit.topic,
            pipeline.coordination.assignment.topic,
            pipeline.offset_mapping.topic,
            pipeline.metrics.kafka.topic,
        }
    )


def never_selected(pipeline: Pipeline) -> frozenset[str]:
    """The names that are not selected even if the pattern matches them.

    Topics for dead letters are among them: what failed would come round again where both clusters are one, or where
    another pipeline copies back.
    """
    return KAFKA_INTERNAL | _DEFAULT_CONTROL | own_control_topics(pipeline) | set(pipeline.dead_letter_topics)


def left_out(pipeline: Pipeline, names: Collection[str]) -> set[str]:
    """Those of some source topics that a pattern would select if they were not internal.

    Args:
        pipeline: Whose.
        names: Source topics.
    """
    selection = pipeline.selection.with_internal_topics()
    return {name for name in names if selection.matches(name)} - selected(pipeline, names) - never_selected(pipeline)


def selected(pipeline: Pipeline, names: Iterable[str], selection: TopicSelection | None = None) -> set[str]:
    """Filters the source topics that a pipeline selects.

    Args:
        pipeline: Its selection is one pattern or a list of names, or that of several pairs of stages.
        names: Source topics.
        selection: That of one pair; None: all.
    """
    barred = never_selected(pipeline)
    selection = selection or pipeline.selection
    return {name for name in names if name not in barred and selection.matches(name)}
