"""The sample topics of the demo: small, but with everything in them that replication must not get wrong.

Each topic is a line in `SAMPLE_TOPICS`; what is in the records is in the functions named there.
"""

from __future__ import annotations

import itertools
import json
import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka import clients
from k2k_assets.sandbox.traffic_writer import Cluster, SampleRecord, TrafficWriter, properties_of

_log = logging.getLogger(__name__)
_SECONDS = 30.0
_START_OF_2020 = 1_577_836_800_000
_HOUR = 3_600_000
_BATCHES_PER_SECOND = 4


class SampleTopic(NamedTuple):
    """A topic of the demo, and the function that fills it and returns the number of committed records."""

    name: str
    partitions: int
    config: dict[str, str]
    fill: Callable[[TrafficWriter, str, random.Random], int]


def write_sample_traffic(cluster: Cluster, seed: int = 17, registry: str | None = None) -> dict[str, int]:
    """Makes the sample topics and fills them; topics that are there already are left as they are.

    Args:
        cluster: Its bootstrap address, or client properties.
        seed: The same seed writes the same records (but for timestamps that are "now").
        registry: Where the cluster's schema registry is; with one there is a topic whose values have schemas.

    Returns:
        For each topic that was made: how many records a reader of committed data finds in it.
    """
    missing = _create_missing(cluster, sample_topics(registry))
    if not missing:
        return {}
    writer = TrafficWriter(cluster, "sample-traffic")
    return {topic.name: topic.fill(writer, topic.name, random.Random(f"{seed} {topic.name}")) for topic in missing}


def continuous_traffic(cluster: Cluster, stop: threading.Event, seed: int = 17) -> None:
    """Writes a few records four times a second until `stop` is set; goes on after a broker was away.

    Args:
        cluster: Its bootstrap address, or client properties.
        stop: Ends it, within half a second while the cluster answers.
        seed: For the contents.
    """
    chance = random.Random(seed)
    while not stop.is_set():
        try:
            _create_missing(cluster, SAMPLE_TOPICS)
            _trickle(TrafficWriter(cluster, "continuous-traffic"), stop, chance)
        except KafkaException as error:
            servers = properties_of(cluster)["bootstrap.servers"]
            _log.warning("sample traffic to %s is interrupted: %s", servers, error)
            stop.wait(1.0)


def _trickle(writer: TrafficWriter, stop: threading.Event, chance: random.Random) -> None:
    orders, customers = _orders(chance), _customers(chance)
    for turn in itertools.count():
        if stop.wait(1 / _BATCHES_PER_SECOND):
            return
        writer.transaction("demo.orders", itertools.islice(orders, chance.randint(1, 5)), abort=turn % 10 == 9)
        writer.plain("demo.customers", itertools.islice(customers, 1))


def _create_missing(cluster: Cluster, topics: Iterable[SampleTopic]) -> list[SampleTopic]:
    admin = clients.admin(properties_of(cluster))
    present = admin.list_topics(timeout=_SECONDS).topics
    missing = [topic for topic in topics if topic.name not in present]
    made = [NewTopic(topic.name, topic.partitions, 1, config=topic.config) for topic in missing]
    for future in admin.create_topics(made).values() if made else []:
        future.result(_SECONDS)
    for topic in missing:
        wait_until(partial(_is_led, admin, topic), _SECONDS, f"{topic.name} to be visible on the source")
    return missing


def _is_led(admin: AdminClient, topic: SampleTopic) -> bool:
    found = admin.list_topics(topic.name, timeout=_SECONDS).topics[topic.name].partitions
    return len(found) == topic.partitions and all(partition.leader >= 0 for partition in found.values())


def _fill_orders(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """Plain and transactional writes in turn; some transactions are aborted, the last one is: a trailing marker."""
    records = _orders(chance)
    count = 0
    for turn in range(40):
        count += writer.plain(topic, itertools.islice(records, 150))
        count += writer.transaction(topic, itertools.islice(records, 250), abort=turn % 4 == 3)
    return count


def _fill_payments(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """Many small transactions, every fifth aborted: offsets full of gaps."""
    records = _orders(chance)
    return sum(writer.transaction(topic, itertools.islice(records, 60), abort=turn % 5 == 4) for turn in range(120))


def _fill_customers(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """Updates and tombstones of few keys, for a compacted topic."""
    return writer.plain(topic, itertools.islice(_customers(chance), 5000))


def _fill_archive(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """Timestamps of the past, one an hour."""
    readings = (
        SampleRecord(
            f"sensor-{index % 9}".encode(),
            f"{chance.gauss(20, 5):.3f}".encode(),
            timestamp=_START_OF_2020 + index * _HOUR,
        )
        for index in range(6000)
    )
    return writer.plain(topic, readings)


def _fill_alerts(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """Records in three of eight partitions; partition 7 holds nothing but an aborted transaction."""
    alerts = (
        SampleRecord(None, f"alert {index}: {chance.random():.6f}".encode(), partition=index % 3)
        for index in range(900)
    )
    count = writer.plain(topic, alerts)
    writer.transaction(topic, [SampleRecord(b"never", b"seen", partition=7)] * 20, abort=True)
    return count


def _fill_oddities(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    """What a careless copy changes: null versus empty, duplicate and empty headers, bytes that are no text."""
    contents = [None, b"", b"\x00\xff\xfe not UTF-8", "naïve 日本語 🚀".encode(), chance.randbytes(600_000)]
    headers: list[list[tuple[str, str | bytes | None]] | None] = [
        None,
        [("trace", b"1"), ("trace", b"2"), ("trace", b"1")],
        [("none", None), ("empty", b""), ("", b"empty name")],
        [("ключ 🔑", "значение".encode()), ("binary", bytes(range(256)))],
    ]
    keys = contents[:-1]
    pairs = itertools.product(keys, contents, headers)
    return writer.plain(
        topic,
        (
            SampleRecord(
                key, value, header, timestamp=index + 1 if index % 5 == 0 else None, partition=chance.randrange(2)
            )
            for index, (key, value, header) in enumerate(pairs)
        ),
    )


def _fill_nothing(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
    return 0


def _orders(chance: random.Random) -> Iterator[SampleRecord]:
    for number in itertools.count(1):
        order = {
            "order": number,
            "customer": chance.randrange(500),
            "amount": round(chance.uniform(1, 500), 2),
            "items": [chance.randrange(10_000) for _ in range(chance.randint(1, 4))],
        }
        yield SampleRecord(
            f"customer-{order['customer']}".encode(),
            json.dumps(order).encode(),
            [("content-type", b"application/json"), ("trace-id", chance.randbytes(8))],
        )


def _customers(chance: random.Random) -> Iterator[SampleRecord]:
    for version in itertools.count(1):
        customer = chance.randrange(500)
        value = json.dumps({"customer": customer, "name": f"Customer {customer}", "version": version}).encode()
        yield SampleRecord(f"customer-{customer}".encode(), None if chance.random() < 0.1 else value)


# Old timestamps: with a finite retention the broker would delete those records at its next check.
_FOR_EVER = {"retention.ms": "-1"}

SAMPLE_TOPICS = (
    SampleTopic("demo.orders", 6, {}, _fill_orders),
    SampleTopic("demo.payments", 3, {"retention.ms": "2592000000"}, _fill_payments),
    SampleTopic("demo.customers", 4, {"cleanup.policy": "compact", "segment.bytes": "1048576"}, _fill_customers),
    SampleTopic("demo.archive", 2, {**_FOR_EVER, "compression.type": "zstd"}, _fill_archive),
    SampleTopic("demo.alerts", 8, {}, _fill_alerts),
    SampleTopic("demo.oddities", 2, _FOR_EVER, _fill_oddities),
    SampleTopic("demo.empty", 2, {}, _fill_nothing),
)


def sample_topics(registry: str | None) -> tuple[SampleTopic, ...]:
    """The sample topics.

    Args:
        registry: Where the cluster's schema registry is; None: there is none, and no topic with schemas.
    """
    if registry is None:
        return SAMPLE_TOPICS
    # What Confluent's client imports takes a third of a second.
    from k2k_assets.sandbox.readings import READINGS, write_readings

    def fill(writer: TrafficWriter, topic: str, chance: random.Random) -> int:
        return write_readings(writer, registry, chance)

    return (*SAMPLE_TOPICS, SampleTopic(READINGS, 3, {}, fill))
