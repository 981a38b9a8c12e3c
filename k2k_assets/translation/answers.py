"""Answers for positions in a partition, from the maps of partitions. Pure, in bulk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import Offsets, PartitionMap
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    Translated,
    TranslationState,
    may_repeat,
    translate,
    translate_back,
    unknown_where,
)
from k2k_assets.translation.routes import Routes, Standing


class PositionAnswers(NamedTuple):
    """Answers for positions of one partition, in their order.

    Attributes:
        place: The partition on the other side; None if there is none.
        offsets: The translated positions; `NO_OFFSET` where there is no answer.
        states: Values of `TranslationState`.
    """

    place: TopicPartition | None
    offsets: Offsets
    states: NDArray[np.uint8]


def on_target(
    routes: Routes, mapping: PartitionMap, positions: Offsets, log_end: int | None = None
) -> list[PositionAnswers]:
    """Translates positions of a source partition to each target partition that it goes to.

    Args:
        routes: The routes of the pipeline.
        mapping: Map of the source partition.
        positions: Next offsets to read.
        log_end: High watermark of the source partition; a position beyond it belongs to a former log (truncated, or
            created anew). None if not known.

    Returns:
        Answers for each target partition; at least one. If several source partitions feed it, the answers are for this
        one alone: a group that reads all of them continues at the smallest of the answers.
    """
    topic = mapping.source.topic
    targets: list[Target] = []
    floor = None
    if routes.same_partition and topic in routes.targets:
        target = routes.target_partition(routes.targets[topic], mapping.source.partition)
        targets = [target] if target else []
        if target and routes.is_alone(topic):
            floor = routes.target.starts.get(_place(target))
    else:
        wanted = (routes.targets.get(topic), routes.target.ids.get(routes.targets.get(topic, "")))
        targets = sorted(target for target in mapping.runs if (target.topic, target.topic_id) == wanted)
    of_another_log = np.zeros(positions.shape, dtype=np.bool_) if log_end is None else positions > log_end
    answers = []
    for target in targets:
        found = translate(mapping, target, positions, floor, alone=routes.same_partition)
        answers.append(_clamped(_place(target), unknown_where(of_another_log, found), routes.target))
    return answers or [nowhere(len(positions))]


def on_source(
    routes: Routes, maps: Iterable[PartitionMap], target: Target, positions: Offsets, mapped_to: int | None = None
) -> list[PositionAnswers]:
    """Translates positions of a target partition to each source partition that feeds it.

    Args:
        routes: The routes of the pipeline.
        maps: Maps of all source partitions that may feed it.
        target: The target partition.
        positions: Next offsets to read.
        mapped_to: Target offset below which every copied record is mapped; None if not known.

    Returns:
        Answers for each source partition; at least one. If a source partition is spread over several target partitions,
        the answers are for this one alone.
    """
    answers = []
    for mapping in maps:
        if target in mapping.runs:
            place = TopicPartition(mapping.source.topic, mapping.source.partition)
            back = translate_back(mapping, target, positions, mapped_to)
            if routes.may_repeat(place.topic):
                repeats = (back.states == TranslationState.EXACT) & may_repeat(mapping, target, positions)
                back = replace(back, states=np.where(repeats, np.uint8(TranslationState.MAY_REPEAT), back.states))
            answers.append(_clamped(place, back, routes.source))
    return answers or [nowhere(len(positions))]


def nowhere(count: int) -> PositionAnswers:
    """The answers for positions of a partition that is not replicated."""
    states = np.full(count, TranslationState.NOT_REPLICATED, dtype=np.uint8)
    return PositionAnswers(None, np.full(count, NO_OFFSET, dtype=np.int64), states)


def _clamped(place: TopicPartition, translated: Translated, standing: Standing) -> PositionAnswers:
    offsets, states = translated.offsets, translated.states
    start = standing.starts.get(place, 0)
    expired = (offsets < start) & (offsets != NO_OFFSET)
    states = np.where(expired, np.uint8(TranslationState.EXPIRED), states)
    return PositionAnswers(place, np.where(expired, start, offsets), states)


def _place(target: Target) -> TopicPartition:
    return TopicPartition(target.topic, target.partition)
