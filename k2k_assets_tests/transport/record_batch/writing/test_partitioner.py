"""Partitions by keys are those of Java's producer."""

from __future__ import annotations

import pytest

from k2k_assets.transport.record_batch.writing.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # From Kafka's own tests of its hash.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_a_key_has_one_partition_and_none_has_any() -> None:
    assert {partition_of(b"key", 7) for _ in range(20)} == {(murmur2(b"key") & 0x7FFFFFFF) % 7}
    assert {partition_of(None, 3) for _ in range(500)} == {0, 1, 2}
