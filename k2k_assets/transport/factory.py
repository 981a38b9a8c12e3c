"""Chooses the transport of a pipeline: the only module that knows which there are."""

from __future__ import annotations

from collections.abc import Callable

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.interface import Transport
from k2k_assets.transport.librdkafka.transport import LibrdkafkaTransport

RECORDS = "librdkafka"

TRANSPORTS: dict[str, Callable[[Pipeline], Transport]] = {RECORDS: LibrdkafkaTransport}
"""All of them by name; the conformance suite of the tests runs against each."""


def transport_of(pipeline: Pipeline) -> Transport:
    """The transport that a pipeline's settings ask for: there is one so far, which takes every pipeline."""
    return TRANSPORTS[RECORDS](pipeline)
