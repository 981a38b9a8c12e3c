"""Finds positions for which two pipelines that share the mapping topic have different answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.policies import OtherMapping, ensure_one_mapping
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.partition_map import PartitionMap
from k2k_assets.mapping.algebra.translate import translate
from k2k_assets.translation.groups import Answer

OthersOf = Callable[[TopicPartition], Mapping[str, PartitionMap]]


def ensure_one_mapping_each(
    answers: Mapping[str, Sequence[Answer]],
    mapped: Iterable[TopicPartition],
    others_of: OthersOf,
    target: Cluster,
) -> None:
    """Applies `onMultipleTargetCommittedOffsets: fail` to the answers of a poll.

    Args:
        answers: Answers by group.
        mapped: The mapped source partitions.
        others_of: Returns the maps of a source partition by other pipelines' mappings, by their `group.id`.
        target: The target cluster, which tells whether their target topics were created anew since.

    Raises:
        MultipleMappings: A position has another answer too.
    """
    others = {tp: found for tp in mapped if (found := others_of(tp))}
    if not others:
        return

    @cache
    def alive(topic: str) -> str | None:
        found = target.describe([topic]).get(topic)
        return found.topic_id if found else None

    for group, of_group in answers.items():
        for answer in of_group:
            if not answer.translated:
                ensure_one_mapping(group, answer, list(_others(answer, others, alive)), "fail")


def _others(
    answer: Answer,
    others: Mapping[TopicPartition, Mapping[str, PartitionMap]],
    alive: Callable[[str], str | None],
) -> Iterator[OtherMapping]:
    for source, committed in answer.sources:
        for progress, mapping in others.get(source, {}).items():
            for target in mapping.runs:
                if alive(target.topic) != target.topic_id:
                    continue
                offset = int(translate(mapping, target, np.array([committed.offset])).offsets[0])
                if offset >= 0:
                    at = TopicPartition(target.topic, target.partition)
                    yield OtherMapping(progress, source, committed.offset, at, offset)
