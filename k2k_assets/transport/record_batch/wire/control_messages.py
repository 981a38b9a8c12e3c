"""The requests beside Fetch, and their answers: versions, metadata, log ends, login. As far as they are used here."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS, Reader, array, data, old_text, text

API_VERSIONS, METADATA, LIST_OFFSETS, FETCH, PRODUCE = 18, 3, 2, 1, 0
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 10, 22, 24, 26

NAMES = {
    API_VERSIONS: "ApiVersions",
    METADATA: "Metadata",
    LIST_OFFSETS: "ListOffsets",
    FETCH: "Fetch",
    PRODUCE: "Produce",
    SASL_HANDSHAKE: "SaslHandshake",
    SASL_AUTHENTICATE: "SaslAuthenticate",
    FIND_COORDINATOR: "FindCoordinator",
    INIT_PRODUCER_ID: "InitProducerId",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    END_TXN: "EndTxn",
}
"""Kafka's names of them."""

ASKED_VERSIONS = {API_VERSIONS: 3, METADATA: 12, LIST_OFFSETS: 6, SASL_HANDSHAKE: 1, SASL_AUTHENTICATE: 2}
"""The one version that is spoken here of each request that any connection may need; others have several."""

EARLIEST, LATEST = -2, -1
"""For `list_offsets`."""

_NO_ID = bytes(16)
_UNSUPPORTED_VERSION = 35
_FINALIZED_FEATURES = 2
_OF_TRANSACTIONS = "transaction.version"


class VersionRange(NamedTuple):
    """The versions of an API that a broker speaks."""

    oldest: int
    newest: int


def api_versions() -> bytes:
    """Asks which versions the broker speaks."""
    return text("k2k-assets") + text("1") + NO_TAGS


@dataclass(frozen=True, slots=True)
class SpokenVersions:
    """What a broker speaks.

    Attributes:
        error: Error code.
        by_api: Versions by API.
        of_transactions: Level of the cluster's feature `transaction.version`: 2 where each transaction has an epoch of
            its own (KIP-890).
    """

    error: int = 0
    by_api: dict[int, VersionRange] = field(default_factory=dict)
    of_transactions: int = 0


def read_api_versions(answer: memoryview) -> SpokenVersions:
    """Reads the answer to `api_versions`."""
    reader = Reader(answer)
    error = reader.int16()
    if error == _UNSUPPORTED_VERSION:
        return SpokenVersions(error)  # it is in the oldest format then

    def version() -> tuple[int, VersionRange]:
        found = reader.int16(), VersionRange(reader.int16(), reader.int16())
        reader.tags()
        return found

    by_api = dict(reader.array(version))
    reader.int32()  # throttle time
    features = _features(reader.tags().get(_FINALIZED_FEATURES))
    return SpokenVersions(error, by_api, features.get(_OF_TRANSACTIONS, 0))


def _features(tag: memoryview | None) -> dict[str, int]:
    """The level of each feature that the whole cluster has."""
    if tag is None:
        return {}
    reader = Reader(tag)

    def feature() -> tuple[str, int]:
        found = reader.text() or "", reader.int16()
        reader.int16()  # lowest level
        reader.tags()
        return found

    return dict(reader.array(feature))


@dataclass(frozen=True, slots=True)
class LeaderOf:
    """Who leads a partition.

    Attributes:
        error: Error code of the partition.
        node: The leader's node id; -1 for none.
        epoch: The leader epoch.
    """

    error: int
    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as brokers tell of it.

    Attributes:
        error: Error code of the topic.
        topic_id: Its id, 16 bytes; None if it has none.
        partitions: Who leads each partition.
    """

    error: int
    topic_id: bytes | None
    partitions: dict[int, LeaderOf]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The brokers by node id, with host and port, and the topics that were asked for."""

    brokers: dict[int, tuple[str, int]]
    topics: dict[str, TopicMetadata]


def metadata(topics: Iterable[str]) -> bytes:
    """Asks who leads the partitions of topics; none is created by that."""
    named = [_NO_ID + text(name) + NO_TAGS for name in topics]
    may_create, with_operations = b"\0", b"\0"
    return array(named) + may_create + with_operations + NO_TAGS


def read_metadata(answer: memoryview) -> Metadata:
    """Reads the answer to `metadata`."""
    reader = Reader(answer)
    reader.int32()  # throttle time

    def broker() -> tuple[int, tuple[str, int]]:
        node, host, port = reader.int32(), reader.text(), reader.int32()
        reader.text()  # rack
        reader.tags()
        return node, (host or "", port)

    def partition() -> tuple[int, LeaderOf]:
        error, index = reader.int16(), reader.int32()
        leader = LeaderOf(error, reader.int32(), reader.int32())
        for _ in range(3):
            reader.skip_array(4)  # replicas, those in sync, those offline
        reader.tags()
        return index, leader

    def topic() -> tuple[str, TopicMetadata]:
        error, name, topic_id = reader.int16(), reader.text(), reader.uuid()
        reader.int8()  # internal
        partitions = dict(reader.array(partition))
        reader.int32()  # operations
        reader.tags()
        return name or "", TopicMetadata(error, None if topic_id == _NO_ID else topic_id, partitions)

    brokers = dict(reader.array(broker))
    reader.text()  # cluster id
    reader.int32()  # controller
    return Metadata(brokers, dict(reader.array(topic)))


def list_offsets(tp: TopicPartition, when: int) -> bytes:
    """Asks where a partition's log begins or ends, uncommitted records included.

    Args:
        tp: The partition.
        when: `EARLIEST` or `LATEST`.
    """
    no_replica, uncommitted, any_epoch = -1, 0, -1
    partition = struct.pack(">iiq", tp.partition, any_epoch, when) + NO_TAGS
    topic = text(tp.topic) + array([partition]) + NO_TAGS
    return struct.pack(">ib", no_replica, uncommitted) + array([topic]) + NO_TAGS


def read_list_offsets(answer: memoryview) -> tuple[int, int]:
    """Error code and offset of the first partition."""
    reader = Reader(answer)
    reader.int32()  # throttle time

    def partition(_topic: str | bytes) -> tuple[int, int]:
        reader.int32()  # index
        error = reader.int16()
        reader.int64()  # timestamp
        offset = reader.int64()
        reader.int32()  # leader epoch
        reader.tags()
        return error, offset

    found = reader.of_partitions(False, partition)
    return found[0] if found else (-1, -1)


def sasl_handshake(mechanism: str) -> bytes:
    """Asks to sign in by a mechanism."""
    return old_text(mechanism)


def read_sasl_handshake(answer: memoryview) -> tuple[int, Collection[str]]:
    """Error code, and the mechanisms that the broker takes."""
    reader = Reader(answer)
    return reader.int16(), [name or "" for name in reader.old_array(reader.old_text)]


def sasl_authenticate(token: bytes) -> bytes:
    """One step of the mechanism."""
    return data(token) + NO_TAGS


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The broker's step of the mechanism.

    Attributes:
        error: Error code.
        words: What the broker says about it.
        token: Its step.
        lifetime: Seconds after which it wants to be shown credentials again; 0: never.
    """

    error: int
    words: str
    token: bytes
    lifetime: float


def read_sasl_authenticate(answer: memoryview) -> Authenticated:
    """Reads the answer to `sasl_authenticate`."""
    reader = Reader(answer)
    error, words, token = reader.int16(), reader.text(), reader.data()
    return Authenticated(error, words or "", bytes(token or b""), reader.int64() / 1000)
