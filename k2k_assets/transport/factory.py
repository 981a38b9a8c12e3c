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


TRANSPORTS: dict[str, MakesTransport] = {RECORDS: LibrdkafkaTransport}
"""All transports by name; the conformance suite of the tests runs against each."""


def _batch_source(pipeline: Pipeline) -> Source:
    from k2k_assets.transport.record_batch.source import BatchSource

    return BatchSource(pipeline.client_properties("source", "consumer"))


SOURCES: dict[str, Callable[[Pipeline], Source]] = {
    RECORDS: lambda pipeline: LibrdkafkaTransport(pipeline).open_source(),
    BATCHES: _batch_source,
}
"""All sources by name; the suite runs against each. That of record batches is in no transport yet: no copy uses it."""


def transport_of(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
    """The transport for a pipeline: there is one so far, which handles every pipeline.

    Args:
        pipeline: The pipeline.
        statistics: How its sources and sinks make statistics; None: not at all.
    """
    return TRANSPORTS[RECORDS](pipeline, statistics)
