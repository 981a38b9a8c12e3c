"""Producing chunks and learning their offsets, with a producer whose queue fills at the worst moments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, Undeliverable
from k2k_assets.transport.headers import Headers
from k2k_assets.transport.librdkafka.deliveries import PendingDelivery, produce_chunk, results
from k2k_assets_tests.support.memory.fake_records import ListRecords

SOURCE = TopicPartition("orders", 3)


class Sent(NamedTuple):
    """What the producer was given for one record."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    report: Any
    timestamp: int
    headers: Headers | None


class FakeProducer:
    """Takes what fits into its queue; `poll` delivers all of it.

    Args:
        room: How many records fit before the queue is full, time after time; then it is endless.
        first: Target offset of the first record.
    """

    def __init__(self, room: Sequence[int] = (), first: int = 100) -> None:
        self.sent: list[Sent] = []
        self.waits = 0
        self._room = list(room)
        self._queue: list[Sent] = []
        self._offset = first

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        if self._room:
            if self._room[0] == 0:
                raise BufferError("Local: Queue full")
            self._room[0] -= 1
        record = Sent(topic, value, key, partition, callback or on_delivery, timestamp, headers)
        self.sent.append(record)
        self._queue.append(record)

    def __len__(self) -> int:
        return len(self._queue) + bool(self._room and not self._room[0])  # without room it holds records of others

    def poll(self, timeout: float = 0) -> int:
        if timeout:
            self.waits += 1
            self._room = self._room[1:]
            self.deliver()
        return 0

    def deliver(self, errors: dict[int, int] | None = None, gap_after: int | None = None) -> None:
        """Delivers what is queued.

        Args:
            errors: Place in the queue -> error code.
            gap_after: Place after which somebody else's record lies.
        """
        queue, self._queue = self._queue, []
        for place, record in enumerate(queue):
            code = (errors or {}).get(place)
            offset = self._offset
            if code is None:
                self._offset += 1 + (place == gap_after)
            if record.report is not None:
                message = SimpleNamespace(
                    partition=lambda: 3,
                    offset=lambda offset=offset: offset,
                    key=lambda record=record: record.key,
                    value=lambda record=record: record.value,
                )
                record.report(None if code is None else KafkaError(code), message)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    n = draw(st.integers(1, 12))
    column = st.none() | st.binary(max_size=3)
    headers = st.none() | st.lists(st.tuples(st.text(max_size=2), column), max_size=2)
    records = ListRecords(
        sorted(draw(st.sets(st.integers(0, 99), min_size=n, max_size=n))),
        draw(st.lists(column, min_size=n, max_size=n)),
        draw(st.lists(column, min_size=n, max_size=n)),
        draw(st.lists(st.integers(1, 2**41) | st.just(-1), min_size=n, max_size=n)),
        draw(st.lists(headers, min_size=n, max_size=n)),
    )
    chunk = Chunk(SOURCE, records, "there", draw(st.none() | st.integers(0, 5)))
    chunk.keep_headers, chunk.keep_timestamps = draw(st.booleans()), draw(st.booleans())
    if draw(st.booleans()):
        chunk.added = (AddedHeader("where", "offset"),)
    return chunk


def test_a_queue_that_stays_full_is_waited_for_in_bounded_time() -> None:
    producer: Any = FakeProducer([0] * 10_000)
    chunk = Chunk(SOURCE, ListRecords([1, 2]), "there", 0)
    with pytest.raises(Restart, match="the target did not take one of"):
        produce_chunk(producer, chunk, PendingDelivery(chunk, False), timeout=0.01)
    assert producer.sent == []


def test_a_record_that_fits_into_no_queue_is_told_at_once() -> None:
    """It would be waited for, and sent again, for ever."""

    class Small(FakeProducer):
        def produce(self, topic: str, value: bytes | None = None, *rest: Any, **named: Any) -> None:
            if len(value or b"") > 10:
                raise BufferError("Local: Queue full")
            super().produce(topic, value, *rest, **named)

        def __len__(self) -> int:
            return len(self._queue)

    chunk = Chunk(SOURCE, ListRecords([1, 2, 3], [None, b"key", None], [b"small", b"x" * 11, b"small"]), "there", 0)
    with pytest.raises(Undeliverable, match="does not fit into the producer's queue") as refused:
        produce_chunk(cast(Any, Small()), chunk, PendingDelivery(chunk, False), timeout=60)
    assert (refused.value.index, refused.value.size, refused.value.final) == (1, 14, True)


@given(chunks(), st.lists(st.integers(0, 4), max_size=8), st.booleans())
def test_a_queue_that_fills_at_any_point_loses_doubles_and_reorders_nothing(
    chunk: Chunk, room: list[int], report_each: bool
) -> None:
    producer: Any = FakeProducer(room)
    pending = PendingDelivery(chunk, report_each)
    produce_chunk(producer, chunk, pending)
    producer.deliver()

    records, n = chunk.columns(), chunk.count
    assert [(s.value, s.key) for s in producer.sent] == list(zip(records.values(), records.keys(), strict=True))
    assert [s.timestamp for s in producer.sent] == (list(records.timestamps()) if chunk.keep_timestamps else [0] * n)
    own: list[Headers | None] = list(records.headers()) if chunk.keep_headers else [None] * n
    if chunk.added:
        own = [[*(h or []), ("where", b"%d" % at)] for h, at in zip(own, records.offsets(), strict=True)]
    assert [s.headers for s in producer.sent] == own
    assert {(s.topic, s.partition) for s in producer.sent} == {
        ("there", -1 if chunk.target_partition is None else chunk.target_partition)
    }
    delivery = pending.result()
    if report_each:
        assert delivery.each == [(3, 100 + i) for i in range(n)]
    else:
        assert (delivery.partition, delivery.first, delivery.last) == (3, 100, 99 + n)
        assert sum(s.report is not None for s in producer.sent) <= 2


def pending_of(n: int, report_each: bool = False) -> tuple[FakeProducer, PendingDelivery]:
    producer: Any = FakeProducer()
    chunk = Chunk(SOURCE, ListRecords(list(range(n))), "there", 3)
    pending = PendingDelivery(chunk, report_each)
    produce_chunk(producer, chunk, pending)
    return producer, pending


def test_somebody_elses_record_inside_a_chunk_shows() -> None:
    producer, pending = pending_of(5)
    producer.deliver(gap_after=2)
    delivery = pending.result()
    assert delivery.last - delivery.first + 1 == 6

    producer, pending = pending_of(5, report_each=True)
    producer.deliver(gap_after=2)
    assert pending.result().each == [(3, 100), (3, 101), (3, 102), (3, 104), (3, 105)]


def test_a_missing_report_is_not_taken_for_success() -> None:
    _, pending = pending_of(5)
    with pytest.raises(Restart, match=r"2 delivery reports of orders-3 did not come"):
        pending.result()


def test_only_a_report_per_record_tells_which_one_was_refused() -> None:
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    producer, pending = pending_of(5)
    producer.deliver({4: too_large})
    with pytest.raises(Undeliverable) as refused:
        pending.result()
    assert (refused.value.index, refused.value.final) == (None, True)

    producer, pending = pending_of(5, report_each=True)
    producer.deliver({2: too_large, 3: KafkaError._PURGE_QUEUE, 4: KafkaError._PURGE_QUEUE})
    with pytest.raises(Undeliverable) as refused:
        pending.result()
    assert (refused.value.index, refused.value.size, refused.value.final) == (2, 4, True)


def test_a_report_asks_its_message_nothing_that_breaks_while_the_client_raises_a_fatal_error() -> None:
    """The client calls reports with its own exception still pending: the first call into it fails."""
    raising = True

    def size_of(part: bytes) -> bytes:
        if raising:
            raise SystemError("returned a result with an exception set")
        return part

    message = SimpleNamespace(key=lambda: size_of(b"key"), value=lambda: size_of(b"value"))
    pending = pending_of(1)[1]
    (report,) = pending.reports()
    assert report is not None
    report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), cast("Message", message))
    raising = False
    with pytest.raises(Undeliverable) as refused:
        pending.result()
    assert (refused.value.index, refused.value.size) == (0, 8)


def test_a_lone_record_is_told_at_once() -> None:
    producer, pending = pending_of(1)
    producer.deliver({0: KafkaError.MSG_SIZE_TOO_LARGE})
    with pytest.raises(Undeliverable) as refused:
        pending.result()
    assert (refused.value.index, refused.value.final) == (0, True)


def test_the_verdict_goes_before_the_fate_of_those_queued_before_and_behind_it() -> None:
    producer, first = pending_of(2, report_each=True)
    producer.deliver({0: KafkaError._PURGE_QUEUE, 1: KafkaError._PURGE_QUEUE})
    producer, second = pending_of(2, report_each=True)
    producer.deliver({0: KafkaError._PURGE_QUEUE, 1: KafkaError.MSG_SIZE_TOO_LARGE})
    with pytest.raises(Undeliverable) as refused:
        results([first, second])
    assert (refused.value.sent, refused.value.index, refused.value.final) == (second.sent, 1, True)


def test_a_time_out_is_no_verdict() -> None:
    producer, pending = pending_of(2)
    producer.deliver({0: KafkaError._MSG_TIMED_OUT, 1: KafkaError._MSG_TIMED_OUT})
    with pytest.raises(Undeliverable) as refused:
        pending.result()
    assert refused.value.final is False


def test_timestamp_zero_would_be_now_and_is_written_as_one(caplog: pytest.LogCaptureFixture) -> None:
    producer: Any = FakeProducer()
    chunk = Chunk(SOURCE, ListRecords([7, 8], None, None, [0, 5]), "there", 3)
    with caplog.at_level(logging.WARNING, "k2k.transport"):
        produce_chunk(producer, chunk, PendingDelivery(chunk, False))
    assert [s.timestamp for s in producer.sent] == [1, 5]
    assert "orders-3: record with timestamp 0 near offset 7 is written with timestamp 1 ms" in caplog.text
