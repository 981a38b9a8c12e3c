"""What the DataFrame function takes from the index and the commit topic when the source does not answer."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from k2k_assets.core.stops.reasons.source_log import SourceDiverged
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import Manifest, NotedPosition
from k2k_assets.translation.frame import copied_last, source_logs
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record


def _manifest(*positions: NotedPosition) -> Manifest:
    return Manifest(
        group="g",
        source_cluster="c",
        target_cluster="t",
        mapping_topic="m",
        mapping_topic_id="id",
        offsets={},
        pipeline="p",
        directory="d",
        number=1,
        time=0,
        records_read=0,
        runs=0,
        mapped=0,
        positions=list(positions),
    )


def test_a_topic_that_was_created_anew_with_fewer_partitions_is_the_new_one() -> None:
    """Else all of it is answered by the mappings of the former one, and called exact."""
    former = [
        NotedPosition(topic="s", partition=p, source_topic_id="old", position=9, records=9, generation=1, sequence=p)
        for p in (2, 3)
    ]
    anew = [
        NotedPosition(topic="s", partition=p, source_topic_id="new", position=5, records=5, generation=2, sequence=1)
        for p in (0, 1)
    ]
    assert copied_last(_manifest(*anew, *former)) == {"s": "new"}


def test_a_source_that_cannot_be_asked_is_what_the_stop_of_the_copy_says(tmp_path: Path) -> None:
    """Be it away as a whole, or a partition without a leader; the index was built before the copy has stopped."""
    at = TopicPartition("s", 0)
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["s"])
    indexed = NotedPosition(topic="s", partition=0, source_topic_id="id", position=100, records=9, leader_epoch=0)
    stopped = commit_record(at, 100, leader_epoch=0, source_topic_id="id", reason=SourceDiverged(at, 100, 40))
    copied = {SourcePartition("c", "s", "id", 0): stopped, SourcePartition("c", "s", "former", 0): stopped}
    known = Routes("c", {"s": "s"}, frozenset(), Standing({"s": "id"}, {}), Standing({}, {}))
    assert source_logs(pipeline, None, _manifest(indexed), known, copied) == {at: 40}
    source = Mock(spec=Cluster)
    source.led_ends.return_value = (LedOffsets({}, {at: "no leader"}), {})
    assert source_logs(pipeline, source, _manifest(indexed), known, copied) == {at: 40}
