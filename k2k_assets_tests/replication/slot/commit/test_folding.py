"""Folding deliveries into runs, compared with brute force over every record's two offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run, ordered_and_disjoint
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.commit.folding import fold
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.interface import Delivery
from k2k_assets_tests.support.memory.fake_records import ListRecords

Truth = dict[tuple[TopicPartition, int], tuple[int, int]]


@st.composite
def transactions(draw: st.DrawFn) -> tuple[list[Delivery], Truth]:
    """Chunks of several source partitions into several target partitions, with gaps on both sides."""
    next_source: dict[TopicPartition, int] = {}
    next_target: dict[int, int] = {}
    deliveries: list[Delivery] = []
    truth: Truth = {}
    for _ in range(draw(st.integers(0, 8))):
        source = TopicPartition("t", draw(st.integers(0, 1)))
        offsets = []
        for _ in range(draw(st.integers(1, 8))):
            offset = next_source.get(source, 100) + draw(st.sampled_from([0, 0, 0, 2]))
            offsets.append(offset)
            next_source[source] = offset + 1
        sent = Sent(Chunk(source, ListRecords(offsets), "t", None))
        if draw(st.booleans()):  # one stretch
            partition = draw(st.integers(0, 2))
            first = next_target.get(partition, 500) + draw(st.sampled_from([0, 1]))
            next_target[partition] = first + len(offsets)
            deliveries.append(Delivery(sent, partition, first, first + len(offsets) - 1))
            each = [(partition, first + i) for i in range(len(offsets))]
        else:
            each = []
            for _ in offsets:
                partition = draw(st.integers(0, 2))
                target = next_target.get(partition, 500) + draw(st.sampled_from([0, 0, 1]))
                next_target[partition] = target + 1
                each.append((partition, target))
            deliveries.append(Delivery(sent, each=each))
        truth |= {(source, offset): place for offset, place in zip(offsets, each, strict=True)}
    return deliveries, truth


@given(transactions())
def test_every_record_is_mapped_once_to_where_it_went(case: tuple[list[Delivery], Truth]) -> None:
    deliveries, truth = case
    folded = fold(deliveries)

    mapped = [
        ((source, run.source_start + i), (partition, run.target_start + i))
        for source, into in folded.items()
        for partition, runs in into.items()
        for run in runs
        for i in range(run.count)
    ]
    assert len(mapped) == len(truth)
    assert dict(mapped) == truth
    assert all(ordered_and_disjoint(runs) for into in folded.values() for runs in into.values())


def test_stretches_that_touch_become_one_run() -> None:
    source = TopicPartition("t", 0)
    chunks = [Sent(Chunk(source, ListRecords(offsets), "t", 0)) for offsets in ([0, 1, 2], [3, 4, 9])]
    deliveries = [Delivery(chunks[0], 0, 10, 12), Delivery(chunks[1], 0, 13, 15)]
    assert fold(deliveries) == {source: {0: [Run(0, 10, 5), Run(9, 15, 1)]}}
