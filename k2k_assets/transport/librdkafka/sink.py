"""Writes to the target through one transactional librdkafka producer: data and control records in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import NotAllowed, Refused
from k2k_assets.kafka import clients
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Fatal, Fenced, Forbidden, Restart, Undeliverable
from k2k_assets.transport.interface import SINK_SECONDS, Delivery
from k2k_assets.transport.librdkafka.deliveries import (
    FULL_QUEUE_WAIT,
    PendingDelivery,
    produce_chunk,
    raise_errors,
    results,
)

_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_FORBIDDEN = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}

# librdkafka resends an unanswered EndTxn no earlier than 0.8 x retry.backoff.ms after the first, and then reports
# success; a stray copy could end the *next* transaction of the same epoch. So a commit that took longer than that
# counts as ambiguous. One second is several round trips of any network that is fit for replication.
RETRY_BACKOFF_MS = 1000
AMBIGUOUS_AFTER_SECONDS = 0.8 * RETRY_BACKOFF_MS / 1000

# What the engine prefers, where the user says nothing.
PREFERRED: dict[str, object] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "partitioner": "murmur2_random",
    "socket.nagle.disable": True,
}

# The client refuses by its own limit what the target would take: the target decides what is too large.
FIXED: dict[str, object] = {"message.max.bytes": 1_000_000_000, "enable.idempotence": True, "acks": "all"}

DEFAULT_TRANSACTION_TIMEOUT_MS = 15_000


def transactional_producer(properties: Mapping[str, Any], transactional_id: str) -> Producer:
    """A producer with a transactional id and the project's settings.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: Its id.
    """
    timeout = transaction_timeout_ms(properties)
    settings = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout,
        "message.timeout.ms": timeout,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MS,
    }
    return clients.producer({**PREFERRED, **properties}, {**FIXED, **settings})


class TimeoutTooLong(Refused):
    """The target's brokers take no transaction time-out as long as this producer's."""


def call(step: str, function: Callable[..., Any], *args: object) -> Any:
    """Calls the producer and turns what it raises into the loop's terms.

    Raises:
        Fenced: A later holder of the id exists.
        Forbidden: The principal may not write to a topic.
        TimeoutTooLong: The brokers do not take the transaction time-out.
        NotAllowed: The principal may not do it at all.
        Fatal: The producer can do nothing any more.
        Restart: Anything else: nothing in memory can be trusted.
    """
    try:
        return function(*args)
    except (KafkaException, SystemError) as raised:
        # A fatal error that shows while a delivery is being reported comes out wrapped in a SystemError.
        exception = raised if isinstance(raised, KafkaException) else raised.__cause__
        if not isinstance(exception, KafkaException):
            raise
        error = clients.error_of(exception)
        if error.code() in _FENCED:
            raise Fenced(f"{step}: {error.str()}") from None
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise TimeoutTooLong(timeout_too_long(None, None)) from None
        not_allowed = f"target cluster: {step} is not allowed: {error.str()}{clients.advice(error)}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise Forbidden(not_allowed) from None
        if error.code() in _FORBIDDEN:
            raise NotAllowed(not_allowed) from None
        raise (Fatal if error.fatal() else Restart)(f"{step}: {error.str()} ({error.name()})") from None


def transaction_timeout_ms(properties: Mapping[str, Any]) -> int:
    """The producer's transaction time-out.

    Args:
        properties: The user's producer settings, librdkafka names.
    """
    return int(properties.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))


def timeout_too_long(found: int | None, most: int | None) -> str:
    """What to say of a transaction time-out that the target does not take.

    Args:
        found: Milliseconds; None if that is not known here.
        most: What the target takes, milliseconds; None if it does not say.
    """
    value = "" if found is None else f" is {found}, which"
    limit = "its transaction.max.timeout.ms" if most is None else f"{most} (its transaction.max.timeout.ms)"
    return (
        f"target.kafka.producer.'transaction.timeout.ms'{value} is longer than the target cluster allows: at most "
        f"{limit}. Set it to that or less, or raise the brokers' setting"
    )


def claim(producer: Producer, timeout: float, what: str) -> None:
    """Claims the producer's transactional id: its former holder is fenced, what that left open is aborted.

    Raises:
        NotAllowed: The principal may not do it.
        Restart: The target did not answer in time.
    """
    call(what, clients.know_cluster, producer, timeout)
    call(what, producer.init_transactions, timeout)


class TransactionalSink:
    """The exactly-once sink.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The slot's id.
        report_each: Whether every record reports its target offset.
        timeout: Seconds that any step may take.
    """

    def __init__(
        self, properties: Mapping[str, Any], transactional_id: str, report_each: bool, timeout: float = SINK_SECONDS
    ) -> None:
        self._producer = transactional_producer(properties, transactional_id)
        self._report_each = report_each
        self._timeout = timeout
        self._pending: list[PendingDelivery] = []
        self._open = False

    def open(self) -> None:
        claim(self._producer, self._timeout, "claiming the transactional id")

    def begin(self) -> None:
        call("beginning a transaction", self._producer.begin_transaction)
        self._open = True

    def write(self, chunk: Chunk) -> Sent:
        pending = PendingDelivery(chunk, self._report_each)
        self._pending.append(pending)
        try:
            call(f"producing to {chunk.target_topic}", produce_chunk, self._producer, chunk, pending, self._timeout)
        except Restart:
            self._ensure_accepted(self._pending)
            raise
        return pending.sent

    def settle(self) -> Sequence[Delivery]:
        pending, self._pending = self._pending, []
        flush(self._producer, self._timeout, lambda: self._ensure_accepted(pending))
        try:
            return results(pending)
        except Undeliverable as refused:
            if not refused.final:
                self._ensure_allowed(self._failure())
            raise

    def _ensure_accepted(self, pending: Sequence[PendingDelivery]) -> None:
        """Finds out early that the target refused a record: those queued behind it would wait for their time-out.

        Raises:
            Undeliverable: It did.
            Forbidden: Because a topic may not be written.
        """
        error = self._failure()
        if error is not None and pending:
            self._ensure_allowed(error)
            self._producer.poll(0)
            raise_errors(pending)
            raise Undeliverable(pending[0].sent, None, 0, error.str(), final=False)

    def _failure(self) -> KafkaError | None:
        """Why the open transaction can only be aborted; it shows when one is begun inside it, which does no more."""
        try:
            self._producer.begin_transaction()
        except KafkaException as exception:
            error = clients.error_of(exception)
            return error if error.txn_requires_abort() else None
        return None

    @staticmethod
    def _ensure_allowed(failure: KafkaError | None) -> None:
        if failure is not None and failure.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise Forbidden(failure.str())

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        deadline = Deadline(self._timeout)
        while True:
            try:
                call(f"producing to {topic}", self._producer.produce, topic, value, key, partition)
                return
            except BufferError:  # the queue may be full of records, which are on their way
                if deadline.expired():
                    raise Restart(f"the target did not take one of {len(self._producer)} records in time") from None
                call("delivering", self._producer.poll, FULL_QUEUE_WAIT)

    def commit(self) -> None:
        flush(self._producer, self._timeout)
        started = time.monotonic()
        try:
            call("committing", self._producer.commit_transaction, self._timeout)
        except Restart:
            self._ensure_allowed(self._failure())
            raise
        self._open = False
        ensure_unambiguous(time.monotonic() - started)

    def close(self) -> None:
        if self._open:
            with suppress(KafkaException, SystemError):
                self._producer.abort_transaction(2)


def flush(producer: Producer, timeout: float, look: Callable[[], None] | None = None) -> None:
    """Waits until nothing is queued any more.

    Args:
        producer: Whose queue.
        timeout: Seconds.
        look: Called twice a second meanwhile; may raise.

    Raises:
        Restart: Something still is after `timeout` seconds, or the producer failed.
    """
    deadline = Deadline(timeout)
    while call("delivering", producer.flush, min(0.5, deadline.remaining())):
        if look:
            look()
        if deadline.expired():
            raise Restart(f"the target did not take {len(producer)} records within {timeout:g} s")


def ensure_unambiguous(seconds: float) -> None:
    """Refuses to build on a commit that may have been sent twice.

    Raises:
        Restart: It took that long.
    """
    if seconds > AMBIGUOUS_AFTER_SECONDS:
        raise Restart(f"the commit took {seconds:.2f} s and may have been sent twice: reading what the target holds")
