"""A source topic, a target topic and a transport between them: on real brokers, and in memory.

What a transport promises is tried through its interface alone. The fake one, by which the copy loop is tested, has to
keep the same promises where it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.factory import BATCHES, SOURCES, TRANSPORTS
from k2k_assets.transport.interface import Delivery, Position, Sink, Source, Transport
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    create_topic,
    produce,
    read_all,
    read_ended,
    unique,
)
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT, make_pipeline
from k2k_assets_tests.support.memory.fake_transport import Arrival, FakeTransport, Placed

BATCH_BYTES = 1_000_000


class Ends(Protocol):
    """Both ends.

    Attributes:
        source: The partition that is read.
        target_topic: Where its records go, partition 0.
        aside_topic: Where records go that are no copies.
        transactional_id: Of sinks and control writers.
    """

    source: TopicPartition
    target_topic: str
    aside_topic: str
    transactional_id: str

    @property
    def transport(self) -> Transport:
        """Between them."""
        ...

    @property
    def keeps_batches(self) -> bool:
        """Whether its source may bring more than it is asked for, by less than one batch."""
        ...

    def open_source(self) -> Source:
        """A source of the kind that is tried; no partitions are assigned yet."""
        ...

    def write(self, count: int) -> None:
        """Adds committed records to the source."""
        ...

    def abort(self, count: int) -> None:
        """Adds records to the source that nobody may see, and a marker behind them."""
        ...

    def log_end(self) -> int:
        """Where the source's log ends."""
        ...

    def committed(self) -> list[Placed]:
        """What a reader of the source sees."""
        ...

    def copied(self, when_ended: bool = True) -> list[Placed]:
        """What a reader of the target topic sees; by default once no transaction is open."""
        ...

    def controls(self, topic: str) -> list[bytes | None]:
        """The values of committed control records."""
        ...

    def aside(self) -> list[bytes | None]:
        """The values that a reader of the topic for records aside sees."""
        ...

    def stranger_writes(self) -> None:
        """Somebody else writes a record to the target partition."""
        ...


class RealEnds:
    """On the sandbox's brokers.

    Args:
        name: Of the transport, as the factory knows it.
        clusters: Both.
        directory: For the pipeline file.
        mode: `features.exactlyOnce`.
        target: The target's address, where it is not the broker's own.
        topic_config: Of the source topic.
        source: Name of the source, as the factory knows it; None: the transport's own.
    """

    def __init__(
        self,
        name: str,
        clusters: KafkaSandbox,
        directory: Path,
        mode: str = "enabled",
        target: str | None = None,
        topic_config: dict[str, str] | None = None,
        source: str | None = None,
    ) -> None:
        self._source_servers, self._target_servers = clusters.source_servers, clusters.target_servers
        self.source = TopicPartition(create_topic(self._source_servers, unique("from"), config=topic_config), 0)
        self.target_topic = create_topic(self._target_servers, unique("to"))
        self.aside_topic = create_topic(self._target_servers, unique("aside"))
        self.transactional_id = unique("id")
        target = target or self._target_servers
        pipeline = make_pipeline(
            directory,
            self._source_servers,
            target,
            [self.source.topic],
            features={"exactlyOnce": mode, "headerReplication": "enabled"},
            producer=NEVER_TIMED_OUT,
            coordination={"commit": {"topic": "commits", "syncTimeout": "11 minutes"}},
        )
        self.transport: Transport = TRANSPORTS[name](pipeline)
        self.keeps_batches = source == BATCHES or self.transport.capabilities.keeps_batches
        self._pipeline, self._source = pipeline, source
        self._written = 0

    def open_source(self) -> Source:
        return self.transport.open_source() if self._source is None else SOURCES[self._source](self._pipeline)

    def write(self, count: int) -> None:
        values = [(b"k%d" % n, b"v%d" % n) for n in range(self._written, self._written + count)]
        self._written += count
        produce(self._source_servers, self.source.topic, values, 0)

    def abort(self, count: int) -> None:
        produce(self._source_servers, self.source.topic, [b"aborted"] * count, 0, abort=True)

    def log_end(self) -> int:
        seen = read_all(self._source_servers, self.source.topic, isolation="read_uncommitted")
        return max((record.offset + 2 for record in seen if record.value == b"aborted"), default=0) or len(seen)

    def committed(self) -> list[Placed]:
        return _placed(self._source_servers, self.source.topic)

    def copied(self, when_ended: bool = True) -> list[Placed]:
        return _placed(self._target_servers, self.target_topic, when_ended)

    def controls(self, topic: str) -> list[bytes | None]:
        return [record.value for record in read_ended(self._target_servers, topic)]

    def aside(self) -> list[bytes | None]:
        return [record.value for record in read_ended(self._target_servers, self.aside_topic)]

    def stranger_writes(self) -> None:
        produce(self._target_servers, self.target_topic, [b"foreign"], 0)


def _placed(servers: str, topic: str, when_ended: bool = True) -> list[Placed]:
    records = read_ended(servers, topic) if when_ended else read_all(servers, topic)
    return [Placed(record.offset, record.key, record.value) for record in records]


class FakeEnds:
    """In memory."""

    keeps_batches = False

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.source = TopicPartition("from", 0)
        self.target_topic, self.aside_topic = "to", "aside"
        self.transactional_id = "id"
        self._offsets: list[int] = []
        self._end = 0

    def open_source(self) -> Source:
        return self.transport.open_source()

    def write(self, count: int) -> None:
        added = range(self._end, self._end + count)
        self._offsets += added
        self.transport.arrivals += [Arrival(self.transport.clock.now, self.source, offset) for offset in added]
        self._move(count)

    def abort(self, count: int) -> None:
        self._move(count + 1)

    def _move(self, count: int) -> None:
        self._end += count
        self.transport.ends[self.source] = self._end

    def log_end(self) -> int:
        return self._end

    def committed(self) -> list[Placed]:
        return [Placed(offset, b"k%d" % offset, b"v%d" % offset) for offset in self._offsets]

    def copied(self, when_ended: bool = True) -> list[Placed]:
        return self.transport.target.read(self.target_topic)

    def controls(self, topic: str) -> list[bytes | None]:
        return [control.value for done in self.transport.target.transactions for control in done.to(topic)]

    def aside(self) -> list[bytes | None]:
        done = self.transport.target.transactions
        return [value for each in done for chunk in each.aside for value in chunk.columns().values()]

    def stranger_writes(self) -> None:
        self.transport.target.append(self.target_topic, 0, 1)


def opened(ends: Ends, position: Position | None = None) -> Source:
    """A source that reads from a position on; from offset 0 by default."""
    source = ends.open_source()
    source.assign({ends.source: position or Position(0)})
    return source


def read(ends: Ends, source: Source, limit: int = 1000) -> tuple[list[Chunk], int]:
    """All chunks up to the end of the source, and that end as the source tells it."""
    chunks: list[Chunk] = []
    deadline = Deadline(SECONDS)
    while True:
        polled = source.poll(limit, 0.1)
        assert ends.keeps_batches or sum(chunk.count for chunk in polled.chunks) <= limit
        chunks += polled.chunks
        if ends.source in polled.ends:
            return chunks, polled.ends[ends.source]
        assert not deadline.expired(), f"the end of {ends.source} is not told"


def all_read(ends: Ends) -> list[Chunk]:
    """All chunks of the source, routed as a pipeline without stages does."""
    source = opened(ends)
    chunks, _ = read(ends, source)
    source.close()
    for chunk in chunks:
        chunk.target_topic, chunk.target_partition = ends.target_topic, 0
        if ends.transport.capabilities.needs_decoding:
            chunk.columns()
    return chunks


def placed(chunks: Iterable[Chunk]) -> list[Placed]:
    """The records of chunks."""
    return [
        Placed(*record)
        for chunk in chunks
        for record in zip(chunk.records.offsets(), chunk.columns().keys(), chunk.columns().values(), strict=True)
    ]


def write_all(sink: Sink, chunks: Iterable[Chunk]) -> list[Delivery]:
    """Begins a transaction and writes chunks; all of them are on the target, and not committed."""
    sink.begin()
    for chunk in chunks:
        sink.write(chunk)
    return list(sink.settle())


def pairs(deliveries: Iterable[Delivery]) -> list[tuple[int, int]]:
    """Source and target offset of each record."""
    found: list[tuple[int, int]] = []
    for delivery in deliveries:
        one_stretch = range(delivery.first, delivery.last + 1)
        targets = one_stretch if delivery.each is None else [offset for _, offset in delivery.each]
        found += zip(delivery.sent.offsets, targets, strict=True)
    return found
