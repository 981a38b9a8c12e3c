"""What other pipelines copy into the same target topics, by whatever order their commit records are read in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.live.copied_positions import CommitsOfOthers


def record(
    time: int, target_id: str, group: str = "k2k.pay", partition: int = 0, cluster: str = "here"
) -> CommitRecord:
    return CommitRecord(
        group=group, cluster=cluster, source=TopicPartition("payments", partition), kind="commit", pipeline="pay",
        position=9, leader_epoch=0, source_topic_id="s", target_topic="all", target_topic_id=target_id, target_end=9,
        generation=1, slot=0, sequence=1, time=time,
    )  # fmt: skip


def told(*records: CommitRecord) -> Mapping[str, Mapping[str, CommitRecord]]:
    others = CommitsOfOthers("here")
    for each in records:
        others.take(each)
    return others.into("all")


FORMER_GROUP, FORMER_TOPIC, TODAY = (
    record(1, "today", "k2k.before"),
    record(3, "before", partition=1),  # of a partition that is stopped because its target topic went
    record(2, "today"),
)


@pytest.mark.parametrize("order", permutations([FORMER_GROUP, FORMER_TOPIC, TODAY]))
def test_what_goes_into_todays_topic_is_told_whatever_is_read_last(order: tuple[CommitRecord, ...]) -> None:
    assert told(*order) == {"today": {"payments": TODAY}, "before": {"payments": FORMER_TOPIC}}


def test_another_cluster_is_told_apart() -> None:
    others = CommitsOfOthers("here")
    others.take(record(1, "today", cluster="there"))
    assert (others.cluster_into("all"), others.into("all")) == ("there", {})
    assert others.cluster_into("elsewhere") is None
