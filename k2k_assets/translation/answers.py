"""Answers for positions in a partition, from the maps of partitions. Pure, in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import Offsets, PartitionMap
from k2k_assets.mapping.algebra.reverse import FirstUnread
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    Translated,
    TranslationState,
    may_repeat,
    translate,
    translate_back,
    unknown_where,
)
from k2k_assets.translation.log_ends import before_end, of_another_log
from k2k_assets.translation.other_way import OtherWay, unproven
from k2k_assets.translation.routes import Routes, Standing


class PositionAnswers(NamedTuple):
    """Answers for positions of one partition, in their order.

    Attributes:
        place: The partition on the other side; None if there is none.
        offsets: The translated positions; `NO_OFFSET` where there is no answer.
        states: Values of `TranslationState`.
        again: Number of records that are read again from each on, where both sides are written; else None.
    """

    place: TopicPartition | None
    offsets: Offsets
    states: NDArray[np.uint8]
    again: NDArray[np.int64] | None = None


def on_target(
    routes: Routes,
    mapping: PartitionMap,
    positions: Offsets,
    log_end: int | None = None,
    other_way: OtherWay | None = None,
    stable: Mapping[TopicPartition, int] | None = None,
) -> list[PositionAnswers]:
    """Translates positions of a source partition to each target partition that it goes to.

    Args:
        routes: The routes of the pipeline.
        mapping: Map of the source partition.
        positions: Next offsets to read.
        log_end: Up to where the source partition is the one that was copied (`SourceLogs.ends`); a position beyond it
            belongs to another log. None: no such check.
        other_way: The mappings of the reverse pipeline, read after `mapping`; None if nobody writes on the target.
        stable: With them, the last stable offset of each target partition at the cut of `mapping`.

    Returns:
        Answers for each target partition; at least one. If several source partitions feed it, the answers are for this
        one alone: a group that reads all of them continues at the smallest of the answers.
    """
    topic = mapping.source.topic
    targets: list[Target] = []
    floor = None
    if routes.keeps_partition(topic) and topic in routes.targets:
        target = routes.target_partition(routes.targets[topic], mapping.source.partition)
        targets = [target] if target else []
        if target and routes.is_alone(topic):
            floor = routes.target.starts.get(_place(target))
    else:
        wanted = (routes.targets.get(topic), routes.target.ids.get(routes.targets.get(topic, "")))
        targets = sorted(target for target in mapping.runs if (target.topic, target.topic_id) == wanted)
    elsewhere = of_another_log(positions, log_end)
    answers = []
    for target in targets:
        if other_way and other_way.concerns(mapping.source):
            end = (stable or {}).get(_place(target))
            place = TopicPartition(topic, mapping.source.partition)
            source_end = None if place in routes.source.offline_partitions else log_end
            unread = _both_ways(routes, mapping, target, positions, other_way, end, source_end)
            found = unknown_where(elsewhere, Translated(unread.offsets, unread.states))
            answers.append(_clamped(_place(target), found, routes.target)._replace(again=unread.again))
            continue
        log_end = routes.target.ends.get(_place(target), BEYOND_ALL_LOGS)
        found = translate(mapping, target, positions, floor, alone=routes.keeps_partition(topic), log_end=log_end)
        answers.append(_clamped(_place(target), unknown_where(elsewhere, found), routes.target))
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
            below = routes.repeats_below(place)
            # Where it is not alone, the gaps hold records of others.
            if below is not None and routes.is_alone(place.topic):
                repeats = (back.states == TranslationState.EXACT) & may_repeat(mapping, target, positions, below)
                back = replace(back, states=np.where(repeats, np.uint8(TranslationState.MAY_REPEAT), back.states))
            answers.append(_clamped(place, back, routes.source))
    return answers or [nowhere(len(positions))]


def _both_ways(
    routes: Routes,
    mapping: PartitionMap,
    target: Target,
    positions: Offsets,
    other_way: OtherWay,
    stable: int | None,
    source_end: int | None,
) -> FirstUnread:
    start, alone = routes.target.starts.get(_place(target)), routes.is_alone(mapping.source.topic)
    repeats = routes.is_at_least_once(TopicPartition(mapping.source.topic, mapping.source.partition))
    if start is None or stable is None or not alone or (repeats and source_end is None):
        return unproven(len(positions))
    end = source_end if repeats else None
    return other_way.first_unread(mapping, target, positions, (start, stable), end)


def both_ways_back(
    routes: Routes,
    maps: Sequence[PartitionMap],
    target: Target,
    positions: Offsets,
    other_way: OtherWay,
    stable: Mapping[TopicPartition, int],
    target_end: int | None,
) -> list[PositionAnswers]:
    """Translates positions of a target partition back, where records are written on the target as well.

    Args:
        routes: The routes of the pipeline.
        maps: Maps of all source partitions that may feed it.
        target: The target partition.
        positions: Next offsets to read.
        other_way: The mappings of the reverse pipeline, read after `maps`.
        stable: Last stable offset of each source partition at their cut.
        target_end: End of the target partition.

    Returns:
        Answers for each source partition; at least one.
    """
    answers = []
    for mapping in maps:
        place = TopicPartition(mapping.source.topic, mapping.source.partition)
        went = routes.targets.get(place.topic) == target.topic and place.partition == target.partition
        if target not in mapping.runs and not went:
            continue
        start, end = routes.source.starts.get(place), stable.get(place)
        unread = unproven(len(positions))
        if start is not None and end is not None and routes.is_alone(place.topic):
            sides = mapping, target, positions, (start, end), target_end
            unread = other_way.first_unread_back(*sides, repeats=routes.repeats_below(place) is not None)
        found = _clamped(place, Translated(unread.offsets, unread.states), routes.source)
        answers.append(found._replace(again=unread.again))
    return answers or [nowhere(len(positions))]


def before_cut_off(answer: PositionAnswers, source_logs: Mapping[TopicPartition, int]) -> PositionAnswers:
    """Positions on the source, at most where its log was cut off: nobody has read what lies behind that today.

    Args:
        answer: The positions in one source partition.
        source_logs: As of `SourceLogs.ends`.
    """
    found = before_end(
        Translated(answer.offsets, answer.states), source_logs.get(answer.place) if answer.place else None
    )
    return answer._replace(offsets=found.offsets, states=found.states)


def nowhere(count: int, state: TranslationState = TranslationState.NOT_REPLICATED) -> PositionAnswers:
    """The answers for positions of a partition that is not replicated, or of which nothing is known."""
    states = np.full(count, state, dtype=np.uint8)
    return PositionAnswers(None, np.full(count, NO_OFFSET, dtype=np.int64), states)


def _clamped(place: TopicPartition, translated: Translated, standing: Standing) -> PositionAnswers:
    if place in standing.offline_partitions:
        # Nobody knows whether the record is still there.
        translated = unknown_where(np.ones(translated.offsets.shape, dtype=np.bool_), translated)
    offsets, states = translated.offsets, translated.states
    start = standing.starts.get(place, 0)
    expired = (offsets < start) & (offsets != NO_OFFSET)
    states = np.where(expired, np.uint8(TranslationState.EXPIRED), states)
    return PositionAnswers(place, np.where(expired, start, offsets), states)


def _place(target: Target) -> TopicPartition:
    return TopicPartition(target.topic, target.partition)
