"""Chooses the transport of a pipeline. Only this module knows the transports by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.client_statistics import ClientStatistics
from k2k_assets.transport.interface import Source, Transport
from k2k_assets.transport.librdkafka.transport import LibrdkafkaTransport

RECORDS = "librdkafka"
BATCHES = "record batches"


class MakesTransport(Protocol):
    """Makes a transport of one kind."""

    def __call__(self, pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
        """The transport of a pipeline; see `transport_of`."""
        ...


def _batch_transport(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    from k2k_assets.transport.record_batch.transport import BatchTransport

    return BatchTransport(pipeline, statistics)


TRANSPORTS: dict[str, MakesTransport] = {RECORDS: LibrdkafkaTransport, BATCHES: _batch_transport}
"""All transports by name; the conformance suite of the tests runs against each."""


def _batch_source(pipeline: Pipeline) -> Source:
    from k2k_assets.transport.record_batch.reading.source import BatchSource

    return BatchSource(pipeline.client_properties("source", "consumer"))


SOURCES: dict[str, Callable[[Pipeline], Source]] = {
    RECORDS: lambda pipeline: LibrdkafkaTransport(pipeline).open_source(),
    BATCHES: _batch_source,
}
"""All sources by name; the suite runs against each, also between two transports."""


def tries_batches(pipeline: Pipeline) -> bool:
    """Whether a slot copies by batches where that is possible."""
    return pipeline.transport.form != "records"


def transport_of(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    """The transport by which a slot copies, as `transport.form` says; it may raise `NotByTransport` at any time.

    Args:
        pipeline: The pipeline.
        statistics: How its sources and sinks make statistics; None: not at all.
    """
    return TRANSPORTS[BATCHES if tries_batches(pipeline) else RECORDS](pipeline, statistics)


def obstacles_to_batches(pipeline: Pipeline, asks_brokers: bool) -> list[str]:
    """Why a pipeline would be copied by records, though batches were tried; empty if it would not.

    Args:
        pipeline: The pipeline.
        asks_brokers: Whether the brokers of both clusters are asked what they speak; for seconds at most.
    """
    from k2k_assets.transport.record_batch import obstacles

    found = obstacles.in_settings(pipeline)
    return obstacles.in_brokers(pipeline) if asks_brokers and not found else found


def costs_of_batches(pipeline: Pipeline) -> list[str]:
    """Which settings cost something where batches would pass untouched without them."""
    features, anew = pipeline.features, "each batch is packed anew"
    producer = pipeline.client_properties("target", "producer")
    codec = producer.get("compression.type", producer.get("compression.codec"))
    found = {
        f"compression.type is {codec}: each batch that comes with another codec is packed anew": codec is not None,
        "features.headerReplication is disabled: batches with headers are packed anew": not features.header_replication,
        f"features.keepRecordCreationTimestamp is disabled: {anew}": not features.keep_record_creation_timestamp,
        f"headers are added: {anew}": bool(pipeline.added_headers or pipeline.marker),
        "transform, or schema ids that are mapped: records are decoded": bool(
            pipeline.transform or pipeline.schema_rules
        ),
        "partition: producer: records are decoded": not pipeline.routing.keeps_partitions,
    }
    return [text for text, applies in found.items() if applies]


def records_transport_of(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    """The transport that handles every pipeline: for control records, and where the chosen one cannot go on.

    Args:
        pipeline: The pipeline.
        statistics: As for `transport_of`.
    """
    return TRANSPORTS[RECORDS](pipeline, statistics)
