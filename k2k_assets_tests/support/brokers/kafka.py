"""Helpers for a real cluster: create topics, write records (in transactions too), read them all back.

Every call has a deadline. Nothing here uses the project's own Kafka code, which is what is being tested.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import Message as WrittenMessage
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionMetadata,
    ResourceType,
)

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.kafka.messages import Consumer, Message

SECONDS = 30.0
PATIENCE = 4 * SECONDS  # For what a broker does when it has time: a thousand partitions, markers, deleting.
# For requests that create or delete: how long the broker tries, and how long its answer is waited for.
_CHANGES = {"operation_timeout": PATIENCE, "request_timeout": PATIENCE}
# Without them, and without asking for metadata first, librdkafka waits 0.5 s for its next look at the cluster.
_QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "log_level": 0}
# What an admin client may hear about a topic that is new, or whose broker has just come back.
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
Isolation = Literal["read_committed", "read_uncommitted"]
Headers = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """A record to write. `timestamp` in milliseconds, None is now; `partition` None: by key, as Java does."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None
    partition: int | None = None


class ReadRecord(NamedTuple):
    """A record that was read; `timestamp` in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers, int]:
        """What must be the same on both clusters: key, value, headers and timestamp."""
        return self.key, self.value, self.headers, self.timestamp


# Two digits identify the process that made a name, among those that share a broker; its children inherit them.
_WORKER = f"{int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')):02x}"


def unique(name: str) -> str:
    """A name that no other test uses: for topics, pipelines, groups and transactional ids."""
    return f"{name}-{_WORKER}{uuid.uuid4().hex[:8]}"


# Addresses of clusters that other processes use too.
_shared: set[str] = set()


def share(servers: str) -> None:
    """Lets this module know that other processes use the cluster at this address too."""
    _shared.add(servers)


def refusal(what: str) -> str:
    """What a test is told that would do something to a broker that others use too."""
    return (
        f"Other tests use the broker {what} at the same time: mark a test with own_clusters that stops, freezes, kills "
        "or changes one, or looks at all that it holds."
    )


_access: dict[str, dict[str, str]] = {}


def use(properties: Mapping[str, str]) -> None:
    """Lets all functions of this module connect to an address with these properties (TLS, credentials)."""
    _access[properties["bootstrap.servers"]] = dict(properties)


def _at(servers: str) -> dict[str, str]:
    return {**_access.get(servers, {"bootstrap.servers": servers})}


def client_settings(servers: str) -> dict[str, Any]:
    """Properties of a client of this address, for what connects by itself."""
    return {**_at(servers), **_QUICK}


_admins: dict[str, AdminClient] = {}
_disturbed: set[str] = set()


def admin(servers: str) -> AdminClient:
    """An admin client; one for each cluster, until it loses its broker.

    After that it may never find the controller again (librdkafka 2.16): topics could be made no more.
    """
    if servers in _admins:
        _admins[servers].poll(0)
    if servers not in _admins or servers in _disturbed:
        _disturbed.discard(servers)
        settings = {**client_settings(servers), "error_cb": lambda _: _disturbed.add(servers)}
        _admins[servers] = AdminClient(settings)
    return _admins[servers]


def renew_admin(servers: str) -> None:
    """Lets the next question go to a new admin client: this one does not answer."""
    _disturbed.add(servers)


def topics(servers: str) -> dict[str, int]:
    """Name and partition count of all topics, internal ones too."""
    return {name: len(topic.partitions) for name, topic in admin(servers).list_topics(timeout=SECONDS).topics.items()}


def create_topic(servers: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """Makes a topic, waits until every partition has a leader, and returns the name."""
    wanted = NewTopic(name, partitions, 1, config=dict(config or {}))
    _all(admin(servers).create_topics([wanted], **_CHANGES).values())
    _await_leaders(servers, name, partitions)
    return name


def create_placed_topic(
    servers: str, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
) -> str:
    """Makes a topic and returns the name; who leads it is for the caller to wait for.

    Args:
        servers: The cluster.
        name: Of the topic.
        replicas: The nodes of each partition, the first of them is to lead it.
        config: Of the topic.
    """
    wanted = NewTopic(
        name, len(replicas), replica_assignment=[list(nodes) for nodes in replicas], config={**(config or {})}
    )
    _all(admin(servers).create_topics([wanted], **_CHANGES).values())
    return name


def add_partitions(servers: str, name: str, partitions: int) -> None:
    """Raises a topic's partition count to `partitions`."""
    _all(admin(servers).create_partitions([NewPartitions(name, partitions)]).values())
    _await_leaders(servers, name, partitions)


def delete_topic(servers: str, name: str) -> None:
    """Deletes a topic and waits until it is no longer listed."""
    _all(admin(servers).delete_topics([name], **_CHANGES).values())
    wait_until(lambda: not _partitions(servers, name), PATIENCE, f"{name} to be gone from {servers}")


def delete_own_topics(servers: str) -> None:
    """Deletes every topic but Kafka's own, and on shared clusters but those of others; it does not wait until brokers
    have forgotten them."""
    # A new client, because an older one would first report a broker that went away.
    client = AdminClient({**_at(servers), **_QUICK})
    names = [name for name in client.list_topics(timeout=SECONDS).topics if name not in _INTERNAL]
    if servers in _shared:
        names = [name for name in names if re.search(f"-{_WORKER}[0-9a-f]{{8}}", name)]
    for deleted in client.delete_topics(names, **_CHANGES).values() if names else ():
        try:
            deleted.result(PATIENCE)
        except KafkaException as error:  # a broker under load lists a topic a while after its deletion
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    """Moves the log start of a partition to `before`."""
    _all(admin(servers).delete_records([TopicPartition(topic, partition, before)]).values())


def set_config(servers: str, topic: str, name: str, value: str) -> None:
    """Sets one config of a topic, and waits until its broker has heard of it from the controller."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    _all(admin(servers).incremental_alter_configs([resource]).values())

    def known() -> bool:
        with suppress(KafkaException, TimeoutError):
            (described,) = admin(servers).describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            return bool(described.result(SECONDS)[name].value == value)
        return False

    wait_until(known, PATIENCE, f"{name} of {topic} to be {value} on {servers}", interval=0.02)


def speed_up_compaction(servers: str) -> None:
    """Lets the brokers look for something to compact each tenth of a second, not each fifteen."""
    if servers in _shared:
        raise RuntimeError(refusal(servers))
    wanted = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    every_broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[wanted])
    _all(admin(servers).incremental_alter_configs([every_broker]).values())


def end_offsets(servers: str, topic: str, isolation: Isolation = "read_uncommitted") -> dict[int, int]:
    """High watermark of each partition, or with `read_committed` the last stable offset."""
    level = IsolationLevel[isolation.upper()]
    latest = {TopicPartition(topic, p): OffsetSpec.latest() for p in _partitions(servers, topic)}

    def ask() -> dict[int, int] | None:
        answers = admin(servers).list_offsets(latest, isolation_level=level, request_timeout=SECONDS)
        try:
            return {partition.partition: future.result(SECONDS).offset for partition, future in answers.items()}
        except KafkaException as error:
            if error.args[0].code() not in _PASSING:
                raise
            return None
        except TimeoutError:
            return None

    return wait_until(ask, PATIENCE, f"the end offsets of {topic} on {servers}") or {}


def producer(servers: str, transactional_id: str | None = None, resends: bool = True) -> Producer:
    """A producer for records of up to 20 MB; with an id it is ready to begin a transaction.

    Args:
        servers: The cluster.
        transactional_id: None for plain records.
        resends: Plain records may be written twice when a broker is lost; starting is quicker for it.
    """
    settings: dict[str, str | int] = {
        **_at(servers),
        "acks": "all",
        "linger.ms": 1,
        "batch.num.messages": 10,  # a transaction of a copy by whole batches holds no part of one
        "message.max.bytes": 20_000_000,
        "message.timeout.ms": int(SECONDS * 1000),
        "partitioner": "murmur2_random",
        "enable.idempotence": not resends or transactional_id is not None,
        **_QUICK,
    }
    if transactional_id is None:
        return Producer(settings)
    # A transaction may be kept open for as long as a test takes.
    transactional = Producer({**settings, "transactional.id": transactional_id, "transaction.timeout.ms": 600_000})
    transactional.list_topics(timeout=SECONDS)
    transactional.init_transactions(SECONDS)
    return transactional


def produce(
    servers: str,
    topic: str,
    records: Iterable[Record | tuple[bytes | None, bytes | None] | bytes],
    partition: int | None = None,
    transactional_id: str | None = None,
    abort: bool = False,
) -> list[tuple[int, int]]:
    """Writes records and waits for their acknowledgement.

    Args:
        servers: The cluster.
        topic: Must exist.
        records: A `Record`, or (key, value), or a value alone.
        partition: For the records that name none.
        transactional_id: Write them in one transaction of this id.
        abort: Abort the transaction instead of committing it (with an id of its own if none is given).

    Returns:
        Partition and offset of each record, in the order of `records`.
    """
    if abort and transactional_id is None:
        transactional_id = unique("aborting")
    if transactional_id is None:
        return send(producer(servers), topic, records, partition)
    transaction = OpenTransaction(servers, topic, records, partition, transactional_id)
    if abort:
        transaction.abort()
    else:
        transaction.commit()
    return transaction.written


def send(
    client: Producer,
    topic: str,
    records: Iterable[Record | tuple[bytes | None, bytes | None] | bytes],
    partition: int | None = None,
) -> list[tuple[int, int]]:
    """As `produce`, with a producer of the caller's: a transaction that it began stays open."""
    placed: dict[int, tuple[int, int]] = {}
    failed: list[KafkaError] = []
    count = 0
    for given in records:
        record = Record(value=given) if isinstance(given, bytes) else Record(*given)

        def delivered(error: KafkaError | None, message: WrittenMessage, index: int = count) -> None:
            if error is not None:
                failed.append(error)
            else:
                placed[index] = cast("tuple[int, int]", (message.partition(), message.offset()))

        _send_one(client, topic, record, partition, delivered)
        count += 1
    left = client.flush(SECONDS)
    if failed:
        raise KafkaException(failed[0])
    if left or len(placed) != count:
        raise TimeoutError(
            f"{count - len(placed)} of {count} records for {topic} were not acknowledged in {SECONDS:g} s"
        )
    return [placed[index] for index in range(count)]


class OpenTransaction:
    """A transaction with records in one topic, that is open until the caller ends it.

    Kafka acknowledges the end before its markers are in the log. Here it has ended once they are: offsets are what
    they will stay, and whoever reads what is committed reads it all.

    Args:
        servers: The cluster.
        topic: Must exist.
        records: As for `produce`.
        partition: For the records that name none.
        transactional_id: None for one of its own.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        records: Iterable[Record | tuple[bytes | None, bytes | None] | bytes],
        partition: int | None = 0,
        transactional_id: str | None = None,
    ) -> None:
        self._servers = servers
        self._topic = topic
        self._client = producer(servers, transactional_id or unique("open"))
        self._client.begin_transaction()
        self.written = send(self._client, topic, records, partition)

    def commit(self) -> None:
        """The records are there for all to read."""
        self._client.commit_transaction(SECONDS)
        await_markers(self._servers, self._topic, self.written)

    def abort(self) -> None:
        """The records are there for nobody who reads what is committed."""
        self._client.abort_transaction(SECONDS)
        await_markers(self._servers, self._topic, self.written)


def await_markers(servers: str, topic: str, written: Iterable[tuple[int, int]]) -> None:
    """Waits until the markers of an ended transaction are in the log, and of all that began before it.

    Args:
        servers: The cluster.
        topic: Of its records.
        written: Their partitions and offsets.
    """
    last: dict[int, int] = {}
    for partition, offset in written:
        last[partition] = max(offset, last.get(partition, offset))

    def there() -> bool:
        # Not the end of the log, because other writers' records and the marker may follow.
        stable = end_offsets(servers, topic, "read_committed")
        return all(stable[partition] > offset for partition, offset in last.items())

    wait_until(there, PATIENCE, f"the markers of a transaction in {topic} on {servers}", interval=0.005)


def read_ended(servers: str, topic: str) -> list[ReadRecord]:
    """All committed records once no transaction is open: a commit is answered before its markers are in the log."""
    wait_until(
        lambda: end_offsets(servers, topic, "read_committed") == end_offsets(servers, topic),
        PATIENCE,
        f"the markers of all transactions in {topic} on {servers}",
    )
    return read_all(servers, topic)


def read_all(
    servers: str,
    topic: str,
    partition: int | None = None,
    isolation: Isolation = "read_committed",
    timeout: float = SECONDS,
) -> list[ReadRecord]:
    """All records of a topic (or of one partition) from the log start to its end, by partition and offset.

    With `read_committed` the end is the last stable offset.
    """
    consumer = Consumer(
        {
            **_at(servers),
            "group.id": "k2k-tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 2,
            **_QUICK,
        }
    )
    deadline = Deadline(timeout)
    records: list[ReadRecord] = []
    try:
        known = consumer.list_topics(topic, timeout=timeout).topics[topic].partitions
        partitions = sorted(known) if partition is None else [partition]
        open_partitions = set(partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        while open_partitions:
            if deadline.expired():
                raise TimeoutError(
                    f"{topic}: partitions {sorted(open_partitions)} not read to the end in {timeout:g} s"
                )
            first = consumer.poll(0.1)
            for message in [first, *consumer.consume(10_000, 0)] if first is not None else []:
                _take(message, records, open_partitions)
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _take(message: Message, records: list[ReadRecord], open_partitions: set[int]) -> None:
    error = message.error()
    if error is None:
        records.append(
            ReadRecord(
                message.topic(),
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
                message.headers() or [],
                message.timestamp()[1],
            )
        )
    elif error.code() == KafkaError._PARTITION_EOF:
        open_partitions.discard(message.partition())
    elif error.code() not in _PASSING:
        raise KafkaException(error)


def _send_one(
    client: Producer,
    topic: str,
    record: Record,
    partition: int | None,
    delivered: Callable[[KafkaError | None, WrittenMessage], None],
) -> None:
    chosen = partition if record.partition is None else record.partition
    deadline = Deadline(SECONDS)
    while True:
        try:
            client.produce(
                topic,
                record.value,
                record.key,
                -1 if chosen is None else chosen,
                on_delivery=delivered,
                timestamp=record.timestamp or 0,
                headers=None if record.headers is None else [*record.headers],
            )
        except BufferError:
            if deadline.expired():
                raise
            client.poll(0.1)
        else:
            client.poll(0)
            return


def _await_leaders(servers: str, name: str, partitions: int) -> None:
    def led() -> bool:
        found = _partitions(servers, name)
        return len(found) == partitions and all(p.leader >= 0 for p in found.values())

    wait_until(led, PATIENCE, f"{name} to have {partitions} partitions with leaders on {servers}", interval=0.02)
    end_offsets(servers, name)  # a broker names the leader before it takes requests as such, longer so when it is busy


def _partitions(servers: str, topic: str) -> dict[int, PartitionMetadata]:
    """The partitions of one topic, none if it does not exist; much cheaper than asking for all topics."""
    found = admin(servers).list_topics(topic, timeout=SECONDS).topics[topic].partitions
    return dict(found)


def _all(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(PATIENCE)
