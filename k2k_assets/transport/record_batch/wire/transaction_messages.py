"""The requests of a transaction beside Produce, and their answers. As far as they are used here.

The coordinator of a transactional id answers all of them but the first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS, Reader, array, optional_text, text

FIND_COORDINATOR_VERSION = 4
"""The version that is spoken here."""
INIT_PRODUCER_ID_VERSIONS = (4, 5)
"""The oldest and the newest one that are spoken here."""
ADD_PARTITIONS_VERSION = 3
"""The newest one of clients; brokers speak the later ones among each other."""
END_TXN_VERSIONS = (3, 4)
"""Those that leave the epoch as it is."""
EPOCH_EACH = 5
"""The version of EndTxn by which each transaction has an epoch of its own (KIP-890)."""

_TRANSACTIONS = 1
_ID_AND_EPOCH = struct.Struct(">qh")
_NO_PRODUCER = _ID_AND_EPOCH.pack(-1, -1)


def find_coordinator(transactional_id: str) -> bytes:
    """Asks which broker coordinates a transactional id."""
    return struct.pack(">b", _TRANSACTIONS) + array([text(transactional_id)]) + NO_TAGS


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """A coordinator.

    Attributes:
        error: Error code.
        words: What the broker says about the error; may be empty.
        node: Its node id.
        address: Its host and port.
    """

    error: int
    words: str
    node: int
    address: tuple[str, int]


def read_find_coordinator(answer: memoryview) -> FoundCoordinator | None:
    """Reads the answer to `find_coordinator`; None if it says nothing."""
    reader = Reader(answer)
    reader.int32()  # throttle time

    def coordinator() -> FoundCoordinator:
        reader.text()  # key
        node, host, port = reader.int32(), reader.text() or "", reader.int32()
        found = FoundCoordinator(reader.int16(), reader.text() or "", node, (host, port))
        reader.tags()
        return found

    found = reader.array(coordinator)
    return found[0] if found else None


def init_producer_id(transactional_id: str | None, timeout_ms: int) -> bytes:
    """Asks for a producer id: this fences who has one, and aborts that one's open transaction.

    Args:
        transactional_id: The id; None: a new producer id, which fences nobody.
        timeout_ms: After so long the broker aborts a transaction.
    """
    return optional_text(transactional_id) + struct.pack(">i", timeout_ms) + _NO_PRODUCER + NO_TAGS


def read_init_producer_id(answer: memoryview) -> tuple[int, ProducerIdentity]:
    """Error code and identity."""
    reader = Reader(answer)
    reader.int32()  # throttle time
    return reader.int16(), ProducerIdentity(reader.int64(), reader.int16())


def add_partitions(transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]) -> bytes:
    """Adds partitions to the transaction; the first ones begin it."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [
        text(topic) + array([struct.pack(">i", index) for index in indexes]) + NO_TAGS
        for topic, indexes in by_topic.items()
    ]
    return text(transactional_id) + _ID_AND_EPOCH.pack(*producer) + array(topics) + NO_TAGS


def read_add_partitions(answer: memoryview) -> dict[TopicPartition, int]:
    """Error code of each partition."""
    reader = Reader(answer)
    reader.int32()  # throttle time

    def partition(topic: str | bytes) -> tuple[TopicPartition, int]:
        assert isinstance(topic, str)
        found = TopicPartition(topic, reader.int32()), reader.int16()
        reader.tags()
        return found

    return dict(reader.of_partitions(False, partition))


def end_txn(transactional_id: str, producer: ProducerIdentity, commits: bool) -> bytes:
    """Ends the transaction.

    Args:
        transactional_id: The id.
        producer: Whose transaction it is.
        commits: Whether it is committed, or aborted.
    """
    return text(transactional_id) + _ID_AND_EPOCH.pack(*producer) + struct.pack(">?", commits) + NO_TAGS


def read_end_txn(version: int, answer: memoryview) -> tuple[int, ProducerIdentity | None]:
    """Error code, and the identity of the next transaction; None where the version does not tell it."""
    reader = Reader(answer)
    reader.int32()  # throttle time
    error = reader.int16()
    if version < EPOCH_EACH:
        return error, None
    return error, ProducerIdentity(reader.int64(), reader.int16())
