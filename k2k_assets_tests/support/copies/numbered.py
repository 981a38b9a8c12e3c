"""Writes records with ids into source topics, in plain batches and in committed and aborted transactions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException, Producer

from k2k_assets_tests.support.brokers.kafka import SECONDS, Record, await_markers, producer, send, unique
from k2k_assets_tests.support.proof.verifying import ID
from k2k_assets_tests.support.suite.background import Background


class NumberedWriter(Background):
    """Writes until it is stopped; a source that is down for a while is waited for.

    What became of a batch whose answer never came is for the source to say: it is read at the end.

    Args:
        servers: The source cluster.
        places: Topic partitions to write to; may grow meanwhile.
        seed: Of its choices.
        pause: Mean seconds between two batches.
        largest: Most records of a batch; one in ten is that large.
        dress: Changes a record before it is written.
    """

    def __init__(
        self,
        servers: str,
        places: list[tuple[str, int]],
        seed: int,
        pause: float = 0.12,
        largest: int = 100,
        dress: Callable[[Record, random.Random], Record] = lambda record, rng: record,
    ) -> None:
        super().__init__("numbered-writer")
        self._servers = servers
        self.places = places
        self._random = random.Random(seed)
        self._pause = pause
        self._largest = largest
        self._dress = dress
        self._ids = itertools.count()
        # One id for all producers, so that a new one ends the open transaction of a failed one.
        self._transactional_id = unique("numbered")
        self._producers: dict[str, Producer] = {}
        self.failures = 0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Writes nothing while the block lasts, and leaves no transaction open."""
        with self._at_work:
            self._producer("transactional")
            yield

    def records(self, count: int, rng: random.Random) -> list[Record]:
        """New records, each with an id of its own."""
        return [self._dress(_record(next(self._ids), rng), rng) for _ in range(count)]

    def write(self, count: int, topic: str, partition: int, kind: str) -> None:
        """Writes one batch: `plain`, `committed` or `aborted`."""
        client = self._producer("plain" if kind == "plain" else "transactional")
        records = self.records(count, self._random)
        if kind == "plain":
            send(client, topic, records, partition)
            return
        client.begin_transaction()
        written = send(client, topic, records, partition)
        if kind == "aborted":
            client.abort_transaction(SECONDS)
        else:
            client.commit_transaction(SECONDS)
        await_markers(self._servers, topic, written)

    def _run(self) -> None:
        while not self._end.wait(self._random.expovariate(1 / self._pause)):
            topic, partition = self._random.choice(self.places)
            count = self._largest if self._random.random() < 0.1 else self._random.randint(1, 10)
            kind = self._random.choices(["plain", "committed", "aborted"], [5, 3, 2])[0]
            with self._at_work:
                try:
                    self.write(count, topic, partition, kind)
                except (KafkaException, TimeoutError):
                    self.failures += 1
                    self._producers.clear()

    def _producer(self, kind: str) -> Producer:
        if kind not in self._producers:
            name = self._transactional_id if kind == "transactional" else None
            self._producers[kind] = producer(self._servers, name, resends=False)
        return self._producers[kind]


def _record(number: int, rng: random.Random) -> Record:
    key = rng.choice([None, b"", b"k%d" % (number % 7)])
    value = rng.choice([None, b"", b"%d" % number, rng.randbytes(rng.randint(1, 300))])
    more: list[tuple[str, bytes | None]] = rng.choice([[], [("h", None), ("h", b"")]])
    return Record(key, value, [(ID, b"%d" % number), *more])
