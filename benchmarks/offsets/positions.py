"""Commits positions of groups on the source, and watches what becomes of them on the target."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import fetch_offsets

_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class Member(NamedTuple):
    """A partition of a group."""

    group: str
    partition: TopicPartition


@dataclass(slots=True)
class Watched:
    """What was seen of groups on the target.

    Attributes:
        offsets: Final position; what has none was never committed there.
        moved: When each last changed, `time.monotonic()`; what did not change is left out.
    """

    offsets: dict[Member, int] = field(default_factory=dict)
    moved: dict[Member, float] = field(default_factory=dict)


def commit(cluster: Cluster, positions: Mapping[Member, int]) -> None:
    """Commits positions as an administrator does; returns when the broker has them.

    Raises:
        TimeoutError: The broker does not take them.
    """
    groups: dict[str, list[KafkaTopicPartition]] = {}
    for (group, at), offset in positions.items():
        groups.setdefault(group, []).append(KafkaTopicPartition(at.topic, at.partition, offset))

    def accepted() -> bool:
        asked = {
            group: cluster.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group]
            for group, wanted in groups.items()
        }
        for group, future in asked.items():
            if not any(answer.error for answer in future.result(_SECONDS).topic_partitions):
                del groups[group]
        return not groups

    # The first group of a new broker makes it create its topic for offsets, and it answers with errors meanwhile.
    wait_until(accepted, _SECONDS, "the source to take the commits of all groups")


def held(cluster: Cluster, groups: Collection[str], topics: Collection[str]) -> dict[Member, int]:
    """Positions of groups in the partitions of some topics."""
    found = fetch_offsets(cluster, groups, topics)
    return {
        Member(name, partition): committed.offset
        for name, group in found.groups.items()
        for partition, committed in group.offsets.items()
    }


def watch(
    cluster: Cluster,
    groups: Collection[str],
    topics: Collection[str],
    before: Mapping[Member, int],
    still: float,
    ensure_running: Callable[[], None],
) -> Watched:
    """Watches groups until none of their positions has moved for a while.

    Args:
        cluster: The target.
        groups: Their names.
        topics: Topics on the target.
        before: Their positions when it began.
        still: Seconds that count as "for a while".
        ensure_running: Raises if what moves them has ended.

    Raises:
        TimeoutError: They go on moving.
    """
    deadline, quiet = Deadline(12 * still), Deadline(still)
    watched = Watched(dict(before))
    while not quiet.expired():
        if deadline.expired():
            raise TimeoutError(f"groups on the target still move after {12 * still:g} s")
        ensure_running()
        now = held(cluster, groups, topics)
        at = time.monotonic()
        for member, offset in now.items():
            if watched.offsets.get(member) != offset:
                watched.offsets[member], watched.moved[member] = offset, at
                quiet = Deadline(still)
        time.sleep(_LOOK_SECONDS)
    return watched
