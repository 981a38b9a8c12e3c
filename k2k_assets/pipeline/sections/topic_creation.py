"""`topicCreation`: partition counts, replication factors and configs of topics that are created."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.regular_expression import RegularExpression
from k2k_assets.pipeline.sections.values import Count, Section, TextMap

ControlTopic = Literal["commit", "assignment", "offset_mapping", "metrics"]


class ControlTopicSettings(Section):
    """Settings of a control topic that is created; existing topics are left as they are."""

    partitions: Count | None = Field(default=None, description="Partition count. Absent: our default for the topic.")
    replication: Count | None = Field(default=None, description="Replication factor. Absent: the broker's default.")
    config: TextMap = Field(default={}, description="Topic configs, such as `min.insync.replicas`.")

    def over(self, base: ControlTopicSettings) -> ControlTopicSettings:
        """These settings, with what they leave open taken from `base`; configs are merged key by key."""
        return ControlTopicSettings(
            partitions=self.partitions if self.partitions is not None else base.partitions,
            replication=self.replication if self.replication is not None else base.replication,
            config={**base.config, **self.config},
        )


class ControlTopicCreation(Section):
    """Control topics; each inherits from `common`."""

    common: ControlTopicSettings = Field(
        default_factory=ControlTopicSettings, description="Inherited by all control topics."
    )
    commit: ControlTopicSettings = Field(
        default_factory=ControlTopicSettings, description="The commit topic, over `common`."
    )
    assignment: ControlTopicSettings = Field(
        default_factory=ControlTopicSettings, description="The assignment topic, over `common`."
    )
    offset_mapping: ControlTopicSettings = Field(
        default_factory=ControlTopicSettings, description="The mapping topic, over `common`."
    )
    metrics: ControlTopicSettings = Field(
        default_factory=ControlTopicSettings,
        description="The topic for metrics, over `common`.",
    )


class ReplicatedTopicSettings(Section):
    """Settings of a target topic that is created."""

    partitions: Count | None = Field(default=None, description="Partition count. Absent: the source topic's.")
    replication: Count | None = Field(
        default=None,
        description="Replication factor. Absent: the source topic's, or the number of brokers if that is lower.",
    )
    config: TextMap = Field(default={}, description="Topic configs, over the source topic's.")

    def over(self, base: ReplicatedTopicSettings) -> ReplicatedTopicSettings:
        """These settings, with what they leave open taken from `base`; configs are merged key by key."""
        return ReplicatedTopicSettings(
            partitions=self.partitions if self.partitions is not None else base.partitions,
            replication=self.replication if self.replication is not None else base.replication,
            config={**base.config, **self.config},
        )


class TopicRule(Section):
    """Settings of some topics."""

    pattern: RegularExpression = Field(description="Source topics: a regular expression for whole names (required).")
    properties: ReplicatedTopicSettings = Field(description="Their settings (required).")


class ReplicatedTopicCreation(Section):
    """Target topics that are created."""

    common: ReplicatedTopicSettings = Field(default_factory=ReplicatedTopicSettings, description="Of all topics.")
    rules: tuple[TopicRule, ...] = Field(
        default=(), description="Of some, over `common`; the first that matches counts."
    )

    def of(self, topic: str) -> ReplicatedTopicSettings:
        """The settings of the copy of a source topic: the first rule that matches it, over `common`."""
        rule = next((rule for rule in self.rules if compile_java(rule.pattern).matches(topic)), None)
        return rule.properties.over(self.common) if rule else self.common


class TopicCreation(Section):
    """Topics that this pipeline creates."""

    replication: ReplicatedTopicCreation | None = Field(default=None, description="The target topics.")
    control: ControlTopicCreation = Field(default_factory=ControlTopicCreation, description="The control topics.")

    def replicated_topic(self, source_topic: str) -> ReplicatedTopicSettings:
        """The settings of the copy of a source topic; empty if the file has none."""
        return (self.replication or ReplicatedTopicCreation()).of(source_topic)

    def dead_letter_topic(self) -> ReplicatedTopicSettings:
        """The settings of topics for dead letters, which are like no source topic: `common`, with what keeps letters.

        Of dead letters with one key only the last would stay of a compacted topic, and one without a key would stop its
        topic. Letters of old records keep as long as others, by the broker's timestamps; for ever, if `common` says
        nothing: the broker's default is made for data that somebody reads every day.
        """
        kept = ReplicatedTopicSettings(config={"retention.ms": "-1", "retention.bytes": "-1"})
        forced = ReplicatedTopicSettings(config={"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"})
        return forced.over((self.replication or ReplicatedTopicCreation()).common).over(kept)

    def control_topic(self, which: ControlTopic) -> ControlTopicSettings:
        """The settings of one control topic, `common` included."""
        own: ControlTopicSettings = getattr(self.control, which)
        return own.over(self.control.common)
