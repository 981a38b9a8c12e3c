"""The place of the measurements: the sandbox's two brokers, topics made and removed, records written."""

from __future__ import annotations

import random
import string
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks.sizes import Load
from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox

# Gone topics leave the page cache and the disk at once.
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "1000"}
LOAD_SETTINGS: dict[str, object] = {
    "compression.type": "none",
    "batch.size": 256 * 1024,
    "batch.num.messages": 100_000,
    "linger.ms": 100,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 512 * 1024,
    "delivery.report.only.error": True,
}
_HEADERS = [("trace", b"0123456789abcdef")]
_CHUNK = 10_000
_MOST_QUEUED = 150_000
_LOAD_SECONDS = 300.0
_ADMIN_SECONDS = 30.0


class Lab:
    """Two brokers with benchmark settings, a scratch folder, and what is needed to fill topics.

    Attributes:
        sandbox: The brokers.
        folder: For pipeline files and logs; removed at the end.
    """

    def __init__(self) -> None:
        self.sandbox = KafkaSandbox(settings=BROKER_SETTINGS, benchmark=True)
        self._scratch = tempfile.TemporaryDirectory(prefix="k2k-bench-")
        self.folder = Path(self._scratch.name)
        self._loaded: set[Load] = set()

    def __enter__(self) -> Lab:
        self.sandbox.start()
        self.source = Cluster("source", {"bootstrap.servers": self.sandbox.source_servers})
        self.target = Cluster("target", {"bootstrap.servers": self.sandbox.target_servers})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sandbox.stop()
        self._scratch.cleanup()

    def broker_processes(self) -> dict[int, str]:
        """Process id and name of both brokers."""
        return {
            broker.pid: f"{broker.role} broker"
            for broker in (self.sandbox.source, self.sandbox.target)
            if broker.pid is not None
        }

    def ensure_loaded(self, load: Load) -> None:
        """Writes a load to the source, once."""
        if load not in self._loaded:
            create_topic(self.source, load.topic, load.partitions)
            self.write(load)
            self._loaded.add(load)

    def remove(self, load: Load) -> None:
        """Removes a load's topic from the source."""
        delete_topics(self.source, [load.topic])
        self._loaded.discard(load)

    def write(self, load: Load) -> None:
        """Appends a load to its topic: random letters or words, no keys, evenly over the partitions.

        Raises:
            TimeoutError: The broker does not take them.
        """
        own = {"compression.type": load.codec, "batch.num.messages": load.batch}
        producer = Producer({"bootstrap.servers": self.sandbox.source_servers, **LOAD_SETTINGS, **own})
        deadline = Deadline(_LOAD_SECONDS)
        rng = random.Random(load.records)
        text = _letters(rng, load) if load.codec == "none" else _words(rng, load)
        step = 1 if load.codec == "none" else load.size  # an overlap would be compressed as a repetition
        headers = _HEADERS if load.with_headers else []
        chunk = min(_CHUNK, -(-load.records // load.partitions))
        for number, first in enumerate(range(0, load.records, chunk)):
            start, count = rng.randrange(900_000), min(chunk, load.records - first)
            starts = [(start + step * n) % 1_000_000 for n in range(count)]
            size = load.size - len(load.prefix) - len(load.suffix)
            values = [load.prefix + text[start : start + size] + load.suffix for start in starts]
            arguments = (repeat(load.topic), values, repeat(None), repeat(number % load.partitions))
            more = (repeat(None), repeat(None), repeat(0), repeat(headers))
            deque(map(producer.produce, *arguments, *more), maxlen=0)
            while len(producer) > _MOST_QUEUED and not deadline.expired():
                producer.poll(0.01)
        if producer.flush(deadline.remaining()):
            raise TimeoutError(f"the source did not take {load.title} within {_LOAD_SECONDS:g} s")


def _letters(rng: random.Random, load: Load) -> bytes:
    return "".join(rng.choices(string.ascii_letters, k=1_000_000 + load.size)).encode()


def _words(rng: random.Random, load: Load) -> bytes:
    words = [rng.randbytes(6).hex().encode() for _ in range(500)]
    return b" ".join(rng.choices(words, k=(1_000_000 + load.size) // 12))


def create_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    """Creates a topic that is not there yet, and waits until the broker shows it (its controller answers before)."""
    asked = cluster.admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=_ADMIN_SECONDS)
    asked[topic].result(timeout=_ADMIN_SECONDS)
    wait_until(lambda: topic in cluster.topics(), _ADMIN_SECONDS, f"{topic} to be visible")


def delete_topics(cluster: Cluster, topics: Iterable[str]) -> None:
    """Deletes topics and waits until they are gone; those that are gone already are no trouble."""
    names = set(topics)
    if names:
        for future in cluster.admin.delete_topics(list(names), request_timeout=_ADMIN_SECONDS).values():
            with suppress(KafkaException):
                future.result(timeout=_ADMIN_SECONDS)
        wait_until(lambda: not names & set(cluster.topics()), _ADMIN_SECONDS, f"{names} to be gone")


def delete_run(lab: Lab, run: str) -> None:
    """Deletes all topics of a run on the target: their names begin with the run's."""
    delete_topics(lab.target, [topic for topic in lab.target.topics() if topic.startswith(f"{run}.")])


def delete_records(cluster: Cluster, ends: Mapping[TopicPartition, int]) -> None:
    """Deletes all records below the given offsets; the topics stay."""
    before = [KafkaTopicPartition(tp.topic, tp.partition, end) for tp, end in ends.items()]
    for future in cluster.admin.delete_records(before, request_timeout=_ADMIN_SECONDS).values():
        future.result(timeout=_ADMIN_SECONDS)
