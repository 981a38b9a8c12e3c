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


def transport_of(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    """The transport by which a slot copies, as `transport.form` says; it may raise `NotByTransport` at any time.

    Args:
        pipeline: The pipeline.
        statistics: How its sources and sinks make statistics; None: not at all.
    """
    return TRANSPORTS[BATCHES if pipeline.transport.form == "batches" else RECORDS](pipeline, statistics)


def records_transport_of(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    """The transport that handles every pipeline: for control records, and where the chosen one cannot go on.

    Args:
        pipeline: The pipeline.
        statistics: As for `transport_of`.
    """
    return TRANSPORTS[RECORDS](pipeline, statistics)
