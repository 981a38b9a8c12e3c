"""Small batches of records that are huge once they are decompressed: stages get a few at a time, and all of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.registry.schemas import RegistryUnreachable
from k2k_assets.replication.extent import Continuous
from k2k_assets.stages import Stage
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Polled
from k2k_assets.transport.record_batch.batches import columns
from k2k_assets.transport.record_batch.batches.batch import RecordBatch, batch_at
from k2k_assets.transport.record_batch.batches.codecs import ZSTD
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness, arrivals, pipeline_with
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.memory.fake_transport import BY_BATCH
from k2k_assets_tests.support.memory.traced import in_a_fork

SIZE = 100_000
DAMAGED = b"\xff" * 20


@pytest.fixture
def large(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Harness]:
    """A harness of batches of one record each, of which two are decompressed beside each other; some are damaged."""
    monkeypatch.setattr(columns, "AT_ONCE", 3 * SIZE // 2)

    def make(stages: Sequence[Stage], damaged: Sequence[int] = (), **rest: Any) -> Harness:
        def records(tp: TopicPartition, offsets: list[int]) -> BatchRecords:
            return BatchRecords(tp, [found for each in offsets if (found := arrived(read(each), 0)) is not None])

        def read(offset: int) -> RecordBatch:
            payload = DAMAGED if offset in damaged else None
            batch = pack_batch(offset, [PackedRecord(0, None, bytes(SIZE))], attributes=ZSTD, payload=payload)
            return batch_at(memoryview(batch), 0, len(batch))

        made: Harness = harness(
            [*arrivals(*range(7)), *arrivals(*range(7), source=P1)], {P0: 7, P1: 7},
            pipeline=pipeline_with(tmp_path, batch_size=1000, headerReplication="enabled"),
            capabilities=BY_BATCH, first_stages=stages, **rest,
        )  # fmt: skip
        monkeypatch.setattr(made.source, "_records", records)
        return made

    return make


def _copied(made: Harness) -> dict[TopicPartition, list[int]]:
    return {tp: [o for t in made.copying for o in t.offsets.get(tp, [])] for tp in (P0, P1)}


def _positions(made: Harness) -> dict[TopicPartition, int]:
    return {record.source: record.position for t in made.copying for record in made.commits(t)}


def _decodes(chunk: Chunk) -> Chunk:
    chunk.columns()
    return chunk


def test_all_records_are_copied_in_their_order_a_few_at_a_time(large: Callable[..., Harness]) -> None:
    made = large([_decodes]).run()
    assert _copied(made) == {P0: [*range(7)], P1: [*range(7)]}
    assert _positions(made) == {P0: 7, P1: 7}
    assert [chunk.count for t in made.copying for chunk in t.chunks] == [2, 2, 2, 1] * 2
    runs = [run for t in made.copying for m in made.mappings(t) for target in m.targets for run in target.runs]
    assert sum(run.count for run in runs) == 14


def test_of_what_was_decoded_before_each_piece_comes_once(
    large: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A throttle looks at the keys as the records arrive."""
    made = large([])
    poll = made.source.poll

    def poll_and_decode(limit: int, timeout: float) -> Polled:
        polled = poll(limit, timeout)
        for chunk in polled.chunks:
            chunk.columns()
        return polled

    monkeypatch.setattr(made.source, "poll", poll_and_decode)
    made.run()
    assert _copied(made) == {P0: [*range(7)], P1: [*range(7)]}
    assert _positions(made) == {P0: 7, P1: 7}


def test_what_nobody_decodes_stays_one_chunk(large: Callable[..., Harness]) -> None:
    made = large([]).run()
    assert [chunk.count for t in made.copying for chunk in t.chunks] == [7, 7]


def test_records_that_a_rule_leaves_out_hold_up_nothing_behind_them(large: Callable[..., Harness]) -> None:
    def drops(chunk: Chunk) -> Chunk:
        chunk.drop([offset >= 4 for offset in chunk.columns().offsets()], "odd")
        return chunk

    made = large([drops]).run()
    assert _copied(made) == {P0: [4, 5, 6], P1: [4, 5, 6]}
    assert _positions(made) == {P0: 7, P1: 7}


@pytest.mark.parametrize("at", [1, 2, 5])
def test_behind_a_record_that_stops_its_topic_nothing_is_copied(large: Callable[..., Harness], at: int) -> None:
    reason = Unclassified("no")

    def stops(chunk: Chunk) -> Chunk:
        offsets = [*chunk.columns().offsets()]
        if chunk.source == P0 and at in offsets:
            chunk.cut(offsets.index(at), reason)
        return chunk

    made = large([stops])
    assert made.session.start()
    with pytest.raises(SourceStopped, match="no"):
        made.session.copy()
    assert _copied(made) == {P0: [*range(at)], P1: [*range(7)]}


@pytest.mark.parametrize("at", [1, 2, 5])
def test_behind_a_record_that_waits_for_a_registry_nothing_is_copied(large: Callable[..., Harness], at: int) -> None:
    away = RegistryUnreachable("away")

    def waits(chunk: Chunk) -> Chunk:
        offsets = [*chunk.columns().offsets()]
        if chunk.source == P0 and at in offsets:
            if at == offsets[0]:
                raise away
            chunk.cut(offsets.index(at), None, away)
        return chunk

    made = large([waits], extent=Continuous())
    assert made.session.start()
    with pytest.raises(RegistryUnreachable):
        made.session.copy()
    assert _copied(made) == {P0: [*range(at)], P1: [*range(7)]}


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_damaged_batch_behind_others_stops_when_they_are_copied(large: Callable[..., Harness], at: int) -> None:
    made = large([_decodes], damaged=[at])
    assert made.session.start()
    with pytest.raises(SourceStopped) as stopped:
        made.session.copy()
    assert isinstance(stopped.value.reason, BatchUnreadable)
    assert stopped.value.reason.offset == at
    assert _copied(made) == {P0: [*range(at)], P1: [*range(at)]}


def test_what_is_decoded_takes_the_memory_of_a_few(large: Callable[..., Harness]) -> None:
    """Of all chunks of a poll together: what was written is let go of before the next records are decoded."""
    most: list[int] = []

    def watches(chunk: Chunk) -> Chunk:
        chunk.columns()
        most.append(tracemalloc.get_traced_memory()[0])
        return chunk

    def check() -> None:
        made = large([watches])
        write = made.sink.write

        def forgets(chunk: Chunk) -> Sent:
            sent = write(chunk)
            assert made.sink._current is not None
            made.sink._current.chunks.clear()
            return sent

        made.sink.write = forgets  # type: ignore[method-assign]
        tracemalloc.start()
        made.run()
        assert len(most) == 8
        assert max(most) < 3 * SIZE

    in_a_fork(check)
