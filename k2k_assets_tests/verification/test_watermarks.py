"""Mappings against the watermarks of the target, without clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.verification.verdict import Judgement
from k2k_assets.verification.watermarks import TargetExtent, check_watermarks


class _Cluster:
    """A topic `t` of two partitions that hold [2, 10)."""

    def __init__(self, offline_partitions: Collection[int] = ()) -> None:
        self._offline_partitions = {TopicPartition("t", p): f"t-{p} has no leader" for p in offline_partitions}

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        return {name: TopicDescription("t", "tid", 2) for name in topics if name == "t"}

    def describe_async(self, topics: Iterable[str], partly: bool) -> Any:
        return lambda: self.describe(topics)

    def led_offsets(self, partitions: Iterable[TopicPartition], which: str) -> LedOffsets:
        wanted = set(partitions)
        offline = {tp: why for tp, why in self._offline_partitions.items() if tp in wanted}
        return LedOffsets(dict.fromkeys(wanted - offline.keys(), 2 if which == "earliest" else 10), offline)


@pytest.mark.parametrize(
    ("end", "offline_partitions", "judgement", "said"),
    [
        (10, (), Judgement.PASSED, "the mappings of 2 target partitions lie within their watermarks"),
        (11, (), Judgement.FAILED, "2 offending: first, t-0: mapped up to 11, but its high watermark is 10"),
        (10, (1,), Judgement.PASSED, "of 1 target partition lie within their watermarks; 1 has no leader"),
        (11, (1,), Judgement.FAILED, "1 offending"),
        (11, (0, 1), Judgement.WARNED, "2 have no leader and were not looked at"),
    ],
)
def test_what_nobody_could_look_at_has_not_passed(
    end: int, offline_partitions: Collection[int], judgement: Judgement, said: str
) -> None:
    extents = [TargetExtent("t", "tid", p, 0, end, frozenset({("t", "tid")})) for p in range(2)]
    verdict = check_watermarks(extents, cast(Cluster, _Cluster()), cast(Cluster, _Cluster(offline_partitions)))
    assert (verdict.judgement, said in verdict.summary) == (judgement, True), verdict
