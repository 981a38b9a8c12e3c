"""A source in front of a broker that lies: it ends in words or goes on, and what it hands out is right."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading import source as source_module
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.hostile_broker import TOPIC, HostileBroker, Mangle
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.suite.properties import examples

TP = TopicPartition(TOPIC, 0)
_TENS = [[PackedRecord(i, None, b"%d" % (ten + i)) for i in range(10)] for ten in range(0, 40, 10)]
LOG = [(pack_batch(10 * n, ten, attributes=n), 10 * n + 10) for n, ten in enumerate(_TENS)]
END = LOG[-1][1]
SMALL = {"receive.message.max.bytes": 100_000, "fetch.max.bytes": 10_000, "fetch.wait.max.ms": 10}
FAST = {**SMALL, "socket.timeout.ms": 100, "socket.connection.setup.timeout.ms": 100, "reconnect.backoff.max.ms": 20}


def _read(broker: HostileBroker, properties: dict[str, int], polls: int) -> list[bytes | None]:
    """What a source hands out; it ends at the end of the log, or with one of the errors that it may raise."""
    source = BatchSource({"bootstrap.servers": broker.servers, **properties})
    values: list[bytes | None] = []
    try:
        with suppress(SourceStopped, Restart, ClusterUnreachable):
            source.assign({TP: Position(0)})
            for _ in range(polls):
                polled = source.poll(1000, 0.02)
                values += [value for chunk in polled.chunks for value in chunk.columns().values()]
                if polled.ends:
                    break
    finally:
        source.close()
    return values


def test_it_answers_as_real_brokers_do() -> None:
    with HostileBroker(LOG) as broker:
        assert _read(broker, SMALL, 1500) == [b"%d" % n for n in range(END)]


@given(data=st.data())
@examples(100)
def test_whatever_is_damaged_on_the_way_nothing_wrong_is_handed_out(data: st.DataObject) -> None:
    """In any answer, of the connection's begin too: bytes are changed, or the rest is not sent."""
    api = data.draw(st.sampled_from([Api.FETCH, Api.FETCH, Api.METADATA, Api.API_VERSIONS]))
    places = data.draw(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=4))
    cut = data.draw(st.none() | st.integers(0, 700))

    def mangle(of: int, frame: bytes) -> bytes:
        if of != api:
            return frame
        damaged = bytearray(frame)
        for at, byte in places:
            damaged[at % len(frame)] = byte
        return bytes(damaged[:cut])

    started = time.monotonic()
    with HostileBroker(LOG, mangle) as broker, pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "_METADATA_SECONDS", 0.1)
        values = _read(broker, FAST, 5)
    # Bytes outside the checksum may change what is asked next, and so leave a batch out: never its content or order.
    numbers = [int(value or b"") for value in values]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(END))
    assert time.monotonic() - started < SECONDS


def _claims(length: int) -> Mangle:
    return lambda api, frame: length.to_bytes(4, "big") + frame[4:] if api == Api.FETCH else frame


def test_an_answer_that_is_too_large_is_said_with_what_to_set() -> None:
    with HostileBroker(LOG, _claims(200_000)) as broker:
        source = BatchSource({"bootstrap.servers": broker.servers, **SMALL})
        source.assign({TP: Position(0)})
        with pytest.raises(Restart, match=r"200000 bytes.*receive\.message\.max\.bytes"):
            wait_until(lambda: source.poll(1000, 0.05).chunks, SECONDS, "the error")
        source.close()


def test_a_claim_below_the_limit_costs_no_memory_and_ends_in_time() -> None:
    properties = {**SMALL, "receive.message.max.bytes": 900_000_000, "socket.timeout.ms": 100}
    with HostileBroker(LOG, _claims(800_000_000)) as broker:
        source = BatchSource({"bootstrap.servers": broker.servers, **properties})
        source.assign({TP: Position(0)})
        before = _resident()

        def asks_again() -> bool:
            assert not source.poll(1000, 0.05).chunks
            assert _resident() - before < 100_000_000
            return broker.fetches > 2

        wait_until(asks_again, SECONDS, "other connections", interval=0)
        source.close()


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_what_is_never_taken_is_not_piled_up() -> None:
    """A broker whose answers are longer than it was asked for: no other one is asked for while one is in the queue."""
    log = [(pack_batch(n, [PackedRecord(0, None, b"x" * 5000)]), n + 1) for n in range(1000)]
    with HostileBroker(log) as broker:
        properties = {"bootstrap.servers": broker.servers, "receive.message.max.bytes": 20_000_000}
        source = BatchSource(properties, 50_000)
        source.assign({TP: Position(0)})
        (chunk,) = wait_until(lambda: source.poll(1, 0.05).chunks, SECONDS, "the first record")
        assert chunk.count == 1
        for n in range(1, 900):
            assert source.poll(1, 0).chunks[0].first_offset == n
        assert broker.fetches == 1
        source.close()


def _corrupt(kind: str) -> bytes:
    records = [PackedRecord(n) for n in range(3)]
    whole = pack_batch(END, records)
    if kind == "flipped":
        return whole[:-1] + bytes([whole[-1] ^ 1])
    return pack_batch(END, [PackedRecord(0), PackedRecord(2)], payload=b"\xff" * 20)


@pytest.mark.parametrize("kind", ["flipped", "garbage"])
def test_what_lies_before_an_unreadable_batch_is_handed_out_and_then_it_stops(kind: str) -> None:
    """The second one has a gap, so that it is decoded before anybody asks for its content."""
    with HostileBroker([*LOG, (_corrupt(kind), END + 3)]) as broker:
        source = BatchSource({"bootstrap.servers": broker.servers, **SMALL})
        source.assign({TP: Position(0)})
        values: list[bytes | None] = []

        def stopped() -> SourceStopped | None:
            try:
                values.extend(v for chunk in source.poll(1000, 0.05).chunks for v in chunk.columns().values())
            except SourceStopped as stop:
                return stop
            return None

        stop = wait_until(stopped, SECONDS, "the stop", interval=0)
        source.close()
    assert values == [b"%d" % n for n in range(END)]
    assert stop is not None
    assert isinstance(stop.reason, BatchUnreadable)
    assert (stop.partition, stop.reason.offset) == (TP, END)
