"""The at-least-once sink: data outside transactions, progress inside.

Data goes through an idempotent producer that never gives up on a record and never leaves a gap. After each flush
commit and mapping records follow together in one small transaction under the slot's id: so a superseded writer can
commit nothing. What it had queued before it was superseded may still land late, as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from k2k_assets.deadline import Deadline
from k2k_assets.kafka import clients
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.deliveries import PendingDelivery, produce_chunk, raise_errors, results
from k2k_assets.transport.errors import Fatal, Restart
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.librdkafka_sink import FIXED, PREFERRED, TransactionalSink, call, flush

# Without a message time-out and without gaps: a record is retried until the target has it, in order.
_DATA: dict[str, object] = {**FIXED, "enable.gapless.guarantee": True, "message.timeout.ms": 0}
# How long a producer that failed may take to report what becomes of its records.
_LAST_WORDS_SECONDS = 5.0
_NOT_FOR_DATA = ("transaction.timeout.ms", "message.timeout.ms")


class AtLeastOnceSink:
    """Data producer and control transactions.

    The data producer is kept over `reopen`: records that it still holds would otherwise overtake their own copies.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The slot's id, for the control transactions.
        report_each: Whether every record reports its target offset.
        data: A data producer to go on with.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        transactional_id: str,
        report_each: bool,
        data: DataProducer,
        timeout: float = 30.0,
    ) -> None:
        self._control = TransactionalSink(properties, transactional_id, report_each, timeout)
        self._data = data
        self._report_each = report_each
        self._timeout = timeout
        self._pending: list[PendingDelivery] = []
        self._begun = False

    def open(self) -> None:
        self._control.open()
        self._data.drain(self._timeout)

    def begin(self) -> None:
        """Nothing yet: the control transaction begins with its first record, so it stays short."""

    def write(self, chunk: Chunk) -> Sent:
        pending = PendingDelivery(chunk, self._report_each)
        self._pending.append(pending)
        try:
            self._data.produce(chunk, pending, self._timeout)
        except Restart:
            raise_errors(self._pending)
            raise
        return pending.sent

    def settle(self) -> Sequence[Delivery]:
        pending, self._pending = self._pending, []
        try:
            self._data.drain(self._timeout)
        except Restart:
            raise_errors(pending)
            raise
        return results(pending)

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        if not self._begun:
            self._control.begin()
            self._begun = True
        self._control.write_control(topic, partition, key, value)

    def commit(self) -> None:
        if self._begun:
            self._control.commit()
            self._begun = False

    def close(self) -> None:
        self._control.close()


class DataProducer:
    """The idempotent producer of a slot, made anew only after a fatal error.

    Args:
        properties: The user's producer settings, librdkafka names.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = {k: v for k, v in properties.items() if k not in _NOT_FOR_DATA}
        self._producer = self._new()

    def produce(self, chunk: Chunk, pending: PendingDelivery, timeout: float) -> None:
        """Queues a chunk.

        Raises:
            Restart: The queue stayed full for `timeout` seconds, or the producer failed; what is queued stays queued.
        """
        with self._replaced_if_fatal():
            call(f"producing to {chunk.target_topic}", produce_chunk, self._producer, chunk, pending, timeout)

    def drain(self, timeout: float) -> None:
        """Waits until nothing is queued.

        Raises:
            Restart: The target does not take them in time; they stay queued.
        """
        with self._replaced_if_fatal():
            flush(self._producer, timeout)

    def discard(self) -> None:
        """Gives up what is queued and not yet on its way."""
        with suppress(KafkaException, SystemError):
            self._producer.purge(in_flight=False)

    def close(self, timeout: float) -> None:
        """Gives what is queued a last chance."""
        with suppress(KafkaException, SystemError):
            self._producer.flush(timeout)

    @contextmanager
    def _replaced_if_fatal(self) -> Iterator[None]:
        """What a producer held when it failed for good is given up, and its fate heard, before a new one starts."""
        try:
            yield
        except Fatal:
            deadline = Deadline(_LAST_WORDS_SECONDS)
            while not deadline.expired():
                with suppress(KafkaException, SystemError):  # it says again that it has failed
                    self._producer.purge()
                    if not self._producer.flush(0.5):
                        break
            self._producer = self._new()
            raise

    def _new(self) -> Producer:
        return clients.producer({**PREFERRED, **self._properties}, _DATA)
