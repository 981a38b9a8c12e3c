"""Writes sample records to a cluster: plainly, or in transactions that are committed or aborted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from k2k_assets.core.errors import K2KError
from k2k_assets.core.words import plural
from k2k_assets.kafka import clients

_SECONDS = 30.0
Cluster = str | Mapping[str, object]
"""A cluster's bootstrap address, or client properties with the address and more."""


def properties_of(cluster: Cluster) -> dict[str, object]:
    """Client properties, librdkafka's names."""
    return {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)


class SampleRecord(NamedTuple):
    """A record to write; `timestamp` in milliseconds, None is now; `partition` None: by key, as Java does."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]] | None = None
    timestamp: int | None = None
    partition: int | None = None


class TrafficWriter:
    """Two producers, one of them transactional.

    Args:
        cluster: Its bootstrap address, or client properties.
        transactional_id: Of the transactional one; a second writer with the same id fences the first.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        settings: dict[str, object] = {
            **properties_of(cluster),
            "partitioner": "murmur2_random",
            "linger.ms": 2,
            "compression.type": "lz4",
            "reconnect.backoff.ms": 10,
            "message.timeout.ms": int(_SECONDS * 1000),
        }
        self._plain = clients.producer(settings)
        self._transactional = clients.producer(settings, {"transactional.id": transactional_id})
        # With metadata at hand the next call takes 20 ms, without it may take half a second.
        self._transactional.list_topics(timeout=_SECONDS)
        self._transactional.init_transactions(_SECONDS)

    def plain(self, topic: str, records: Iterable[SampleRecord]) -> int:
        """Writes records and returns how many, once all are acknowledged."""
        return _send(self._plain, topic, records)

    def transaction(self, topic: str, records: Iterable[SampleRecord], abort: bool = False) -> int:
        """Writes records in one transaction, and returns how many of them a reader of committed data sees."""
        self._transactional.begin_transaction()
        count = _send(self._transactional, topic, records)
        if abort:
            self._transactional.abort_transaction(_SECONDS)
            return 0
        self._transactional.commit_transaction(_SECONDS)
        return count


def _send(producer: Producer, topic: str, records: Iterable[SampleRecord]) -> int:
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    count = 0
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            -1 if record.partition is None else record.partition,
            on_delivery=delivered,
            timestamp=record.timestamp or 0,
            headers=record.headers,
        )
        count += 1
    left = producer.flush(_SECONDS)
    if failed:
        raise KafkaException(failed[0])
    if left:
        raise K2KError(f"No acknowledgement of {plural(left, 'sample record')} for {topic} within {_SECONDS:g} s.")
    return count
