"""Producers of librdkafka with the project's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.kafka import clients
from k2k_assets.pipeline.client_properties import transaction_timeout_ms
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.producer_calls import call

# librdkafka resends an unanswered EndTxn no earlier than 0.8 x retry.backoff.ms after the first, and then reports
# success; a stray copy could end the *next* transaction of the same epoch. So a commit that took longer than that
# counts as ambiguous. One second is several round trips of any network that is fit for replication.
RETRY_BACKOFF_MS = 1000

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
