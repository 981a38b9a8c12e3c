"""Writes control records to the target through one transactional librdkafka producer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.words import plural
from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Forbidden, Restart
from k2k_assets.transport.interface import SINK_SECONDS
from k2k_assets.transport.librdkafka.deliveries import FULL_QUEUE_WAIT
from k2k_assets.transport.librdkafka.producers import RETRY_BACKOFF_MS, flush, transactional_producer
from k2k_assets.transport.producer_calls import call, claim

AMBIGUOUS_AFTER_SECONDS = 0.8 * RETRY_BACKOFF_MS / 1000
"""If a commit takes longer, librdkafka may have sent it twice (see `producers.py`)."""


class TransactionalWriter:
    """Writes control records in transactions, and commits them without ambiguity.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The id of the transactions.
        timeout: Seconds that any step may take.
    """

    def __init__(self, properties: Mapping[str, Any], transactional_id: str, timeout: float = SINK_SECONDS) -> None:
        self._producer = transactional_producer(properties, transactional_id)
        self._timeout = timeout
        self._open = False

    def open(self) -> None:
        claim(self._producer, self._timeout, "claiming the transactional id")

    def begin(self) -> None:
        call("beginning a transaction", self._producer.begin_transaction)
        self._open = True

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        deadline = Deadline(self._timeout)
        while True:
            try:
                call(f"producing to {topic}", self._producer.produce, topic, value, key, partition)
                return
            except BufferError:  # the queue may be full of records that are being sent
                if deadline.expired():
                    queued = plural(len(self._producer), "record")
                    raise Restart(f"the target did not take one of {queued} in time") from None
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

    def _failure(self) -> KafkaError | None:
        """The error for which the open transaction can only be aborted; None if there is none.

        librdkafka tells it when a second transaction is begun inside the open one, which has no other effect.
        """
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


def ensure_unambiguous(seconds: float) -> None:
    """Refuses a commit that may have been sent twice.

    Raises:
        Restart: The commit took longer than `AMBIGUOUS_AFTER_SECONDS`.
    """
    if seconds > AMBIGUOUS_AFTER_SECONDS:
        raise Restart(f"the commit took {seconds:.2f} s and may have been sent twice: reading what the target holds")
