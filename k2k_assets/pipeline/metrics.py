"""`metrics`: names of what telemetry exports, which only starts when it is asked for. Read and checked."""

from __future__ import annotations

from pydantic import Field

from k2k_assets.pipeline.values import Section, TopicName


class MetricsPrefix(Section):
    """What the names of metrics begin with."""

    target_consumer: str = Field(default="k2k.consumer.control.", description="Those of the control topics' readers.")
    target_producer: str = Field(default="k2k.producer.", description="Those of the writers.")
    source_consumer: str = Field(default="k2k.consumer.source.", description="Those of the reader of the source.")
    assignment: str = Field(default="k2k.", description="Those about who copies what.")
    offset_mapping_app: str = Field(default="k2k.offsetmapping.", description="Those of the offset mapper.")


class MetricsKafka(Section):
    """Metrics as records."""

    topic: TopicName = Field(default="__k2k_metrics", description="Topic of the target for metrics.")


class Metrics(Section):
    """Metrics."""

    prefix: MetricsPrefix = Field(default_factory=MetricsPrefix, description="What their names begin with.")
    kafka: MetricsKafka = Field(default_factory=MetricsKafka, description="Where they go as records.")
