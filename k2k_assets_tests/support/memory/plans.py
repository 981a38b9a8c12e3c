"""Plans, states and commit records for tests that need no cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Extent, UntilCaughtUp
from k2k_assets.replication.plan import ControlPartitions, PartitionPlan, SlotPlan
from k2k_assets.replication.slot.commit.partition_state import PartitionState

CLUSTER, TARGET_CLUSTER = "source-cluster", "target-cluster"
GENERATION = 17
COMMIT_TOPIC_ID = "commit-topic"


def partition_plan(source: TopicPartition, readable_end: int = 0, target: str | None = None) -> PartitionPlan:
    """The plan of one partition; topic ids are `s-<topic>` and `t-<topic>`."""
    target = target or source.topic
    return PartitionPlan(source, f"s-{source.topic}", target, f"t-{target}", readable_end)


def slot_plan(
    pipeline: Pipeline,
    stable_ends: Mapping[TopicPartition, int],
    extent: Extent | None = None,
    control: tuple[int, int] = (1, 6),
    one_to_one: bool = True,
) -> SlotPlan:
    """The plan of a slot that copies these partitions up to these ends."""
    return SlotPlan(
        pipeline=pipeline,
        cluster=CLUSTER,
        generation=GENERATION,
        slot=0,
        slots=1,
        partitions=tuple(
            partition_plan(tp, end, pipeline.routing.target_topic(tp.topic)) for tp, end in stable_ends.items()
        ),
        extent=extent or UntilCaughtUp(),
        control=ControlPartitions(*control, COMMIT_TOPIC_ID),
        one_to_one=one_to_one,
        batch_bytes=1_000_000,
        settings=CopySettings.of(pipeline).fingerprint,
        target_cluster=TARGET_CLUSTER,
    )


def commit_record(source: TopicPartition, position: int, **changed: Any) -> CommitRecord:
    """A commit record that fits `partition_plan`."""
    fields: dict[str, Any] = {
        "group": "k2k.g",
        "cluster": CLUSTER,
        "source": source,
        "kind": "commit",
        "pipeline": "p",
        "position": position,
        "leader_epoch": 3,
        "source_topic_id": f"s-{source.topic}",
        "target_topic": source.topic,
        "target_topic_id": f"t-{source.topic}",
        "target_end": 90,
        "generation": GENERATION - 1,
        "slot": 0,
        "sequence": 5,
        "time": 1_700_000_000_000,
        "records": 11,
        "bytes_": 22,
        "runs": 3,
        **changed,
    }
    return CommitRecord(**fields)


def states(positions: Mapping[TopicPartition, tuple[int, int | None]]) -> dict[TopicPartition, PartitionState]:
    """States by partition from (position, target end)."""
    return {
        tp: PartitionState(partition_plan(tp), position, position, None, target_end, position)
        for tp, (position, target_end) in positions.items()
    }


def sources(topic: str, count: int) -> Sequence[TopicPartition]:
    """The first partitions of a topic."""
    return [TopicPartition(topic, p) for p in range(count)]
