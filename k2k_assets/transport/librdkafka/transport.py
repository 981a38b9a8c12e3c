"""The transport through librdkafka, record by record: it handles every pipeline, at some microseconds a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.client_statistics import ClientKind, ClientStatistics
from k2k_assets.transport.interface import ControlWriter, Sink, Sinks, Source
from k2k_assets.transport.librdkafka.at_least_once_sink import AtLeastOnceSink
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.librdkafka.data_producer import DataProducer
from k2k_assets.transport.librdkafka.producers import transactional_producer
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets.transport.librdkafka.source import LibrdkafkaSource
from k2k_assets.transport.librdkafka.transactional_sink import TransactionalSink
from k2k_assets.transport.producer_calls import claim

_LAST_CHANCE_SECONDS = 10.0


class LibrdkafkaTransport:
    """Copies with one consumer and one transactional producer for each session.

    Args:
        pipeline: Has the settings of the clients.
        statistics: How sources and sinks make statistics; None: not at all.
    """

    capabilities = Capabilities(
        needs_decoding=True, keeps_batches=False, reports_batches=False, knows_commit_outcome=False
    )

    def __init__(self, pipeline: Pipeline, statistics: ClientStatistics | None = None) -> None:
        self._pipeline = pipeline
        self._statistics = statistics

    def open_source(self, buffer_bytes: int | None = None) -> Source:
        properties = self._pipeline.client_properties("source", "consumer")
        return LibrdkafkaSource({**properties, **self._settings("consumer")}, buffer_bytes)

    def open_sinks(self, lone_writer: bool, batch_bytes: int) -> Sinks:
        return LibrdkafkaSinks(self._pipeline, lone_writer, batch_bytes, self._settings("producer"))

    def _settings(self, kind: ClientKind) -> dict[str, Any]:
        return self._statistics.settings(kind) if self._statistics else {}

    def open_control_writer(self, transactional_id: str) -> ControlWriter:
        return TransactionalWriter(self._pipeline.client_properties("target", "producer"), transactional_id)

    def claim(self, transactional_id: str, timeout: float, step: str) -> None:
        properties = self._pipeline.client_properties("target", "producer")
        claim(transactional_producer(properties, transactional_id), timeout, step)


class LibrdkafkaSinks:
    """Opens the sinks of one slot; in at-least-once mode they share one data producer.

    Args:
        pipeline: Has the settings of the producer.
        lone_writer: Whether no other source partition feeds the target partitions.
        batch_bytes: The largest batch that all target topics accept.
        statistics: Settings by which the producers make statistics.
    """

    def __init__(self, pipeline: Pipeline, lone_writer: bool, batch_bytes: int, statistics: Mapping[str, Any]) -> None:
        self._properties = {**pipeline.client_properties("target", "producer"), **statistics}
        size = min(int(self._properties.get("batch.size", 1_000_000)), batch_bytes)
        self._properties["batch.size"] = size
        self._data = None if pipeline.features.exactly_once else DataProducer(self._properties)
        self._report_mode = ReportMode(lone_writer)

    def open_sink(self, transactional_id: str) -> Sink:
        self._report_mode.begin_session()
        if self._data is None:
            return TransactionalSink(self._properties, transactional_id, self._report_mode)
        return AtLeastOnceSink(self._properties, transactional_id, self._report_mode, self._data)

    def close(self, discard: bool) -> None:
        if self._data is None:
            return
        if discard:
            self._data.discard()
        self._data.close(_LAST_CHANCE_SECONDS)
