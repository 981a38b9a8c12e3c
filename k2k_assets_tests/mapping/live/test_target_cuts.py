"""Target partitions that end before their copies, as the looks of a mapper see them one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Order, Target
from k2k_assets.mapping.algebra.in_memory_mapping import End, InMemoryMapping
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.target_cuts import TargetCuts

SOURCE = SourcePartition("c", "s", "sid", 0)
HERE, OTHER = Target("t", "tid", 0), Target("t", "tid", 1)


class Ends:
    """A cluster of which only log ends are asked for, and where the last committed record lies below one."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.aborted = 0
        self.asked: list[TopicPartition] = []

    def led_offsets(self, partitions: Iterable[TopicPartition], which: str) -> SimpleNamespace:
        assert which == "latest"
        self.asked = list(partitions)
        return SimpleNamespace(offsets={tp: self.ends[tp] for tp in self.asked if tp in self.ends})

    def ends_of_committed(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: end - self.aborted for tp, end in ends.items()}


def cuts_of(cluster: Any) -> TargetCuts:
    return TargetCuts(cluster, cluster.ends_of_committed)


def look(cuts: TargetCuts, newest: int, copied: int, stable: int, end: int | None) -> Mapping[Target, int]:
    """The mappings' newest record, where copies and the last stable offset end, and the log, if it has a leader."""
    cluster: Any = cuts._cluster
    cluster.asked, cluster.ends = [], {} if end is None else {TopicPartition("t", 0): end}
    held = InMemoryMapping(newest=Order(1, newest), ends={HERE: End(900, copied), OTHER: End(900, 50)})
    cuts.look([(SOURCE, held)], {HERE: stable, OTHER: 50})
    assert cluster.asked == ([TopicPartition("t", 0)] if stable < copied else []), "nobody else is asked"
    return cuts.of(SOURCE, None)


def test_a_partition_that_is_shorter_than_its_copies_was_cut() -> None:
    cuts = cuts_of(Ends())
    assert look(cuts, 1, copied=100, stable=100, end=None) == {}
    assert look(cuts, 1, copied=100, stable=90, end=101) == {}, "a transaction is open, or its marker is to come"
    assert look(cuts, 1, copied=100, stable=90, end=None) == {}, "no leader"
    assert look(cuts, 1, copied=100, stable=40, end=40) == {HERE: 40}
    assert cuts.of(SOURCE._replace(partition=1), None) == {}


def test_a_cut_is_remembered_until_other_copies_are_mapped() -> None:
    cuts = cuts_of(Ends())
    look(cuts, 1, copied=100, stable=40, end=40)
    assert look(cuts, 1, copied=100, stable=40, end=140) == {HERE: 40}, "a copy tries, and has not committed"
    assert look(cuts, 1, copied=100, stable=140, end=None) == {HERE: 40}, "it was aborted"
    assert look(cuts, 1, copied=100, stable=30, end=30) == {HERE: 30}, "cut again"
    assert look(cuts, 1, copied=100, stable=35, end=35) == {HERE: 30}
    assert look(cuts, 2, copied=100, stable=140, end=None) == {}, "copied again, as many as before"
    look(cuts, 2, copied=100, stable=40, end=40)
    assert look(cuts, 3, copied=180, stable=180, end=None) == {}, "copied on"


def test_what_was_aborted_behind_the_cut_does_not_count() -> None:
    cluster = Ends()
    cluster.aborted = 6
    cuts = cuts_of(cluster)
    assert look(cuts, 1, copied=100, stable=46, end=46) == {HERE: 40}
    assert look(cuts, 1, copied=100, stable=60, end=60) == {HERE: 40}, "known already: nobody reads there again"


def test_each_source_of_a_partition_learns_of_its_cut_when_its_mappings_are_read() -> None:
    cluster: Any = Ends()
    cluster.ends = {TopicPartition("t", 0): 50}
    cuts = cuts_of(cluster)
    first = SOURCE, InMemoryMapping(newest=Order(1, 1), ends={HERE: End(900, 100)})
    second = SOURCE._replace(partition=1), InMemoryMapping(newest=Order(1, 1), ends={HERE: End(900, 90)})
    cuts.look([first], {HERE: 50})
    cuts.look([first, second], {HERE: 50})
    assert [dict(cuts.of(source, None)) for source, _ in (first, second)] == [{HERE: 50}] * 2
