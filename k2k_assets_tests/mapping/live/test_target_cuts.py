"""Target partitions that end before their copies, as the looks of a mapper see them one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.live.target_cuts import TargetCuts

HERE, OTHER = Target("t", "tid", 0), Target("t", "tid", 1)


class Ends:
    """A cluster of which only log ends are asked for."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.asked: list[TopicPartition] = []

    def led_offsets(self, partitions: Iterable[TopicPartition], which: str) -> SimpleNamespace:
        assert which == "latest"
        self.asked = list(partitions)
        return SimpleNamespace(offsets={tp: self.ends[tp] for tp in self.asked if tp in self.ends})


def look(cuts: TargetCuts, copied: int, stable: int, end: int | None) -> dict[Target, int]:
    cluster: Any = Ends()
    if end is not None:
        cluster.ends[TopicPartition("t", 0)] = end
    cuts.look(cluster, {HERE: copied, OTHER: 50}, {HERE: stable, OTHER: 50})
    assert cluster.asked == ([TopicPartition("t", 0)] if stable < copied else []), "nobody else is asked"
    return cuts.of(None)


def test_a_partition_that_is_shorter_than_its_copies_was_cut() -> None:
    cuts = TargetCuts()
    assert look(cuts, copied=100, stable=100, end=None) == {}
    assert look(cuts, copied=100, stable=90, end=101) == {}, "a transaction is open, or its marker is to come"
    assert look(cuts, copied=100, stable=90, end=None) == {}, "no leader"
    assert look(cuts, copied=100, stable=40, end=40) == {HERE: 40}


def test_a_cut_is_remembered_until_other_copies_are_mapped() -> None:
    cuts = TargetCuts()
    look(cuts, copied=100, stable=40, end=40)
    assert look(cuts, copied=100, stable=40, end=140) == {HERE: 40}, "a copy tries, and has not committed"
    assert look(cuts, copied=100, stable=140, end=None) == {HERE: 40}, "it was aborted"
    assert look(cuts, copied=100, stable=30, end=30) == {HERE: 30}, "cut again"
    assert look(cuts, copied=100, stable=35, end=35) == {HERE: 30}
    assert look(cuts, copied=40, stable=140, end=None) == {}, "set by hand: the mappings end there now"
    look(cuts, copied=100, stable=40, end=40)
    assert look(cuts, copied=180, stable=180, end=None) == {}, "copied on"
