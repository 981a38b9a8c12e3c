"""Checkpoints as a whole, without clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.live.live import Cut
from k2k_assets.translation.checkpoints import TranslatedCheckpoint, checkpoint, checkpoint_back
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets.translation.translator import OffsetTranslator, TranslatedOffset
from k2k_assets_tests.support.copies.pipelines import make_pipeline

S0, T0, T1, T2 = TopicPartition("s", 0), *(TopicPartition("t", n) for n in range(3))


def test_a_target_partition_without_a_leader_leaves_the_answer_incomplete(tmp_path: Path) -> None:
    """Half a checkpoint would skip records, or be refused by Spark."""
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["s"], sink={"static": "t"}, partition="producer")
    source = SourcePartition("c", "s", "sid", 0)
    tables = {Target("t", "tid", q): RunTable.of([Run(2 * q, 0, 2)]) for q in range(2)}
    mapping = PartitionMap(source, 0, (Covered(0, 4),), tables)

    def translated(offline_partitions: dict[TopicPartition, str]) -> dict[TopicPartition, str]:
        led = {tp: 0 for tp in (T0, T1) if tp not in offline_partitions}
        cut = Cut({"t": "tid"}, led, dict.fromkeys(led, 2), offline_partitions)
        routes = Routes("c", {"s": "t"}, frozenset({"s"}), Standing({"s": "sid"}, {S0: 0}), Standing({"t": "tid"}, led))
        mappings = SimpleNamespace(
            copied=lambda: {source: SimpleNamespace(position=4)}, map_of=lambda *_: mapping, cut=cut
        )
        known: Any = SimpleNamespace(
            pipeline=pipeline,
            routes=routes,
            cut=cut,
            other_way=None,
            mappings=mappings,
            ensure_copied=lambda topic: source,
            partitions_of=lambda topics: [source],
            source_logs=lambda partitions: {S0: 4},
            source_ends=lambda partitions: {S0: 4},
        )
        found = checkpoint(cast("OffsetTranslator", known), {S0: 1})
        assert found.complete is not bool(offline_partitions)
        return {row.partition: f"{row.offset} {row.state}" for row in found.partitions}

    assert translated({}) == {T0: "1 exact", T1: "0 exact"}
    assert translated({T1: "no leader"}) == {T0: "1 exact", T1: "None unknown"}
    # Nothing of the topic goes to this one; a reader on the target would still have to begin somewhere in it.
    assert translated({T2: "no leader"}) == {T0: "1 exact", T1: "0 exact", T2: "None unknown"}


def _back(
    folder: Path,
    records: int,
    read: Mapping[TopicPartition, int],
    offline: Mapping[TopicPartition, str] | None = None,
    log_ends: Sequence[int] | None = None,
) -> TranslatedCheckpoint:
    """The checkpoint back of who has read this much of each partition, of which as many records were copied."""
    pipeline = make_pipeline(folder, "s:1", "t:1", ["s"], sink={"static": "t"}, partition="source")
    sources = [SourcePartition("c", "s", "sid", at.partition) for at in read]
    covered = (Covered(0, records),)
    maps = {
        each: PartitionMap(each, 0, covered, {Target("t", "tid", each.partition): RunTable.of([Run(0, 0, records)])})
        for each in sources
    }
    there = Standing({"s": "sid"}, {S0: 0}, offline or {})
    known: Any = SimpleNamespace(
        pipeline=pipeline,
        routes=Routes("c", {"s": "t"}, frozenset(), there, Standing({"t": "tid"}, {})),
        cut=Cut({"t": "tid"}, {}, dict.fromkeys(read, records), {}),
        other_way=None,
        mappings=SimpleNamespace(map_of=lambda source, lowest: maps[source]),
        ensure_copied_to=lambda topic: ["s"],
        partitions_of=lambda topics: sources,
        source_logs=lambda partitions: dict(zip(partitions, log_ends, strict=True)) if log_ends else {},
    )
    return checkpoint_back(cast("OffsetTranslator", known), read)


def _back_with_nothing_from(
    folder: Path,
    one: PartitionMap,
    other_way: SimpleNamespace | None = None,
    read: Mapping[TopicPartition, int] | None = None,
    at_least_once: bool = False,
) -> list[str]:
    """The way back where s-0 is copied, s-1 has a map without runs, and of s-2 not even a start is noted."""
    pipeline = make_pipeline(folder, "s:1", "t:1", ["s"], sink={"static": "t"}, partition="source")
    runs = {Target("t", "tid", 0): RunTable.of([Run(0, 0, 4)])}
    maps = {0: PartitionMap(one.source._replace(partition=0), 0, (Covered(0, 4),), runs), 1: one}
    starts = {TopicPartition("s", n): n for n in range(3)}
    there = Standing({"s": "sid"}, starts)
    known: Any = SimpleNamespace(
        pipeline=pipeline,
        routes=Routes("c", {"s": "t"}, frozenset(), there, Standing({"t": "tid"}, {}), at_least_once),
        cut=Cut({"t": "tid"}, {}, {T0: 4, T1: 0, T2: 0}, {}),
        other_way=other_way,
        mappings=SimpleNamespace(
            map_of=lambda source, _: maps.get(source.partition, PartitionMap(source, None, (), {}))
        ),
        ensure_copied_to=lambda topic: ["s"],
        partitions_of=lambda topics: [each.source for each in maps.values()],
        source_logs=lambda partitions: {},
        translate_back=lambda topic, partition, offsets: [
            TranslatedOffset(topic, partition, offsets[0], "s", partition, 7 + partition, "exact")
            if partition in maps
            else TranslatedOffset(topic, partition, offsets[0], None, None, None, "not replicated")
        ],
    )
    found = checkpoint_back(cast("OffsetTranslator", known), read or {T0: 2, T1: 0, T2: 0})
    return [f"{row.offset} {row.state}" for row in found.partitions]


S1 = SourcePartition("c", "s", "sid", 1)


def test_a_reader_goes_back_to_the_log_start_of_what_was_never_copied(tmp_path: Path) -> None:
    """Else no checkpoint comes back as long as one partition has no record, and Spark wants all partitions."""
    begun = PartitionMap(S1, 9, (Covered(9, 9),), {}, log_start=9)
    left_out = replace(begun, covered=(Covered(9, 40),))
    for one in (begun, left_out, replace(begun, covered=())):
        assert _back_with_nothing_from(tmp_path, one) == ["2 exact", "1 exact", "2 exact"]
    without_mappings = replace(begun, covered=(Covered(40, 40),))
    adopted = replace(begun, target_began=8)
    for one in (without_mappings, adopted):
        assert _back_with_nothing_from(tmp_path, one) == ["2 exact", "None unknown", "2 exact"]


def test_at_least_once_copies_may_have_been_read_that_are_not_mapped(tmp_path: Path) -> None:
    begun = PartitionMap(S1, 9, (Covered(9, 9),), {}, log_start=9)
    found = _back_with_nothing_from(tmp_path, begun, read={T0: 2, T1: 3, T2: 0}, at_least_once=True)
    assert found == ["2 exact", "1 may be read again", "2 exact"]


def test_where_both_sides_are_written_the_other_way_tells_of_what_was_never_copied(tmp_path: Path) -> None:
    begun = PartitionMap(S1, 9, (Covered(9, 9),), {}, log_start=9)
    other_way = SimpleNamespace(concerns=lambda source: True)
    assert _back_with_nothing_from(tmp_path, begun, other_way) == ["7 exact", "8 exact", "None not replicated"]


def test_a_source_partition_without_a_leader_leaves_the_way_back_incomplete(tmp_path: Path) -> None:
    found = _back(tmp_path, 4, {T0: 2, T1: 3}, offline={TopicPartition("s", 1): "no leader"})
    assert not found.complete
    rows = {row.partition: (row.offset, row.state) for row in found.partitions}
    assert rows == {S0: (2, "exact"), TopicPartition("s", 1): (None, "unknown")}


def test_on_the_way_back_a_checkpoint_ends_where_the_source_was_cut_off(tmp_path: Path) -> None:
    """What has been written there since is read by nobody who has read copies of what was lost."""
    found = _back(tmp_path, 9, {T0: 7, T1: 7, T2: 7}, log_ends=(4, 0, NOT_KNOWN))
    assert [(row.offset, row.state) for row in found.partitions] == [(4, "exact"), (0, "exact"), (None, "unknown")]
