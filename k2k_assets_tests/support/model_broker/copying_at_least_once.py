"""A slot's life at least once, against the model: records outside transactions, positions and epochs inside.

Two source partitions hold the numbers from 0 on; number n goes to partition n // 3 % 2 of one topic, so that each
target partition is fed by both. Each record says from which source and which life it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.writing.at_least_once_sink import AtLeastOnceBatchSink
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.copying import NAME, POSITIONS, RECORDS, TOPICS, partition_of

SOURCES = (TopicPartition("numbers", 0), TopicPartition("numbers", 1))
Identities = Mapping[TopicPartition, ProducerIdentity | None]


class Committed(NamedTuple):
    """What the last commit record says, by source: how many numbers are copied, and who has copied them."""

    positions: dict[TopicPartition, int]
    identities: Identities


class Written(NamedTuple):
    """A record on the target.

    Attributes:
        source: Index of its source.
        number: Its number there.
        life: Which life has written it.
    """

    source: int
    number: int
    life: int


def committed_in(cluster: ModelCluster) -> Committed:
    """What the last commit record says."""
    records = cluster.values((POSITIONS, 0))
    if not records:
        return Committed(dict.fromkeys(SOURCES, 0), dict.fromkeys(SOURCES))
    said = json.loads(records[-1] or b"")
    return Committed(
        {tp: position for tp, (position, _) in zip(SOURCES, said, strict=True)},
        {tp: ProducerIdentity(*identity) for tp, (_, identity) in zip(SOURCES, said, strict=True)},
    )


def written_in(cluster: ModelCluster, index: int, source: int) -> list[Written]:
    """The records of a source in a target partition, in order."""
    found = [Written(*json.loads(value)) for value in cluster.written((RECORDS, index))]
    return [each for each in found if each.source == source]


def ensure_at_least_once(cluster: ModelCluster, begun: Mapping[int, Mapping[TopicPartition, int]]) -> None:
    """Asserts that each number below the positions is there, in order within and between the copies.

    Each life's records follow one on the other from where it began; none lies behind a record of a later life.

    Args:
        cluster: The target.
        begun: Where each life began.
    """
    positions = committed_in(cluster).positions
    for source, tp in enumerate(SOURCES):
        for index in range(TOPICS[RECORDS]):
            found = written_in(cluster, index, source)
            wanted = {number for number in range(positions[tp]) if partition_of(number) == index}
            assert wanted <= {each.number for each in found}, "a record is lost"
            lives = [each.life for each in found]
            assert lives == sorted(lives), "a record of a former life lies behind one of a later life"
            for life, records in groupby(found, lambda each: each.life):
                numbers = [each.number for each in records]
                following = (n for n in range(begun[life][tp], numbers[-1] + 1) if partition_of(n) == index)
                assert numbers == list(following), "a life has left out, reordered or doubled a record"


class AtLeastOnceLife:
    """One session: a sink, and what it has in hand.

    Args:
        servers: The target.
        tactics: Of the slot.
        seconds: Longest time of a step.
        number: Which life it is.

    Attributes:
        positions: The next number of each source.
        committed: So many are committed, as far as it knows.
    """

    def __init__(self, servers: str, tactics: SlotTactics, seconds: float, number: int) -> None:
        settings = sink_settings_of({"bootstrap.servers": servers, "compression.type": "none"}, seconds)
        self._sink = AtLeastOnceBatchSink(settings, NAME, tactics, seconds)
        self._number = number
        self.positions: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self._identities: Identities = {}

    def open(self) -> None:
        """Fences the life before from committing."""
        self._sink.open()

    def begin_at(self, committed: Committed, former: Callable[[Identities], Identities]) -> None:
        """Begins where the target is, under the next epochs.

        Args:
            committed: What the target says.
            former: What of it is believed about those who have written before.
        """
        self.positions = dict(committed.positions)
        self._identities = self._sink.raise_epochs(former(committed.identities))

    def write(self, source: int, count: int) -> None:
        """Queues the next numbers of a source."""
        tp = SOURCES[source]
        at = self.positions[tp]
        for index, group in groupby(range(at, at + count), partition_of):
            numbers = list(group)
            values: list[bytes | None] = [json.dumps([source, n, self._number]).encode() for n in numbers]
            self._sink.write(Chunk(tp, ListRecords(numbers, given_values=values), RECORDS, index))
        self.positions[tp] = at + count

    def settle(self) -> None:
        """Waits until they are on the target."""
        self._sink.settle()

    def commit(self) -> None:
        """Commits the positions, with the epochs."""
        self._sink.settle()
        said = [[self.positions[tp], self._identities[tp]] for tp in SOURCES]
        self._sink.write_control(POSITIONS, 0, b"positions", json.dumps(said).encode())
        self._sink.commit()
        self.committed = dict(self.positions)

    def close(self) -> None:
        """Ends it."""
        self._sink.close()
