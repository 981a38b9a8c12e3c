"""A slot's life against the model: it copies numbers in transactions, and after a doubt finds out how far it got.

Number n goes to partition n // 3 % 2 of one topic, and its transaction says in another topic how many are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.record_batch.writing.batch_sink import BatchSink
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.coordinator import Partition

RECORDS, POSITIONS = "records", "positions"
TOPICS = {RECORDS: 2, POSITIONS: 1}
NAME = "me"
"""The transactional id."""
_SOURCE = "numbers"
_BATCH_BYTES = 1_000_000


def partition_of(number: int) -> int:
    """Where a number goes."""
    return number // 3 % 2


def numbers_in(cluster: ModelCluster, partition: Partition) -> list[int]:
    """The committed numbers of a partition."""
    return [int((value or b"").lstrip(b"v")) for value in cluster.values(partition)]


def position_in(cluster: ModelCluster) -> int:
    """How many numbers are copied, as committed records say."""
    return max(numbers_in(cluster, (POSITIONS, 0)), default=0)


def ensure_exact(cluster: ModelCluster) -> None:
    """Asserts that each number below the position is there once, in order, and nothing else."""
    position = position_in(cluster)
    for index in range(TOPICS[RECORDS]):
        expected = [number for number in range(position) if partition_of(number) == index]
        assert numbers_in(cluster, (RECORDS, index)) == expected


class Life:
    """One session: a sink, and what it has in hand.

    Args:
        servers: The target.
        tactics: Of the slot.
        seconds: Longest time of a step.
        properties: Further settings, librdkafka names.

    Attributes:
        committed: So many numbers are copied and committed, as far as it knows.
        position: The next number.
    """

    def __init__(
        self, servers: str, tactics: SlotTactics, seconds: float, properties: Mapping[str, str] | None = None
    ) -> None:
        known = {"bootstrap.servers": servers, "compression.type": "none", **(properties or {})}
        settings = sink_settings_of(known, seconds)
        self.committed = self.position = 0
        self._sink = BatchSink(settings, NAME, tactics, seconds)
        self._chunks: list[Chunk] = []

    def open(self) -> None:
        """Fences the life before."""
        self._sink.open()

    def begin_at(self, position: int) -> None:
        """Begins where the target is."""
        self.committed = self.position = position

    def write(self, count: int) -> None:
        """Queues the next numbers."""
        following = range(self.position, self.position + count)
        for index, numbers in groupby(following, partition_of):
            source = TopicPartition(_SOURCE, index)
            chunk = Chunk(source, ListRecords(list(numbers)), RECORDS, index)
            self._sink.write(chunk)
        self.position += count

    def settle(self) -> list[Delivery]:
        """Waits until they are on the target."""
        return list(self._sink.settle())

    def commit(self, foresees: bool) -> None:
        """Commits them.

        Args:
            foresees: Whether the position is written before the answers have come.
        """
        if foresees:
            self._sink.foresee()
        self._sink.write_control(POSITIONS, 0, b"k", b"%d" % self.position)
        self._sink.settle()
        self._sink.commit()
        self.committed = self.position

    def close(self) -> None:
        """Aborts what is in hand."""
        self._sink.close()
