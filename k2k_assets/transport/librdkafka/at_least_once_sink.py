"""The at-least-once sink: data outside transactions, control records inside.

An idempotent producer writes the data; it never gives up on a record and never leaves a gap. After each flush, commit
and mapping records follow together in one small transaction under the slot's id, so that a superseded writer can commit
nothing. Records that it queued before may still arrive late, as duplicates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.deadline import Deadline
from k2k_assets.kafka import clients
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Fatal, Restart
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, produce_chunk, raise_errors, results
from k2k_assets.transport.librdkafka.producers import FIXED, PREFERRED, flush
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets.transport.producer_calls import call

log = logging.getLogger("k2k.transport")

# Without a message time-out and without gaps, the client retries each record until the target has it, in order.
_DATA: dict[str, object] = {**FIXED, "enable.gapless.guarantee": True, "message.timeout.ms": 0}
# A failed producer has so many seconds to report the fate of its records.
_LAST_WORDS_SECONDS = 5.0
# A new session waits for queued records in steps of this length; in between the slot looks for its stop record.
_PIECE_SECONDS = 5.0
_NOT_FOR_DATA = ("transaction.timeout.ms", "message.timeout.ms")


class AtLeastOnceSink:
    """Writes data with an idempotent producer, and control records in transactions.

    The data producer is kept from session to session: else records that it still holds could arrive after records that
    a new producer sends.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The slot's id, for the control transactions.
        report_mode: Decides how many delivery reports are asked for.
        data: The slot's data producer.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        report_mode: ReportMode,
        data: DataProducer,
        timeout: float = SINK_SECONDS,
    ) -> None:
        self._control = TransactionalWriter(properties, transactional_id, timeout)
        self._data = data
        self._report_mode = report_mode
        self._timeout = timeout
        self._pending: list[PendingDelivery] = []
        self._aside: list[PendingDelivery] = []
        self._begun = self._delivered = False

    def open(self) -> None:
        self._control.open()
        self._data.clear(self._timeout)

    def begin(self) -> None:
        """Does nothing: the control transaction begins with its first record, so that it stays short."""

    def write(self, chunk: Chunk) -> Sent:
        pending = PendingDelivery(chunk, self._report_mode.report_each)
        self._pending.append(pending)
        self._produce(chunk, pending)
        return pending.sent

    def write_aside(self, chunk: Chunk) -> None:
        pending = PendingDelivery(chunk, report_each=True)
        self._aside.append(pending)
        self._produce(chunk, pending)

    def _produce(self, chunk: Chunk, pending: PendingDelivery) -> None:
        with self._report_mode.learning_of_refusals():
            try:
                self._data.produce(chunk, pending, self._timeout)
            except Restart:
                raise_errors([*self._pending, *self._aside])
                raise

    def foresee(self) -> None:
        """Predicts nothing: outside transactions, records of a former owner may still arrive."""

    def settle(self) -> Sequence[Delivery]:
        pending, aside = self._pending, self._aside
        self._pending, self._aside = [], []
        with self._report_mode.learning_of_refusals():
            try:
                self._data.drain(self._timeout)
            except Restart:
                raise_errors([*pending, *aside])
                raise
            raise_errors([*pending, *aside])
            results(aside)
            deliveries = results(pending)
        self._report_mode.ensure_whole(deliveries)
        self._delivered |= bool(deliveries)
        return deliveries

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        if not self._begun:
            self._control.begin()
            self._begun = True
        self._control.write_control(topic, partition, key, value)

    def commit(self) -> None:
        if self._begun:
            self._control.commit()
            if self._delivered:
                self._report_mode.committed()
            self._begun = self._delivered = False

    def close(self) -> None:
        self._control.close()


class DataProducer:
    """The idempotent producer of a slot, replaced only after a fatal error.

    Args:
        properties: The user's producer settings, librdkafka names.
        clock: Measures for how long the target has accepted no record.
    """

    def __init__(self, properties: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._properties = {k: v for k, v in properties.items() if k not in _NOT_FOR_DATA}
        self._producer = self._new()
        self._stuck: tuple[int, float] | None = None

    def produce(self, chunk: Chunk, pending: PendingDelivery, timeout: float) -> None:
        """Queues a chunk.

        Raises:
            Restart: The queue stayed full for `timeout` seconds, or the producer failed; queued records stay queued.
        """
        with self._replaced_if_fatal():
            call(f"producing to {chunk.target_topic}", produce_chunk, self._producer, chunk, pending, timeout)

    def drain(self, timeout: float) -> None:
        """Waits until no record is queued.

        Raises:
            Restart: The target does not accept the records in time; they stay queued.
        """
        with self._replaced_if_fatal():
            try:
                flush(self._producer, timeout)
            except Restart:
                queued, now = len(self._producer), self._clock.monotonic()
                if self._stuck is None or queued < self._stuck[0]:
                    self._stuck = queued, now
                raise
        self._stuck = None

    def clear(self, timeout: float) -> None:
        """Waits until no record is queued; drops the queue if the target has accepted no record for long.

        Else a partition without a leader would delay all others for as long as it has none. Dropped records are read
        again, because no position behind them was committed; they may be copied twice.

        Args:
            timeout: Seconds without an accepted record after which the queue is dropped.

        Raises:
            Restart: Records are still queued, and the target has accepted one within `timeout` seconds.
        """
        try:
            self.drain(min(timeout, _PIECE_SECONDS))
        except Fatal:
            raise
        except Restart:
            now = self._clock.monotonic()
            if self._stuck is None or now - self._stuck[1] < timeout:
                raise
            queued, since = self._stuck
            log.warning("the target took none of %d records for %.0f s: they are read again", queued, now - since)
            self._replace()

    def discard(self) -> None:
        """Drops the queued records that are not sent yet."""
        with suppress(KafkaException, SystemError):
            self._producer.purge(in_flight=False)

    def close(self, timeout: float) -> None:
        """Tries for `timeout` seconds to deliver the queued records."""
        with suppress(KafkaException, SystemError):
            self._producer.flush(timeout)

    @contextmanager
    def _replaced_if_fatal(self) -> Iterator[None]:
        """Replaces the producer if a call in the body failed fatally; its records are dropped and reported first."""
        try:
            yield
        except Fatal:
            self._replace()
            raise

    def _replace(self) -> None:
        """Makes a new producer; drops sent records too, which the old one might send again behind later records."""
        deadline = Deadline(_LAST_WORDS_SECONDS)
        while not deadline.expired():
            with suppress(KafkaException, SystemError):  # a failed producer raises its error again
                self._producer.purge()
                if not self._producer.flush(0.5):
                    break
        self._stuck = None
        self._producer = self._new()

    def _new(self) -> Producer:
        return clients.producer({**PREFERRED, **self._properties}, _DATA)
