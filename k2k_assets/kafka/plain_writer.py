"""Writes records that stand in no transaction, such as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.kafka import clients
from k2k_assets.kafka.connection import Role


class PlainWriter:
    """Writes to one topic. After an error the same writer can be used again.

    Args:
        role: Names the cluster in errors.
        properties: Client settings of a producer, librdkafka names.
        topic: The topic.
    """

    def __init__(self, role: Role, properties: Mapping[str, object], topic: str) -> None:
        self._role = role
        self._properties = properties
        self._topic = topic
        self._producer: Producer | None = None

    def write(self, records: Iterable[tuple[bytes, bytes]], deadline: Deadline) -> None:
        """Writes records, key and value each, and waits until all are there.

        Raises:
            ClusterUnreachable: The cluster did not answer in time.
            NotAllowed: The principal may not write to the topic.
            Refused: The cluster refuses a record.
        """
        errors: list[KafkaError] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        producer = self._producer = self._producer or clients.producer(self._properties)
        try:
            for key, value in records:
                producer.produce(self._topic, value, key, on_delivery=told)
                producer.poll(0)
        except (BufferError, KafkaException) as raised:
            errors.append(clients.error_of(raised) if isinstance(raised, KafkaException) else _FULL)
        if producer.flush(deadline.remaining()):
            producer.purge()
            producer.flush(0)
            raise self._unreachable("no answer in time")
        if errors:
            raise self._translated(errors[0])

    def close(self) -> None:
        """Closes the client; what it has not written yet is lost."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _translated(self, error: KafkaError) -> Exception:
        if clients.is_unreachable(error):
            return self._unreachable(error.str())
        return clients.refused(f"writing to '{self._topic}' on the {self._role} cluster failed", error)

    def _unreachable(self, why: str) -> ClusterUnreachable:
        return clients.unreachable(self._role, self._properties, f"writing to '{self._topic}': {why}")


_FULL = KafkaError(KafkaError._QUEUE_FULL)
