"""Which stretches a task proves, from the runs that Spark has brought to it."""

from __future__ import annotations

import pyarrow as pa

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.content.by_batches.proven_parts import CopiedStretch, ProvenPart
from k2k_assets.verification.content.by_batches.proving import WantedStretch, copied_stretches

COLUMNS = ("topic", "partition", "piece", "target_topic", "target_topic_id", "target_partition")
NUMBERS = ("source_start", "target_start", "count")
Row = tuple[str, int, int, str, str, int, int, int, int]
IDS = {"copies": "today"}


def _stretches(*rows: Row) -> list[CopiedStretch | ProvenPart]:
    columns = dict(zip((*COLUMNS, *NUMBERS), map(list, zip(*sorted(rows), strict=True)), strict=True))
    keys = sorted({row[:3] for row in rows})
    # Later stretches are more important here.
    wanted = {key: WantedStretch(-order, 100, "source-id") for order, key in enumerate(keys)}
    table = pa.table(columns)
    return copied_stretches(table.to_batches(max_chunksize=2), wanted, IDS)


def test_the_runs_of_each_stretch_in_the_order_of_importance() -> None:
    found = _stretches(
        ("a", 0, 0, "copies", "today", 3, 0, 10, 5),
        ("a", 0, 0, "copies", "today", 3, 5, 16, 5),
        ("a", 0, 50, "copies", "today", 3, 50, 70, 9),
        ("a", 1, 0, "copies", "today", 4, 0, 0, 1),
    )
    stretches = [each for each in found if isinstance(each, CopiedStretch)]
    assert [(s.source.partition, s.start, s.end, s.target, s.target_id) for s in stretches] == [
        (1, 0, 100, TopicPartition("copies", 4), "today"),
        (0, 50, 100, TopicPartition("copies", 3), "today"),
        (0, 0, 100, TopicPartition("copies", 3), "today"),
    ]
    mapped = stretches[-1].mapped
    assert (mapped.records, mapped.first_target, mapped.target_end) == (10, 10, 21)
    assert copied_stretches([], {}, {}) == []


def test_what_no_equal_bytes_can_prove_is_a_doubt_at_once() -> None:
    found = _stretches(
        ("overlapping", 0, 0, "copies", "today", 3, 0, 10, 5),
        ("overlapping", 0, 0, "copies", "today", 3, 4, 16, 5),
        ("crossing", 0, 0, "copies", "today", 3, 0, 10, 5),
        ("crossing", 0, 0, "copies", "today", 3, 5, 14, 5),
        ("scattered", 0, 0, "copies", "today", 3, 0, 10, 5),
        ("scattered", 0, 0, "copies", "today", 4, 5, 16, 5),
        ("former", 0, 0, "copies", "yesterday", 3, 0, 10, 5),
        ("gone", 0, 0, "nowhere", "today", 3, 0, 10, 5),
    )
    parts = {part.topic: part for part in found if isinstance(part, ProvenPart)}
    assert {topic: part.doubt for topic, part in parts.items()} == {
        "overlapping": "its mappings overlap",
        "crossing": "its mappings overlap",
        "scattered": "its copies lie in more than one target partition",
        "former": "the target topic copies was created anew",
        "gone": "the target topic nowhere was created anew",
    }
    assert all((part.start, part.end, part.records, part.doubt_end) == (0, 0, 0, 0) for part in parts.values())
