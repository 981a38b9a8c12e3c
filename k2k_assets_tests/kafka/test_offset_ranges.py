"""Bulk reading of offset ranges: exactly the committed records in the range, and it always ends."""

from __future__ import annotations

import pytest

from k2k_assets.kafka import offset_ranges
from k2k_assets.kafka.offset_ranges import OffsetRange, ReadStalled, read_range
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_records, end_offsets, produce, unique

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    return create_topic(clusters.source_servers, unique("ranges"))


def _read(clusters: KafkaSandbox, wanted: OffsetRange, skip_deleted: bool = False) -> list[int]:
    properties = {"bootstrap.servers": clusters.source_servers}
    return [message.offset() for chunk in read_range(properties, wanted, skip_deleted) for message in chunk]


def test_only_what_was_asked_for(clusters: KafkaSandbox, topic: str) -> None:
    produce(clusters.source_servers, topic, [b"x"] * 20)
    assert _read(clusters, OffsetRange(topic, 0, 5, 12)) == list(range(5, 12))
    assert _read(clusters, OffsetRange(topic, 0, 12, 20)) == list(range(12, 20))
    assert _read(clusters, OffsetRange(topic, 0, 7, 7)) == []


def test_a_range_that_ends_in_markers_and_aborted_records_ends(clusters: KafkaSandbox, topic: str) -> None:
    produce(clusters.source_servers, topic, [b"x"] * 3, transactional_id=unique("t"))
    produce(clusters.source_servers, topic, [b"never"] * 3, abort=True)
    end = end_offsets(clusters.source_servers, topic, "read_committed")[0]
    assert _read(clusters, OffsetRange(topic, 0, 0, end)) == [0, 1, 2]


def test_what_retention_removed_meanwhile_is_an_error_or_left_out(clusters: KafkaSandbox, topic: str) -> None:
    produce(clusters.source_servers, topic, [b"x"] * 10)
    delete_records(clusters.source_servers, topic, 0, 6)
    with pytest.raises(ReadStalled, match=f"reading {topic}-0 from 0 to 10 stopped at 0"):
        _read(clusters, OffsetRange(topic, 0, 0, 10))
    assert _read(clusters, OffsetRange(topic, 0, 0, 10), skip_deleted=True) == [6, 7, 8, 9]
    assert _read(clusters, OffsetRange(topic, 0, 0, 5), skip_deleted=True) == []


def test_a_partition_that_delivers_nothing_is_named(
    clusters: KafkaSandbox, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_ranges, "STALL_SECONDS", 1.0)
    with pytest.raises(ReadStalled, match=f"reading {topic}-0 from 0 to 5 stopped at 0"):
        _read(clusters, OffsetRange(topic, 0, 0, 5))
