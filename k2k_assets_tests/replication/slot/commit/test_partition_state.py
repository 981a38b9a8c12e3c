"""What a partition's commit records keep of the ones before."""

from __future__ import annotations

from pathlib import Path

from k2k_assets.core.stops.reasons.source_log import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.commit.partition_state import PartitionState, commit_record
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory import plans

P0 = TopicPartition("t", 0)


def test_that_the_source_was_cut_off_is_not_forgotten_by_a_run_that_ends_before_it_meets_it_again(
    tmp_path: Path,
) -> None:
    slot = plans.slot_plan(make_pipeline(tmp_path, "a:1", "b:1", ["t"]), {P0: 140})
    stopped = plans.commit_record(P0, 100, reason=SourceDiverged(P0, 100, 40))
    state = PartitionState.of(slot, slot.partitions[0], stopped)
    released = commit_record(slot, state, "release", 1, 0)
    assert (released.reason, released.source_was_cut) == (None, True)
