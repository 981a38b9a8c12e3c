"""The idempotent producer that writes the data of at-least-once slots, outside transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.words import plural
from k2k_assets.kafka import clients
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Fatal, Restart
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, produce_chunk
from k2k_assets.transport.librdkafka.producers import FIXED, PREFERRED, flush
from k2k_assets.transport.producer_calls import call

log = logging.getLogger("k2k.transport")

# Without a message time-out and without gaps, the client retries each record until the target has it, in order.
_DATA: dict[str, object] = {**FIXED, "enable.gapless.guarantee": True, "message.timeout.ms": 0}
# A failed producer has so many seconds to report the fate of its records.
_LAST_WORDS_SECONDS = 5.0
# A new session waits for queued records in steps of this length; in between the slot looks for its stop record.
_PIECE_SECONDS = 5.0
_NOT_FOR_DATA = ("transaction.timeout.ms", "message.timeout.ms")


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
            records = plural(queued, "record")
            log.warning("the target took none of %s for %.0f s: they are read again", records, now - since)
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
