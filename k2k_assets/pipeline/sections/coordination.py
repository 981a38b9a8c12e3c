"""`coordination`, `offsetMapping` and `configuration`: control topics, commits and parallelism."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from k2k_assets.pipeline.sections.values import Count, Duration, Section, TopicName


class Commit(Section):
    """How often progress is committed, and to which topic."""

    topic: TopicName = Field(default="__k2k_consumer-offsets", description="Compacted topic with the progress.")
    sync_timeout: Duration = Field(
        default=timedelta(seconds=30),
        description="Longest time for reading the commit topic to its end. Under exactly-once it must be longer than "
        "`transaction.timeout.ms` plus 10 seconds.",
    )
    batch_size: Count = Field(
        default=1000,
        description="Records per commit; fewer where the target is too slow for so many bytes.",
    )
    batch_timeout: Duration = Field(
        default=timedelta(seconds=2),
        description="Longest time between commits; under exactly-once at most half of `transaction.timeout.ms`.",
    )


class Assignment(Section):
    """How instances agree on who copies what."""

    topic: TopicName = Field(default="__k2k_assignment", description="Topic where instances claim partitions.")
    grace_window: Duration = Field(
        default=timedelta(seconds=15),
        description="Longest wait for the former owner of a partition to release it; then it is fenced. Owners write "
        "three heartbeats in this time. Without them, an instance that stands by takes the partition over.",
    )
    fencing_max_parallelism: Count = Field(default=5, description="Producers that are fenced at once.")


class Coordination(Section):
    """Progress and ownership."""

    commit: Commit = Field(default_factory=Commit, description="Commits of progress.")
    assignment: Assignment = Field(default_factory=Assignment, description="Ownership of partitions.")


def _unless_topic(value: object) -> object:
    return None if value == "topic" else value


class MappingRetention(Section):
    """What a running offset mapper keeps in memory; it looks up older mappings in the index."""

    time: Annotated[Duration | None, BeforeValidator(_unless_topic), WithJsonSchema({"type": "string"})] = Field(
        default=None,
        description="Age up to which mappings are kept in memory: a duration, or `topic` (the default): as long as the "
        "mapping topic keeps them.",
    )
    count: Count | None = Field(
        default=None,
        description="Most runs in memory from one source partition into one target partition. Absent: no limit.",
    )
    schedule: Duration = Field(default=timedelta(minutes=5), description="Time between two searches for old mappings.")


class OffsetMapping(Section):
    """Where mappings are written (`features.offsetMapping`)."""

    topic: TopicName = Field(default="__k2k_offset_mappings", description="Topic with the offset mappings.")
    retention: MappingRetention = Field(
        default_factory=MappingRetention, description="What a running offset mapper keeps in memory."
    )


class Configuration(Section):
    """Parallelism, and waiting for control topics."""

    auto_control_topic_creation_check_delay: Duration = Field(
        default=timedelta(milliseconds=750),
        description="Wait between two attempts to find a created control topic.",
    )
    auto_control_topic_creation_max_attempts: Count = Field(
        default=10, description="Attempts to find a created control topic."
    )
    pipeline_parallelism: Count = Field(
        default=1, description="Accepted for compatibility with K2K; slots do the work."
    )
    partition_parallelism: Count | None = Field(
        default=None, description="Copy tasks (slots) that work at once. Absent: `spark.slots`."
    )
