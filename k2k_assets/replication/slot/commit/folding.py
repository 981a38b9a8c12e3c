"""Folds the deliveries of a transaction into runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.core.runs import Run, merge, runs_of, runs_of_stretch
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import Delivery

RunsByTarget = dict[int, list[Run]]


def fold(deliveries: Iterable[Delivery]) -> dict[TopicPartition, RunsByTarget]:
    """Folds deliveries into the merged runs of each source partition, by target partition."""
    folded: dict[TopicPartition, RunsByTarget] = {}
    for delivery in deliveries:
        into = folded.setdefault(delivery.sent.source, {})
        for partition, runs in _runs(delivery).items():
            into.setdefault(partition, []).extend(runs)
    return {source: {p: merge(runs) for p, runs in into.items()} for source, into in folded.items()}


def _runs(delivery: Delivery) -> RunsByTarget:
    sent = delivery.sent
    if delivery.each is None:
        if sent.contiguous:
            return {delivery.partition: [Run(sent.first_offset, delivery.first, sent.count)]}
        return {delivery.partition: runs_of_stretch(sent.offsets, delivery.first)}
    by_target: dict[int, tuple[list[int], list[int]]] = {}
    for source_offset, (partition, target_offset) in zip(sent.offsets, delivery.each, strict=True):
        pairs = by_target.setdefault(partition, ([], []))
        pairs[0].append(source_offset)
        pairs[1].append(target_offset)
    return {partition: runs_of(*pairs) for partition, pairs in by_target.items()}
