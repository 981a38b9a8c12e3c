"""Sources: every committed record once, in order, with its offset; a loud stop if that is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.factory import RECORDS, SOURCES
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    SECONDS,
    create_topic,
    delete_records,
    produce,
    read_all,
    speed_up_compaction,
    unique,
)
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.transport.conformance.ends import Ends, RealEnds, opened, placed, read


@pytest.mark.parametrize("limit", [1000, 7])
def test_records_come_once_and_in_order(source_ends: Ends, limit: int) -> None:
    source_ends.write(50)
    source_ends.write(30)
    source = opened(source_ends)
    chunks, end = read(source_ends, source, limit)
    source.close()
    assert placed(chunks) == source_ends.committed()
    assert end == 80
    assert all(chunk.source == source_ends.source for chunk in chunks)
    assert sum(chunk.count for chunk in chunks) == 80
    assert all(chunk.contiguous and chunk.records.size() > 0 for chunk in chunks)
    assert all(chunk.records.first_timestamp == chunk.columns().timestamps()[0] for chunk in chunks)
    assert [chunk.first_offset for chunk in chunks[1:]] == [chunk.last_offset + 1 for chunk in chunks[:-1]]


def test_what_comes_later_is_brought_too_and_the_end_is_told_again(source_ends: Ends) -> None:
    source_ends.write(3)
    source = opened(source_ends)
    assert read(source_ends, source)[1] == 3
    source.close()
    source_ends.write(2)
    source = opened(source_ends, Position(3))
    chunks, end = read(source_ends, source)
    source.close()
    assert (placed(chunks), end) == (source_ends.committed()[3:], 5)


def test_what_is_assigned_anew_is_read_from_there_and_what_is_not_is_not_read(source_ends: Ends) -> None:
    """While there is more to read of it, and some of that was fetched already."""
    source_ends.write(50)
    source_ends.write(30)
    source = opened(source_ends)
    wait_until(lambda: bool(source.poll(7, 0.1).chunks), SECONDS, "some records")
    source.assign({})
    for _ in range(5):
        polled = source.poll(1000, 0.05)
        assert (polled.chunks, polled.ends) == ([], {})
    source.assign({source_ends.source: Position(50)})
    chunks, end = read(source_ends, source)
    source.close()
    assert (placed(chunks), end) == (source_ends.committed()[50:], 80)


def test_aborted_records_are_left_out_and_the_end_lies_behind_their_marker(source_ends: Ends) -> None:
    source_ends.write(5)
    source_ends.abort(4)
    source_ends.write(5)
    source_ends.abort(2)
    source = opened(source_ends)
    chunks, end = read(source_ends, source)
    source.close()
    assert placed(chunks) == source_ends.committed()
    assert [record.offset for record in source_ends.committed()] == [*range(5), *range(10, 15)]
    assert end == source_ends.log_end() == 18


@pytest.mark.parametrize("start", [1, 19, 20])
def test_it_begins_right_at_a_position_also_inside_a_batch(source_ends: Ends, start: int) -> None:
    source_ends.write(20)
    source_ends.write(20)
    source = opened(source_ends, Position(start))
    chunks, _ = read(source_ends, source)
    source.close()
    assert placed(chunks) == source_ends.committed()[start:]


@pytest.mark.own_clusters
def test_what_compaction_has_left_keeps_its_offsets(clusters: KafkaSandbox, tmp_path: Path, real_source: str) -> None:
    """Every other record of a batch is gone: its offsets have gaps inside."""
    speed_up_compaction(clusters.source_servers)
    eager = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    ends = RealEnds(RECORDS, clusters, tmp_path, topic_config=eager, source=real_source)
    servers, topic = clusters.source_servers, ends.source.topic
    for _ in range(2):
        kept_and_gone = [(key, b"value") for n in range(10) for key in (b"k%d" % n, b"gone")]
        produce(servers, topic, kept_and_gone, 0)

    def compacted() -> bool:
        produce(servers, topic, [(b"gone", b"rolls the segment")], 0)
        return sum(record.key != b"gone" for record in read_all(servers, topic)) == 10

    wait_until(compacted, PATIENCE, "the cleaner", interval=0.2)
    source = opened(ends)
    chunks, _ = read(ends, source)
    source.close()
    found = placed(chunks)
    kept = [record for record in found if record.key != b"gone"]
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert kept == [(20 + 2 * n, b"k%d" % n, b"value") for n in range(10)]
    assert not all(chunk.contiguous for chunk in chunks)


@pytest.mark.parametrize("gap", ["deleted", "cut off"])
def test_a_position_that_the_log_no_longer_has_stops_it(
    clusters: KafkaSandbox, tmp_path: Path, real_source: str, gap: str
) -> None:
    ends = RealEnds(RECORDS, clusters, tmp_path, source=real_source)
    ends.write(10)
    if gap == "deleted":
        delete_records(clusters.source_servers, ends.source.topic, 0, 6)
    with pytest.raises(SourceStopped) as stop:
        read(ends, opened(ends, Position(4 if gap == "deleted" else 14)))
    assert stop.value.partition == ends.source
    assert ("4" if gap == "deleted" else "14") in render(stop.value.reason)


def test_markers_before_the_position_that_are_deleted_by_now_stop_nothing(
    clusters: KafkaSandbox, tmp_path: Path, real_source: str
) -> None:
    """They are read once more only because the leader epoch of the last record holds before them."""
    ends = RealEnds(RECORDS, clusters, tmp_path, source=real_source)
    ends.write(10)
    ends.abort(4)
    delete_records(clusters.source_servers, ends.source.topic, 0, 15)
    source = opened(ends, Position(10, 0, 15))
    assert read(ends, source)[1] == 15
    ends.write(3)
    chunks, end = read(ends, source)
    source.close()
    assert ([record.offset for record in placed(chunks)], end) == ([15, 16, 17], 18)


def test_markers_before_the_position_do_not_hide_that_more_is_deleted(
    clusters: KafkaSandbox, tmp_path: Path, real_source: str
) -> None:
    ends = RealEnds(RECORDS, clusters, tmp_path, source=real_source)
    ends.write(10)
    ends.abort(4)
    ends.write(3)
    delete_records(clusters.source_servers, ends.source.topic, 0, 16)

    def stop() -> SourceStopped | None:
        with pytest.raises((SourceStopped, Restart)) as found:
            read(ends, opened(ends, Position(10, 0, 15)))
        return found.value if isinstance(found.value, SourceStopped) else None

    # A session begins anew where the library cannot seek yet.
    stopped = wait_until(stop, SECONDS, "the stop")
    assert stopped is not None
    assert isinstance(stopped.reason, RecordsDeleted)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossySource]:
    """On a broker of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("source")) as own:
        yield LossySource(own)


def test_a_log_that_was_cut_off_and_has_grown_again_stops_it(
    lossy: LossySource, tmp_path: Path, real_source: str
) -> None:
    """Only the leader epoch tells that other records are there now (KIP-320)."""
    topic = TopicPartition(create_topic(lossy.servers, unique("cut")), 0)
    pipeline = make_pipeline(tmp_path, lossy.servers, lossy.servers, [topic.topic])
    lossy.write(topic.topic, "kept", 40)
    lossy.mark(topic.topic)
    lossy.write(topic.topic, "lost", 60)
    source = SOURCES[real_source](pipeline)
    source.assign({topic: Position(99)})
    (last,) = wait_until(lambda: source.poll(10, 0.1).chunks, SECONDS, "the last record")
    source.close()
    lossy.lose()
    lossy.write(topic.topic, "new", 100)
    again = SOURCES[real_source](pipeline)
    again.assign({topic: Position(100, last.records.leader_epoch)})

    def stopped() -> StopReason | None:
        try:
            polled = again.poll(10, 0.1)
        except SourceStopped as stop:
            return stop.reason
        assert not polled.chunks
        return None

    reason = wait_until(stopped, SECONDS, "the truncation to be told")
    assert reason is not None
    assert "truncated at 40" in render(reason)
    again.close()
