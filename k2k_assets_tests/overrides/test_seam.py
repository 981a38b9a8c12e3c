"""The seam of an adopted copy where records are alike: told apart by time, by those before them, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.overrides.seam import Log, Seam, look_at_seam


@dataclass(frozen=True)
class At:
    """A record at an offset."""

    n: int
    content: bytes
    time: int
    by_broker: bool = False

    def key(self) -> None: ...

    def value(self) -> bytes:
        return self.content

    def offset(self) -> int:
        return self.n

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_LOG_APPEND_TIME if self.by_broker else TIMESTAMP_CREATE_TIME, self.time


@dataclass(frozen=True, slots=True)
class Told(Log):
    """A log of these records."""

    records: Sequence[At] = ()

    def read(self, start: int, end: int) -> list[Any]:
        return [record for record in self.records if start <= record.n < end]


def log(values: bytes, times: Sequence[int] | None = None, by_broker: bool = False) -> Told:
    """A record for each byte; without times each has one of its own, from 1000 on."""
    told = times or range(1000, 1000 + len(values))
    records = [At(n, bytes([value]), time, by_broker) for n, (value, time) in enumerate(zip(values, told, strict=True))]
    return Told({}, TopicPartition("t", 0), 0, len(records), records)


def seam(source: Told, target: Told, position: int) -> Seam:
    return look_at_seam(source, target, position)


@pytest.mark.parametrize(
    ("position", "said"),
    [(2, "2 to 2 would be copied a second time"), (3, ""), (4, "3 to 3 would never be copied")],
)
def test_records_alike_are_told_apart_by_their_time(position: int, said: str) -> None:
    """Such as heartbeats: each has the content of the one before."""
    found = seam(log(b"xxxxx"), log(b"xxx"), position)
    assert (found.fits, found.fitting, said in found.words) == (not said, 3 if said else None, True)


@pytest.mark.parametrize("by_broker", [False, True])
def test_without_their_time_by_the_records_before_them(by_broker: bool) -> None:
    source, target = log(b"abxcdxefx"), log(b"abxcdx", range(5000, 5006), by_broker)
    assert seam(source, target, 6) == Seam(True)
    assert (seam(source, target, 9).fitting, seam(source, target, 3).fitting) == (6, 6)


def test_what_cannot_be_told_apart_is_doubtful() -> None:
    source, target = log(b"xxxxx"), log(b"xxx", range(5000, 5003))
    for position in (2, 3, 4):
        found = seam(source, target, position)
        assert (found.fits, found.fitting) == (False, None)
        assert "are alike" in found.words
    burst = [1000] * 5
    assert not seam(log(b"xxxxx", burst), log(b"xxx", burst[:3]), 4).fits, "all of one millisecond"


def test_one_record_of_its_kind_needs_no_time() -> None:
    source, target = log(b"abcde"), log(b"abc", range(5000, 5003))
    assert seam(source, target, 3) == Seam(True)
    assert (seam(source, target, 2).fitting, seam(source, target, 5).fitting) == (3, 3)


def test_both_empty_or_only_one() -> None:
    """Without records on both sides there is nothing to compare, unless the target holds some of others."""
    assert seam(log(b""), log(b""), 0) == Seam(True)
    assert seam(log(b"abc"), log(b""), 0) == Seam(True)
    assert seam(log(b"abc"), log(b""), 2).fitting == 0
    assert "none of the source's near it" in seam(log(b"abc"), log(b"z"), 2).words


def test_a_gap_below_the_position() -> None:
    """Markers, or what compaction took: the last record lies far below."""
    far = Told({}, TopicPartition("t", 0), 0, 9000, [At(n, b"%d" % n, n) for n in range(5)])
    assert seam(far, log(b"01234", range(5)), 8999) == Seam(True)
    assert seam(far, log(b"0123", range(4)), 8999).fitting == 4
