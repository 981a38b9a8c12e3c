"""A cluster of one broker, as a model: topics, logs and transactional ids. No sockets, no threads, no time."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kio.records.readers import read_batch

from k2k_assets_tests.support.model_broker.coordinator import (
    ABORTABLE,
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    ModelCoordinator,
    Partition,
    Producer,
)
from k2k_assets_tests.support.model_broker.log import NOTHING, STALE_EPOCH, ModelLog, header_of

UNKNOWN_TOPIC, NOT_ENOUGH_REPLICAS, UNKNOWN_TOPIC_ID = 3, 19, 100
JOINING_PRODUCE = 12
"""The version of Produce by which a partition joins the transaction."""
_TELLS_ABORTABLE = 11


class ModelCluster:
    """A cluster.

    Args:
        topics: Number of partitions of each topic.
        first_epoch: Of a new transactional id.

    Attributes:
        ids: Topic ids by name.
        logs: By topic and partition.
        coordinator: Its transactional ids.
    """

    def __init__(self, topics: Mapping[str, int], first_epoch: int = 0) -> None:
        self.ids = {name: uuid.UUID(int=number) for number, name in enumerate(topics, 1)}
        self.logs: dict[Partition, ModelLog] = {
            (topic, index): ModelLog() for topic, partitions in topics.items() for index in range(partitions)
        }
        self.coordinator = ModelCoordinator(self._mark, first_epoch)

    def produce(self, version: int, name: str, partition: Partition, content: bytes) -> tuple[int, int]:
        """Appends a batch of a transaction, or of a producer without one.

        Args:
            version: Of the request.
            name: The transactional id.
            partition: Where it goes.
            content: The batch.

        Returns:
            Error code and base offset.
        """
        log = self.logs.get(partition)
        if log is None:
            return (UNKNOWN_TOPIC_ID if version > JOINING_PRODUCE else UNKNOWN_TOPIC), NOTHING
        header = header_of(content)
        if header.is_transactional and log.is_stale(header.producer_id, header.epoch):
            return STALE_EPOCH, NOTHING
        if header.is_transactional and not log.has_open(header.producer_id, header.epoch):
            producer = Producer(header.producer_id, header.epoch)
            log.begin_verification(header, joins=version >= JOINING_PRODUCE)
            if version >= JOINING_PRODUCE:
                error = self.coordinator.join(name, producer, [partition])
            else:
                error = self.coordinator.verify(name, producer, partition)
            if error:
                return _told(error, version), NOTHING
        return log.append(content)

    def values(self, partition: Partition) -> list[bytes | None]:
        """The values of the committed records, which are not compressed."""
        found: list[bytes | None] = []
        for entry in self.logs[partition].committed():
            batch, _ = read_batch(entry.content, 0)
            found += [record.value for record in batch.records]
        return found

    def written(self, partition: Partition) -> list[bytes]:
        """The values of all records, also of those that are not committed; in order."""
        found: list[bytes] = []
        for entry in self.logs[partition].entries:
            if entry.commits is None:
                batch, _ = read_batch(entry.content, 0)
                found += [record.value or b"" for record in batch.records]
        return found

    def has_open_transactions(self) -> bool:
        """Whether readers of committed records wait somewhere."""
        return any(log.stable < log.end for log in self.logs.values())

    def _mark(self, partition: Partition, producer_id: int, epoch: int, commits: bool) -> None:
        self.logs[partition].mark(producer_id, epoch, commits)


def _told(error: int, version: int) -> int:
    """An error of the coordinator as it is told to who writes."""
    if error == FENCED:
        return STALE_EPOCH
    if error == ABORTABLE:
        return ABORTABLE if version >= _TELLS_ABORTABLE else INVALID_STATE
    if error == CONCURRENT and version < JOINING_PRODUCE:
        return NOT_ENOUGH_REPLICAS
    return error
