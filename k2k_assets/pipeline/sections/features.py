"""`features`: what a pipeline does beyond plain copying. Every flag is `enabled` or `disabled`."""

from __future__ import annotations

from pydantic import Field

from k2k_assets.pipeline.sections.tracing import OneOrAllTracingFlags, TracingFlags
from k2k_assets.pipeline.sections.values import Flag, Section


class Features(Section):
    """The feature flags, with K2K's defaults."""

    exactly_once: Flag = Field(
        default=False,
        description="One transaction of the target writes records, their commit record and their mappings. "
        "Disabled: at-least-once.",
    )
    header_replication: Flag = Field(default=False, description="Copy the record headers; disabled, they are dropped.")
    keep_record_creation_timestamp: Flag = Field(
        default=True,
        description="Keep the source record's timestamp; disabled, a record gets the time of copying.",
    )
    auto_create_topics: Flag = Field(
        default=True,
        description="Create missing target topics with the source topic's partition count and configs, and add "
        "partitions to existing ones when the source has more (`partition: source`).",
    )
    auto_create_control_topics: Flag = Field(default=False, description="Create missing control topics on the target.")
    offset_mapping: Flag = Field(
        default=False, description="Publish the target offset of each source offset, so that consumer groups can move."
    )
    apply_mappings_guard: Flag = Field(
        default=True,
        description="Only a commit that was seen later on the source replaces a group's commit. Disabled, for a reset "
        "of all offsets: any commit does.",
    )
    apply_mappings_guards: Flag | None = Field(
        default=None, description="Another spelling of `applyMappingsGuard`; K2K's pages have both."
    )
    tracing_headers: OneOrAllTracingFlags = Field(
        default_factory=TracingFlags, description="Headers that say where a record came from."
    )
    schema_mapping: Flag = Field(
        default=False,
        description="Replace schema ids in keys and values by those that the target's schema registry has for the same "
        "schemas.",
    )
    bidirectional_replication: Flag = Field(
        default=False,
        description="Copies are marked, and records that would come back to where they were written are dropped: for "
        "pipelines in both directions.",
    )
    optimize_offset_commit_partition: Flag = Field(
        default=True, description="Keep all commit records of one group in one partition of the commit topic."
    )
    validate_control_topic_settings: Flag = Field(
        default=True,
        description="Refuse control topics that would lose records over time, and warn of those that would lose them "
        "with a broker (cleanup policy, retention, replication, min ISR).",
    )
    check_kafka_connection_on_startup: Flag = Field(
        default=True,
        description="Fail at once when a cluster does not answer at the start. Disabled: `k2k start` without `--once` "
        "waits until both answer.",
    )

    @property
    def mappings_guard(self) -> bool:
        """Whether versions are compared before a commit, under either spelling."""
        return self.apply_mappings_guard if self.apply_mappings_guards is None else self.apply_mappings_guards
