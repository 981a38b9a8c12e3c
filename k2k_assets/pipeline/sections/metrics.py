"""`metrics`: names of what telemetry exports, and whether it exports statistics of the Kafka clients."""

from __future__ import annotations

from pydantic import Field

from k2k_assets.pipeline.sections.values import Flag, PositiveDuration, Section, TopicName


class MetricsPrefix(Section):
    """Prefixes of metric names."""

    target_consumer: str = Field(
        default="k2k.consumer.control.", description="No effect: readers of control topics export nothing."
    )
    target_producer: str = Field(
        default="k2k.producer.", description="Prefix for the statistics of the slots' producers."
    )
    source_consumer: str = Field(
        default="k2k.consumer.source.", description="Prefix for the statistics of the slots' consumers."
    )
    assignment: str = Field(default="k2k.", description="Prefix for metrics about who copies what.")
    offset_mapping_app: str = Field(default="k2k.offsetmapping.", description="Prefix for the offset mapper.")


class MetricsPrometheus(Section):
    """Where metrics and health are read; the file counts before OTEL_EXPORTER_PROMETHEUS_PORT."""

    port: int | None = Field(
        default=None, ge=0, le=65535, description="Port of replications; 0: any that is free. Absent: 9090."
    )
    mapper_port: int | None = Field(
        default=None, ge=0, le=65535, description="Port of offset mappers; 0: any that is free. Absent: 9091."
    )


class MetricsKafka(Section):
    """Metrics as Kafka records."""

    topic: TopicName = Field(default="__k2k_metrics", description="Target topic for metrics.")


class Metrics(Section):
    """What `-t` exports: names, exporters, and the endpoint of the health."""

    prefix: MetricsPrefix = Field(default_factory=MetricsPrefix, description="Prefixes of metric names.")
    client_statistics: PositiveDuration | None = Field(
        default=None,
        description="Time between two statistics of each Kafka client of the slots, with `-t`. Absent: they make none.",
    )
    dagster_runs: Flag = Field(
        default=False, description="Whether Dagster's runs that copy or move groups export metrics, as `-t` does."
    )
    prometheus: MetricsPrometheus = Field(
        default_factory=MetricsPrometheus,
        description="Where metrics and health are read. It counts before OTEL_EXPORTER_PROMETHEUS_PORT.",
    )
    kafka: MetricsKafka = Field(default_factory=MetricsKafka, description="Metrics as Kafka records.")
