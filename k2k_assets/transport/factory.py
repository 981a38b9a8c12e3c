"""Chooses the transport of a pipeline. Only this module knows the transports by name."""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.interface import Transport
from k2k_assets.transport.librdkafka.transport import LibrdkafkaTransport

RECORDS = "librdkafka"

TRANSPORTS: dict[str, Callable[[Pipeline], Transport]] = {RECORDS: LibrdkafkaTransport}
"""All transports by name; the conformance suite of the tests runs against each."""


def transport_of(pipeline: Pipeline) -> Transport:
    """The transport for a pipeline: there is one so far, which handles every pipeline."""
    return TRANSPORTS[RECORDS](pipeline)
