"""Makes librdkafka producers with the project's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.words import plural
from k2k_assets.kafka import clients
from k2k_assets.pipeline.clients.client_properties import transaction_timeout_ms
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.producer_calls import call

# librdkafka resends an unanswered EndTxn no earlier than 0.8 x retry.backoff.ms after the first, and then reports
# success; a stray copy could end the *next* transaction of the same epoch. So a commit that took longer than that
# counts as ambiguous. One second is several round trips of any network that is fit for replication.
RETRY_BACKOFF_MS = 1000

# Our defaults; the user's settings win.
PREFERRED: dict[str, object] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "partitioner": "murmur2_random",
    "socket.nagle.disable": True,
}

# Our settings; they win. With `message.max.bytes` at its maximum the target decides what is too large, not the client.
FIXED: dict[str, object] = {"message.max.bytes": 1_000_000_000, "enable.idempotence": True, "acks": "all"}


def transactional_producer(properties: Mapping[str, Any], transactional_id: str) -> Producer:
    """Makes a transactional producer with the project's settings.

    Args:
        properties: The user's producer settings, librdkafka names.
        transactional_id: The transactional id.
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


def flush(producer: Producer, timeout: float, look: Callable[[], None] | None = None) -> None:
    """Waits until the producer's queue is empty.

    Args:
        producer: The producer.
        timeout: Longest wait in seconds.
        look: Called twice a second meanwhile; may raise.

    Raises:
        Restart: Records are still queued after `timeout` seconds, or the producer failed.
    """
    deadline = Deadline(timeout)
    while call("delivering", producer.flush, min(0.5, deadline.remaining())):
        if look:
            look()
        if deadline.expired():
            raise Restart(f"the target did not take {plural(len(producer), 'record')} within {timeout:g} s")
