"""`metrics`: names of what telemetry exports. The prefixes of clients have no effect yet."""

from __future__ import annotations

from pydantic import Field

from k2k_assets.pipeline.values import Section, TopicName


class MetricsPrefix(Section):
    """Prefixes of metric names."""

    target_consumer: str = Field(default="k2k.consumer.control.", description="Prefix for readers of control topics.")
    target_producer: str = Field(default="k2k.producer.", description="Prefix for producers.")
    source_consumer: str = Field(default="k2k.consumer.source.", description="Prefix for consumers of the source.")
    assignment: str = Field(default="k2k.", description="Prefix for metrics about who copies what.")
    offset_mapping_app: str = Field(default="k2k.offsetmapping.", description="Prefix for the offset mapper.")


class MetricsKafka(Section):
    """Metrics as Kafka records."""

    topic: TopicName = Field(default="__k2k_metrics", description="Target topic for metrics.")


class Metrics(Section):
    """Metrics."""

    prefix: MetricsPrefix = Field(default_factory=MetricsPrefix, description="Prefixes of metric names.")
    kafka: MetricsKafka = Field(default_factory=MetricsKafka, description="Metrics as Kafka records.")
