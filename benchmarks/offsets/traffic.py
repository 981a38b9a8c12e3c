"""Writes the source topics: each value begins with a number that is unique and rising in its partition."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import numpy as np

from benchmarks.offsets.plan import PARTITIONS, Kind
from k2k_assets.core.deadline import Deadline
from k2k_assets.kafka import clients

# Records of one partition in a transaction, fewest and most: transactions of the bulk, and of live writing.
BULK, LIVE = (50, 150), (5, 15)
ABORTED = 10
"""Every so many transactions one is aborted."""
SIZE = 100
_REST = b"x" * (SIZE - 8)
_MOST_QUEUED = 80_000
_STEP = 0.02
_SECONDS = 60.0


class Writer:
    """Writes to one topic, to all its partitions evenly but not equally.

    Args:
        servers: Of the source cluster.
        kind: Which topic, and how.
        seed: Of the sizes of transactions.

    Attributes:
        last: Number of the last record of each partition that readers get.
        records: How many records of each partition readers get.
    """

    def __init__(self, servers: str, kind: Kind, seed: int = 1) -> None:
        settings: dict[str, object] = {"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True}
        if kind.transactional:
            settings |= {"transactional.id": f"writer-{kind.topic}", "linger.ms": 0}
        self._producer = clients.producer(settings)
        self._producer.list_topics(timeout=_SECONDS)
        self._kind = kind
        self._draw = np.random.default_rng(seed)
        self._next = [0] * PARTITIONS
        self._transactions = count(1)
        self.last = [-1] * PARTITIONS
        self.records = [0] * PARTITIONS
        if kind.transactional:
            self._producer.init_transactions(_SECONDS)

    def write(self, counts: Sequence[int], seconds: float, rate: int | None = None) -> None:
        """Writes records and returns when the broker has all of them.

        Args:
            counts: How many of each partition.
            seconds: Longest time it may take.
            rate: Records a second and partition; None: as many as the broker takes.

        Raises:
            TimeoutError: It takes longer.
        """
        deadline, began = Deadline(seconds), time.monotonic()
        left = list(counts)
        for step in count(1):
            if self._kind.transactional:
                part = self._transaction(left, LIVE if rate else BULK)
            else:
                part = [min(n, max(1, round((rate or 50_000) * _STEP))) for n in left]
                self._produce(part)
            left = [had - wrote for had, wrote in zip(left, part, strict=True)]
            if not any(left):
                break
            if deadline.expired():
                raise TimeoutError(f"{self._kind.topic}: {left} records were left to write after {seconds:g} s")
            if rate:
                # Transactions are paced by the records that they hold on average.
                pause = (sum(LIVE) / 2 / rate) if self._kind.transactional else _STEP
                time.sleep(max(0.0, began + step * pause - time.monotonic()))
        if self._producer.flush(deadline.remaining() + 1):
            raise TimeoutError(f"{self._kind.topic}: the source did not take all records within {seconds:g} s")

    def _transaction(self, left: Sequence[int], sizes: tuple[int, int]) -> list[int]:
        part = [min(n, int(self._draw.integers(sizes[0], sizes[1] + 1))) for n in left]
        if next(self._transactions) % ABORTED == 0:
            self._producer.begin_transaction()
            self._produce(part, counted=False)
            self._producer.flush(_SECONDS)
            self._producer.abort_transaction(_SECONDS)
        self._producer.begin_transaction()
        self._produce(part)
        self._producer.commit_transaction(_SECONDS)
        return part

    def _produce(self, part: Sequence[int], counted: bool = True) -> None:
        for partition, records in enumerate(part):
            first = self._next[partition]
            for number in range(first, first + records):
                value = number.to_bytes(8, "big") + _REST
                self._producer.produce(self._kind.topic, value, None, partition)
            self._next[partition] = first + records
            if counted and records:
                self.last[partition] = first + records - 1
                self.records[partition] += records
        while len(self._producer) > _MOST_QUEUED:
            self._producer.poll(0.01)
        self._producer.poll(0)
