"""The transport that moves whole record batches, undecoded where it can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.client_statistics import ClientKind, ClientStatistics
from k2k_assets.transport.interface import SINK_SECONDS, ControlWriter, Sink, Sinks, Source
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.wire.settings import Address
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.wire.traffic import Traffic, report, reporting
from k2k_assets.transport.record_batch.writing.at_least_once_sink import AtLeastOnceBatchSink
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets.transport.record_batch.writing.batch_sink import BatchSink
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings, sink_settings_of
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer


class BatchTransport:
    """Copies record batches.

    Args:
        pipeline: Has the settings of the clients.
        statistics: How its sources and sinks make statistics; None: not at all.
    """

    capabilities = Capabilities(
        needs_decoding=False, keeps_batches=True, reports_batches=True, knows_commit_outcome=True
    )

    def __init__(self, pipeline: Pipeline, statistics: ClientStatistics | None = None) -> None:
        self._pipeline, self._statistics = pipeline, statistics
        self._traffic: dict[ClientKind, Traffic] = {"consumer": Traffic(), "producer": Traffic()}
        self._silent: set[Address] = set()
        self._loops: list[Loop] = []
        if statistics is not None:
            Loop(self._loops).start(reporting(statistics, self._traffic))

    def open_source(self, buffer_bytes: int | None = None) -> Source:
        properties = self._pipeline.client_properties("source", "consumer")
        most_joined = self._pipeline.coordination.commit.batch_size
        return BatchSource(properties, buffer_bytes, self._loops, most_joined, self._traffic["consumer"], self._silent)

    def open_sinks(self, lone_writer: bool, batch_bytes: int) -> Sinks:
        is_exactly_once = self._pipeline.features.exactly_once
        settings = self._settings(SINK_SECONDS)
        counted = replace(settings, connection=replace(settings.connection, traffic=self._traffic["producer"]))
        return BatchSinks(counted, is_exactly_once, lone_writer, batch_bytes, self._loops, self._report)

    def _report(self) -> None:
        if self._statistics is not None:
            report(self._statistics, self._traffic)

    def open_control_writer(self, transactional_id: str) -> ControlWriter:
        return BatchControlWriter(self._settings(SINK_SECONDS), transactional_id)

    def claim(self, transactional_id: str, timeout: float, step: str) -> None:
        producer = TransactionalProducer(self._settings(timeout), transactional_id, timeout)
        try:
            producer.open(step)
        finally:
            producer.close()

    def _settings(self, timeout: float) -> SinkSettings:
        return sink_settings_of(self._pipeline.client_properties("target", "producer"), timeout)


class BatchSinks:
    """Opens the sinks of one slot.

    Args:
        settings: How brokers are connected to, and how batches are written.
        is_exactly_once: Whether records are written in transactions, too.
        lone_writer: Whether no other source partition feeds the target partitions.
        batch_bytes: The largest batch that all target topics accept.
        loops: Those of the slot's sources, which go on while a sink waits.
        on_close: Called when the slot closes it.
    """

    def __init__(
        self,
        settings: SinkSettings,
        is_exactly_once: bool,
        lone_writer: bool,
        batch_bytes: int,
        loops: list[Loop],
        on_close: Callable[[], None],
    ) -> None:
        self._settings, self._loops, self._on_close = settings, loops, on_close
        self._is_exactly_once = is_exactly_once
        self._tactics = SlotTactics(lone_writer, batch_bytes)

    def open_sink(self, transactional_id: str) -> Sink:
        self._tactics.begin_session()
        if not self._is_exactly_once:
            return AtLeastOnceBatchSink(self._settings, transactional_id, self._tactics, loops=self._loops)
        return BatchSink(self._settings, transactional_id, self._tactics, loops=self._loops)

    def close(self, discard: bool) -> None:
        """No client outlives a session: this is for those who count what they did."""
        self._on_close()
