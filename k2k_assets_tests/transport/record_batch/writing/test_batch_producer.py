"""When queued batches are sent: about a megabyte at a time, and as many of each partition as of any other."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import numpy as np

from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.writing.batch_producer import WINDOW, BatchProducer
from k2k_assets.transport.record_batch.writing.pending_chunk import QueuedBatch
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of

_SIXTEEN_KB = 16 * 1024 - 61
_ANSWER = 1024 * 1024


class Handing(BatchProducer[str]):
    """Notes how many batches of each partition are sent at once; all are acknowledged at once, too."""

    def __init__(self) -> None:
        super().__init__(sink_settings_of({"bootstrap.servers": "broker:1"}, 1.0), 1.0)
        self.sent: list[dict[str, int]] = []
        self.order: list[int] = []

    def give(self, partition: str, count: int) -> None:
        """Queues batches of 16 KB."""
        self.give_each(partition, [bytes(_SIXTEEN_KB)] * count)

    def give_each(self, partition: str, payloads: Sequence[bytes | memoryview]) -> None:
        """Queues a batch of each payload."""
        first = len(self.order) + sum(map(len, self._queued.values()))
        batches = [OutgoingBatch(0, 0, 0, 1, each, range(n, n + 1)) for n, each in enumerate(payloads, first)]
        self._queue(partition, [QueuedBatch(batch) for batch in batches])

    def _send(self, queued: Mapping[str, Sequence[QueuedBatch]]) -> None:
        self.sent.append({partition: len(batches) for partition, batches in queued.items()})
        for batches in queued.values():
            for each in batches:
                self.order.append(each.batch.offsets[0])
                self.acknowledged(each.size)


def test_what_a_partition_has_more_than_another_waits_for_it() -> None:
    producer = Handing()
    for partition in ("a", "b", "a", "b", "b", "a"):
        producer.give(partition, 24)
    assert producer.sent == [{"a": 24, "b": 24}] * 2
    producer.flush()
    assert producer.sent[2:] == [{"b": 24, "a": 24}]


def test_batches_of_a_partition_stay_in_order() -> None:
    producer = Handing()
    producer.give("a", 42)
    producer.give("b", 22)
    producer.give("a", 3)
    producer.flush()
    assert producer.sent == [{"a": 22, "b": 22}, {"a": 23}]
    of_a = [offset for offset in producer.order if offset < 42 or offset >= 64]
    assert of_a == sorted(of_a)


def test_nothing_waits_for_a_partition_with_little() -> None:
    producer = Handing()
    producer.give("b", 2)
    producer.give("a", 62)
    assert producer.sent == [{"b": 2, "a": 62}]


def test_many_batches_of_one_partition_are_sent_a_megabyte_at_a_time() -> None:
    producer = Handing()
    producer.give("a", 150)
    assert producer.sent == [{"a": 64}, {"a": 64}]
    producer.flush()
    assert producer.sent[2:] == [{"a": 22}]


def test_what_waits_for_others_keeps_few_fetch_answers_in_memory() -> None:
    """A payload is a part of the answer that it came in, which stays as long as any of its parts."""
    producer = Handing()
    kept, most = [], 0
    for _ in range(10 * WINDOW // _ANSWER):
        answer = np.zeros(_ANSWER, np.uint8)
        kept.append(weakref.ref(answer))
        *little, much = (part.data for part in np.split(answer, [700, 1400, 2100]))
        del answer
        producer.give_each("b", little)
        producer.give_each("a", [much])
        del little, much
        kept = [each for each in kept if each() is not None]
        most = max(most, len(kept))
    assert {"a": 1, "b": 1} in producer.sent, "some waited"
    assert most <= WINDOW // _ANSWER + 2
