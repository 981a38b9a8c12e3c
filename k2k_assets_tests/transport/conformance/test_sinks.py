"""Sinks: records at the reported offsets, whole transactions or nothing, and true reports about both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import randbytes

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart, RetryAtOnce, Undeliverable
from k2k_assets.transport.factory import BATCHES
from k2k_assets.transport.interface import Sinks
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    Record,
    create_topic,
    produce,
    read_all,
    read_ended,
    set_config,
    unique,
)
from k2k_assets_tests.transport.conformance.ends import BATCH_BYTES, Ends, RealEnds, all_read, pairs, write_all


@pytest.fixture(autouse=True)
def _late_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they commit late is committed; `test_ambiguity.py` tests what is done where it may not be."""
    monkeypatch.setattr(control_writer, "AMBIGUOUS_AFTER_SECONDS", SECONDS)


LONE = pytest.mark.parametrize("lone_writer", [True, False])


@LONE
def test_records_arrive_in_order_and_each_where_the_delivery_says(ends_in_each_mode: Ends, lone_writer: bool) -> None:
    ends = ends_in_each_mode
    ends.write(40)
    ends.abort(3)
    ends.write(20)
    sinks = ends.transport.open_sinks(lone_writer, BATCH_BYTES)
    sink = sinks.open_sink(ends.transactional_id)
    sink.open()
    chunks = all_read(ends)
    deliveries = write_all(sink, chunks)
    sink.commit()
    sink.close()
    sinks.close(discard=False)

    committed, copied = ends.committed(), ends.copied()
    assert [(record.key, record.value) for record in copied] == [(record.key, record.value) for record in committed]
    told = pairs(deliveries)
    assert told == [(source.offset, target.offset) for source, target in zip(committed, copied, strict=True)]
    assert [delivery.sent.source for delivery in deliveries] == [ends.source] * len(chunks)
    if ends.transport.capabilities.reports_batches:
        assert [delivery.each for delivery in deliveries] == [None] * len(chunks)


def test_records_of_a_transaction_are_seen_with_its_control_records_or_not_at_all(ends: Ends) -> None:
    ends.write(10)
    sinks = ends.transport.open_sinks(True, BATCH_BYTES)
    aborted = sinks.open_sink(ends.transactional_id)
    aborted.open()
    write_all(aborted, all_read(ends))
    aborted.write_control(ends.target_topic, 0, b"position", b"10")
    assert ends.copied(when_ended=False) == []
    aborted.close()

    sink = sinks.open_sink(ends.transactional_id)
    sink.open()
    write_all(sink, all_read(ends))
    sink.write_control(ends.target_topic, 0, b"position", b"10")
    sink.commit()
    sink.close()
    values = [record.value for record in ends.committed()]
    assert [value for value in values if value not in [record.value for record in ends.copied()]] == []
    assert ends.controls(ends.target_topic)[-1] == b"10"
    assert len(ends.controls(ends.target_topic)) in (1, 11), "a fake keeps control records apart"


@LONE
def test_records_aside_come_with_the_transaction_and_no_delivery_tells_of_them(
    ends_in_each_mode: Ends, lone_writer: bool
) -> None:
    ends = ends_in_each_mode
    ends.write(12)
    chunks = all_read(ends)
    aside = [replace(chunk, target_topic=ends.aside_topic, target_partition=None) for chunk in chunks]
    sinks = ends.transport.open_sinks(lone_writer, BATCH_BYTES)
    sink = sinks.open_sink(ends.transactional_id)
    sink.open()
    for _ in range(3):  # the later ones may be foreseen
        sink.begin()
        for chunk, other in zip(chunks, aside, strict=True):
            sink.write(chunk)
            sink.write_aside(other)
        sink.foresee()
        assert [len(pairs([delivery])) for delivery in sink.settle()] == [chunk.count for chunk in chunks]
        sink.commit()
    sink.close()
    sinks.close(discard=False)
    assert ends.aside() == [record.value for record in ends.committed()] * 3


def test_what_is_foreseen_comes_true_or_nothing_is_committed(ends: Ends) -> None:
    ends.write(5)
    chunks = all_read(ends)
    sinks = ends.transport.open_sinks(True, BATCH_BYTES)
    sink = sinks.open_sink(ends.transactional_id)
    sink.open()
    for shown in (False, True):
        sink.begin()
        for chunk in chunks:
            sink.write(chunk)
        foreseen = sink.foresee()
        assert (foreseen is not None) == shown
        deliveries = sink.settle()
        assert not shown or foreseen == deliveries
        sink.commit()
    ends.stranger_writes()
    sink.begin()
    for chunk in chunks:
        sink.write(chunk)
    assert sink.foresee() is not None
    sink.settle()
    with pytest.raises(Restart):
        sink.commit()
    sink.close()
    again = sinks.open_sink(ends.transactional_id)
    again.open()
    again.close()
    assert len([record for record in ends.copied() if record.value != b"foreign"]) == 10


def test_records_are_the_same_byte_for_byte(clusters: KafkaSandbox, tmp_path: Path, real_transport: str) -> None:
    ends = RealEnds(real_transport, clusters, tmp_path)
    headers = [("a", b"1"), ("a", b"1"), ("ü", None), ("", b"")]
    records = [
        Record(b"key", b"value", [], 1_700_000_000_000),
        Record(None, b"", None, 1),
        Record(b"", None, headers, 1_650_000_000_000),
        Record(b"\xff\x00", bytes(range(256)) * 100, [], 5),
    ]
    produce(clusters.source_servers, ends.source.topic, records, 0)
    sink = ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id)
    sink.open()
    write_all(sink, all_read(ends))
    sink.commit()
    sink.close()
    source = read_all(clusters.source_servers, ends.source.topic)
    target = read_ended(clusters.target_servers, ends.target_topic)
    assert [record.content for record in target] == [record.content for record in source]


def test_a_record_that_the_target_refuses_is_named_and_nothing_is_committed(
    clusters: KafkaSandbox, tmp_path: Path, real_transport: str
) -> None:
    """If not this sink, the next one knows which it is."""
    ends = RealEnds(real_transport, clusters, tmp_path)
    ends.write(3)
    produce(clusters.source_servers, ends.source.topic, [(b"large", randbytes(20_000))], 0)
    ends.write(3)
    set_config(clusters.target_servers, ends.target_topic, "max.message.bytes", "10000")
    refusal = _refusal(ends.transport.open_sinks(True, batch_bytes=10_000), ends, all_read(ends))
    assert refusal.index is not None
    assert (refusal.final, refusal.sent.offsets[refusal.index], refusal.sent.source) == (True, 3, ends.source)
    assert refusal.size >= 20_000
    _fence(ends)
    assert ends.copied() == []


@pytest.mark.integration
def test_a_record_that_is_refused_among_others_is_named(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The topic takes smaller batches than when the copy was planned. librdkafka refuses the first one of the batch."""
    ends = RealEnds(BATCHES, clusters, tmp_path)
    records = [(b"small", b"value"), (b"large", randbytes(20_000)), (b"small", b"value")]
    produce(clusters.source_servers, ends.source.topic, records, 0)
    set_config(clusters.target_servers, ends.target_topic, "max.message.bytes", "10000")
    refusal = _refusal(ends.transport.open_sinks(True, BATCH_BYTES), ends, all_read(ends))
    assert (refusal.final, refusal.index, refusal.sent.source) == (True, 1, ends.source)
    _fence(ends)
    assert ends.copied() == []


def _fence(ends: Ends) -> None:
    """Ends what a sink has left open that could not abort in the little time that it gives itself."""
    ends.transport.claim(ends.transactional_id, SECONDS, "fencing")


def _refusal(sinks: Sinks, ends: Ends, chunks: list[Chunk]) -> Undeliverable:
    deadline = Deadline(SECONDS)
    while not deadline.expired():
        sink = sinks.open_sink(ends.transactional_id)
        sink.open()
        try:
            write_all(sink, chunks)
        except RetryAtOnce:
            continue
        except Undeliverable as refusal:
            return refusal
        finally:
            sink.close()
    raise AssertionError("nothing was refused")


def test_topics_beside_each_other_keep_their_order(clusters: KafkaSandbox, tmp_path: Path, real_transport: str) -> None:
    """Chunks of one transaction may go to several topics, in turn."""
    ends = RealEnds(real_transport, clusters, tmp_path)
    targets = [create_topic(clusters.target_servers, unique("to")) for _ in range(2)]
    sink = ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id)
    sink.open()
    sink.begin()
    for _ in range(5):
        ends.write(10)
    for chunk in all_read(ends):
        for target in targets:
            chunk.target_topic = target
            sink.write(chunk)
    sink.settle()
    sink.commit()
    sink.close()
    for target in targets:
        values = [record.value for record in read_ended(clusters.target_servers, target)]
        assert values == [b"v%d" % n for n in range(50)]
