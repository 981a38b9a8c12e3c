"""Measures what the content check costs by batches and by records, in microseconds of one process's CPU a record.

    python -m benchmarks.content_check            # on two real brokers; some two minutes
    python -m benchmarks.content_check --append   # the same, appended to RESULTS.md

What Spark's tasks do is measured in this process, one after the other, without Spark: both clusters are read, and
records are compared. By records that is the reading and the digests only; their comparison in the JVM comes on top.
"""

from __future__ import annotations

import argparse
import random
import statistics
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from confluent_kafka import Producer

from benchmarks import machine, report
from benchmarks.lab import Lab, create_topic
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import headers_of
from k2k_assets.kafka.offset_ranges import OffsetRange, read_ranges
from k2k_assets.verification.content.by_batches.mapped_offsets import MappedOffsets
from k2k_assets.verification.content.by_batches.proven_parts import CopiedStretch, Prover
from k2k_assets.verification.content.digests import digest
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch, pack_record
from k2k_assets_tests.support.brokers.raw_records import produce_batch

REPEAT = 3
_SECONDS = 300.0
_DIFFERENT = 16
_MOST_QUEUED = 150_000
_QUEUE = {"queue.buffering.max.kbytes": 512 * 1024, "queue.buffering.max.messages": 1_000_000, "linger.ms": 500}
Values = list[bytes]


@dataclass(frozen=True, slots=True)
class Written:
    """A topic of one partition on both clusters.

    Attributes:
        title: What is in it.
        batches: Number of batches on the source.
        records: Number of records in each of them.
        size: Bytes of each value.
    """

    title: str
    batches: int
    records: int
    size: int

    @property
    def count(self) -> int:
        """Number of records."""
        return self.batches * self.records

    @property
    def bytes_(self) -> int:
        """Bytes of all values."""
        return self.count * self.size


WRITTEN = (Written("100 B, 2,400 a batch", 400, 2400, 100), Written("1 KB, 240 a batch", 1200, 240, 1000))
ALIKE, OTHERWISE = "equal", "otherwise"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.content_check", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    words = machine.listed()
    with Lab() as lab:
        for written in WRITTEN:
            _fill(lab, written)
        report.progress("the topics are full")
        ways: dict[str, Callable[[Lab, Written], object]] = {
            "by batches, equal ones": partial(_by_batches, kind=ALIKE),
            "by batches, copies cut otherwise, lz4": partial(_by_batches, kind=OTHERWISE),
            "by records: reading and digests": partial(_by_records, kind=OTHERWISE),
        }
        rows = [[name, *(_cell(lab, written, way) for written in WRITTEN)] for name, way in ways.items()]
    how = f"Microseconds of CPU a record (records and MB of one side's values, a second of a core), median of {REPEAT}"
    sections = [f"### The content check\n\n{how}\n\n{words}", report.table(["how", *(w.title for w in WRITTEN)], rows)]
    report.publish(sections, options.append)


def _cell(lab: Lab, written: Written, way: Callable[[Lab, Written], object]) -> str:
    way(lab, written)  # code and page cache are warm then
    spent = []
    for _ in range(REPEAT):
        started = time.process_time()
        way(lab, written)
        spent.append(time.process_time() - started)
    seconds = statistics.median(spent)
    each = seconds / written.count
    return f"{each * 1e6:.3f} ({1 / each / 1e6:.2f} M/s, {written.bytes_ / seconds / 1e6:,.0f} MB/s)"


def _topic(written: Written, kind: str) -> str:
    return f"content-{written.size}-{kind}"


def _fill(lab: Lab, written: Written) -> None:
    """The same records on both sides, in the same batches and as librdkafka cuts them."""
    source, target = lab.sandbox.source_servers, lab.sandbox.target_servers
    for kind in (ALIKE, OTHERWISE):
        for cluster in (lab.source, lab.target):
            create_topic(cluster, _topic(written, kind), 1)
    rng = random.Random(written.size)
    letters = "".join(rng.choices(string.ascii_letters, k=1_000_000)).encode()
    values = [[letters[at : at + written.size] for at in _places(rng, written)] for _ in range(_DIFFERENT)]
    now = int(time.time() * 1000) - written.count
    producer = Producer({"bootstrap.servers": target, "compression.type": "lz4", **_QUEUE})
    deadline = Deadline(_SECONDS)
    packed = [b"".join(_packed(of_batch)) for of_batch in values]
    for number in range(written.batches):
        of_batch, first = values[number % _DIFFERENT], now + number * 100
        frame = {"last_delta": written.records - 1, "count": written.records, "epoch": -1}
        latest = first + (written.records - 1) // 25
        payload = packed[number % _DIFFERENT]
        batch = pack_batch(0, [], payload=payload, timestamp=first, latest=latest, **frame)
        for servers in (source, target):
            produce_batch(servers, _topic(written, ALIKE), 0, batch)
        produce_batch(source, _topic(written, OTHERWISE), 0, batch)
        for n, value in enumerate(of_batch):
            producer.produce(_topic(written, OTHERWISE), value, None, 0, timestamp=first + n // 25)
        while len(producer) > _MOST_QUEUED and not deadline.expired():
            producer.poll(0.01)
    if producer.flush(deadline.remaining()):
        raise TimeoutError(f"the target did not take {written.title} within {_SECONDS:g} s")


def _places(rng: random.Random, written: Written) -> Iterator[int]:
    return (rng.randrange(1_000_000 - written.size) for _ in range(written.records))


def _packed(values: Values) -> Iterator[bytes]:
    return (pack_record(PackedRecord(n, None, value, (), n // 25)) for n, value in enumerate(values))


def _by_batches(lab: Lab, written: Written, kind: str) -> None:
    topic = _topic(written, kind)
    start, count = np.array([0]), np.array([written.count])
    mapped = MappedOffsets.of(start, start, count)
    assert mapped is not None
    ids = [cluster.describe([topic])[topic].topic_id for cluster in (lab.source, lab.target)]
    tp = TopicPartition(topic, 0)
    servers = [{"bootstrap.servers": s} for s in (lab.sandbox.source_servers, lab.sandbox.target_servers)]
    prover = Prover(servers[0], servers[1], time.monotonic() + _SECONDS)
    parts = list(prover.parts(CopiedStretch(tp, ids[0], 0, written.count, tp, ids[1], mapped)))
    prover.close()
    if [(part.records, part.undecoded) for part in parts] != [(written.count, written.count if kind == ALIKE else 0)]:
        raise AssertionError(f"{topic}: {parts}")


def _by_records(lab: Lab, written: Written, kind: str) -> None:
    """As Spark's tasks do, without Spark."""
    wanted = OffsetRange(_topic(written, kind), 0, 0, written.count)
    for servers in (lab.sandbox.source_servers, lab.sandbox.target_servers):
        for _, messages in read_ranges({"bootstrap.servers": servers}, [wanted]):
            for message in messages:
                headers_of(message)
                digest(message, (message.key(), message.value()), False, True)


if __name__ == "__main__":
    main()
