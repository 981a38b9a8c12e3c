"""Checkpoints as a whole, without clusters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.live.live import Cut
from k2k_assets.translation.checkpoints import checkpoint
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets.translation.translator import OffsetTranslator
from k2k_assets_tests.support.copies.pipelines import make_pipeline

S0, T0, T1 = TopicPartition("s", 0), TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_target_partition_without_a_leader_leaves_the_answer_incomplete(tmp_path: Path) -> None:
    """Half a checkpoint would skip records, or be refused by Spark."""
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["s"], sink={"static": "t"}, partition="producer")
    source = SourcePartition("c", "s", "sid", 0)
    tables = {Target("t", "tid", q): RunTable.of([Run(2 * q, 0, 2)]) for q in range(2)}
    mapping = PartitionMap(source, 0, (Covered(0, 4),), tables)

    def translated(offline_partitions: dict[TopicPartition, str]) -> dict[TopicPartition, str]:
        led = {tp: 0 for tp in (T0, T1) if tp not in offline_partitions}
        cut = Cut({"t": "tid"}, led, dict.fromkeys(led, 2), offline_partitions)
        routes = Routes("c", {"s": "t"}, False, Standing({"s": "sid"}, {S0: 0}), Standing({"t": "tid"}, led))
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
        )
        found = checkpoint(cast("OffsetTranslator", known), {S0: 1})
        assert found.complete is not bool(offline_partitions)
        return {row.partition: f"{row.offset} {row.state}" for row in found.partitions}

    assert translated({}) == {T0: "1 exact", T1: "0 exact"}
    assert translated({T1: "no leader"}) == {T0: "1 exact", T1: "None unknown"}
