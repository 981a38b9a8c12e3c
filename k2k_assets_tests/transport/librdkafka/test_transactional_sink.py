"""The sink when the producer cannot accept a record now, and when records miss their predicted offsets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets.transport.librdkafka.control_writer import TransactionalWriter
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets.transport.librdkafka.transactional_sink import TransactionalSink
from k2k_assets_tests.support.memory.fake_records import ListRecords


class FullProducer:
    """Its queue is full of data until it was polled so often."""

    def __init__(self, polls: int) -> None:
        self.taken: list[bytes] = []
        self._polls = polls

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self._polls > 0:
            raise BufferError("Local: Queue full")
        self.taken.append(key)

    def poll(self, timeout: float) -> int:
        self._polls -= 1
        return 0

    def __len__(self) -> int:
        return 200_000


@pytest.mark.parametrize("polls", [0, 3])
def test_a_control_record_waits_for_room_in_the_queue(monkeypatch: pytest.MonkeyPatch, polls: int) -> None:
    """It is queued right behind the records of a transaction, which may fill the queue."""
    producer = FullProducer(polls)
    monkeypatch.setattr(control_writer, "transactional_producer", lambda *_: producer)
    TransactionalWriter({}, "id").write_control("commits", 0, b"key", b"value")
    assert producer.taken == [b"key"]


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control record that finds no room within the time-out ends the session."""
    monkeypatch.setattr(control_writer, "transactional_producer", lambda *_: FullProducer(10**9))
    with pytest.raises(Restart, match="the target did not take one of 200,000 records"):
        TransactionalWriter({}, "id", timeout=0.01).write_control("commits", 0, b"key", b"value")


class CountingProducer:
    """A partition of topic t that counts up: one offset a record, and one a commit; `log_end` is the next."""

    def __init__(self) -> None:
        self.log_end = self.commits = 0
        self._written = False
        self._reports: list[Any] = []

    def begin_transaction(self) -> None:
        """Always possible."""

    def produce(self, topic: str, value: Any, key: Any, partition: int, report: Any = None, *_: object) -> None:
        if topic == "t":
            self._reports.append(report)
            self._written = True

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            if report is not None:
                report(None, SimpleNamespace(partition=lambda: 0, offset=lambda at=self.log_end: at))
            self.log_end += 1
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self.log_end += self._written
        self._written = False
        self.commits += 1

    def __len__(self) -> int:
        return len(self._reports)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> CountingProducer:
    made = CountingProducer()
    monkeypatch.setattr(control_writer, "transactional_producer", lambda *_: made)
    return made


def write(sink: TransactionalSink, *offsets: int) -> Any:
    """One transaction as the loop closes it; what was foreseen of it."""
    sink.begin()
    sink.write(Chunk(TopicPartition("t", 0), ListRecords(list(offsets)), "t", 0))
    foreseen = sink.foresee()
    assert sink.settle()
    sink.commit()
    return foreseen


def test_what_a_transaction_has_shown_is_foreseen_of_the_next(producer: CountingProducer) -> None:
    sink = TransactionalSink({}, "id", ReportMode(lone_writer=True))
    assert write(sink, 0, 1, 2) is None
    (delivery,) = write(sink, 3, 4)
    assert (delivery.first, delivery.last) == (4, 5)
    assert producer.commits == 2


def test_what_does_not_come_true_is_not_committed_and_nothing_is_foreseen_any_more(producer: CountingProducer) -> None:
    report_mode = ReportMode(lone_writer=True)
    sink = TransactionalSink({}, "id", report_mode)
    write(sink, 0)
    producer.log_end += 1  # a marker of somebody else's empty transaction
    with pytest.raises(Restart, match="did not go where the mapping says"):
        write(sink, 1)
    assert producer.commits == 1
    report_mode.begin_session()
    following = TransactionalSink({}, "id", report_mode)
    assert [write(following, 1), write(following, 2)] == [None, None]


def test_a_transaction_of_control_records_alone_is_no_mistake(producer: CountingProducer) -> None:
    sink = TransactionalSink({}, "id", ReportMode(lone_writer=True))
    write(sink, 0)
    sink.begin()
    sink.write_control("claims", 0, b"beat", b"value")
    sink.commit()
    assert write(sink, 1) is not None
    assert producer.commits == 3
