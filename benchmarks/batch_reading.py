"""Measures what reading costs by whole batches and through librdkafka, in microseconds of this process's CPU a record.

    python -m benchmarks.batch_reading            # on two real brokers; some two minutes
    python -m benchmarks.batch_reading --append   # the same, appended to RESULTS.md

Undecoded is what a copy of whole batches needs, decoded what stages and checks do. The last row is how the content
check reads today: each record through librdkafka, and digests of it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import string
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Producer

from benchmarks import machine, report
from benchmarks.lab import LOAD_SETTINGS, Lab, create_topic
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import headers_of
from k2k_assets.kafka.offset_ranges import OffsetRange, read_ranges
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Position, Source
from k2k_assets.transport.librdkafka.source import LibrdkafkaSource
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.verification.content.digests import digest

PARTITIONS = 4
REPEAT = 3
_LIMIT = 1000
_SECONDS = 300.0
_CHUNK = 10_000
_MOST_QUEUED = 150_000
_HEADERS: list[tuple[str, str | bytes | None]] = [("trace", b"0123456789abcdef")]


@dataclass(frozen=True, slots=True)
class Written:
    """A topic full of records.

    Attributes:
        title: What is in it.
        records: Number of records.
        size: Bytes of each value.
        codec: How they are compressed.
        batch: Records of a batch; fewer if they are more than 256 KB.
        of_words: Whether they can be compressed, to about a third; else they are random letters.
        with_headers: Whether each record has a header.
    """

    title: str
    records: int
    size: int
    codec: str = "none"
    batch: int = 100_000
    of_words: bool = False
    with_headers: bool = False

    @property
    def topic(self) -> str:
        """Its name."""
        return f"reading-{self.size}-{self.codec}-{self.batch}{'-headers' if self.with_headers else ''}"

    @property
    def partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.topic, n) for n in range(PARTITIONS)]


WRITTEN = (
    Written("100 B, 2,400 a batch", 2_000_000, 100),
    Written("1 KB, 250 a batch", 400_000, 1000),
    Written("100 B, lz4", 1_000_000, 100, "lz4"),
)
Reading = Callable[[str, Written], None]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_reading", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    words = machine.listed()
    with Lab() as lab:
        servers = lab.sandbox.source_servers
        for written in WRITTEN:
            create_topic(lab.source, written.topic, PARTITIONS)
            write(servers, written)
        report.progress("the topics are full")
        rows = [[name, *(_cell(servers, written, read) for written in WRITTEN)] for name, read in READINGS.items()]
    how = f"Microseconds of CPU a record, MB of values a second of a core; {PARTITIONS} partitions, median of {REPEAT}"
    sections = [f"### Reading by batches\n\n{how}\n\n{words}", report.table(["how", *(w.title for w in WRITTEN)], rows)]
    report.publish(sections, options.append)


def _cell(servers: str, written: Written, read: Reading) -> str:
    read(servers, written)  # code and page cache are warm then
    spent = []
    for _ in range(REPEAT):
        started = time.process_time()
        read(servers, written)
        spent.append(time.process_time() - started)
    seconds = statistics.median(spent)
    return f"{seconds / written.records * 1e6:.3f} ({written.records * written.size / seconds / 1e6:,.0f} MB/s)"


def write(servers: str, written: Written) -> None:
    """Fills a topic, in large batches.

    Raises:
        TimeoutError: The broker does not take it.
    """
    own = {"compression.type": written.codec, "batch.num.messages": written.batch}
    producer = Producer({"bootstrap.servers": servers, **LOAD_SETTINGS, **own})
    text, deadline = _text(written), Deadline(_SECONDS)
    headers = _HEADERS if written.with_headers else []
    step = written.size + 9 if written.of_words else 97  # what overlaps would be compressed as a repetition
    for number, first in enumerate(range(0, written.records, _CHUNK)):
        for n in range(min(_CHUNK, written.records - first)):
            at = (n * step) % (len(text) - written.size)
            value, partition = text[at : at + written.size], number % PARTITIONS
            producer.produce(written.topic, value, None, partition, None, None, 0, headers)
        while len(producer) > _MOST_QUEUED and not deadline.expired():
            producer.poll(0.01)
    if producer.flush(deadline.remaining()):
        raise TimeoutError(f"the source did not take {written.title} within {_SECONDS:g} s")


def _text(written: Written) -> bytes:
    rng = random.Random(written.records)
    if not written.of_words:
        return "".join(rng.choices(string.ascii_letters, k=1_000_000)).encode()
    words = [rng.randbytes(6).hex().encode() for _ in range(500)]
    return b" ".join(rng.choices(words, k=80_000))


def _read(source: Source, written: Written, look: Callable[[Chunk], object]) -> None:
    source.assign({tp: Position(0) for tp in written.partitions})
    left, deadline = written.records, Deadline(_SECONDS)
    while left:
        for chunk in source.poll(_LIMIT, 1.0).chunks:
            left -= chunk.count
            look(chunk)
        if deadline.expired():
            raise TimeoutError(f"{left} records of {written.title} were not read within {_SECONDS:g} s")
    source.close()


def _columns(chunk: Chunk) -> object:
    columns = chunk.columns()
    return columns.offsets(), columns.keys(), columns.values(), columns.timestamps(), columns.headers()


def _digests(servers: str, written: Written) -> None:
    """As Spark's tasks do for the content check, without Spark."""
    of_partition = written.records // PARTITIONS
    wanted = [OffsetRange(*tp, 0, of_partition) for tp in written.partitions]
    for _, messages in read_ranges({"bootstrap.servers": servers}, wanted):
        for message in messages:
            headers_of(message)
            digest(message, (message.key(), message.value()), False, True)


READINGS: dict[str, Reading] = {
    "by batches, undecoded": lambda servers, written: _read(
        BatchSource({"bootstrap.servers": servers}), written, lambda chunk: chunk.records.size()
    ),
    "by batches, decoded": lambda servers, written: _read(
        BatchSource({"bootstrap.servers": servers}), written, _columns
    ),
    "librdkafka, untouched": lambda servers, written: _read(
        LibrdkafkaSource({"bootstrap.servers": servers}), written, lambda chunk: chunk.count
    ),
    "librdkafka, columns": lambda servers, written: _read(
        LibrdkafkaSource({"bootstrap.servers": servers}), written, _columns
    ),
    "librdkafka, digests (content check)": _digests,
}


if __name__ == "__main__":
    main()
