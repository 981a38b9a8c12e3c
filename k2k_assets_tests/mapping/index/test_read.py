"""Look-ups without Spark: the part that is loaded for a position answers like the whole index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.mapping.algebra.fold import NEVER, Covered, Order
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate
from k2k_assets.mapping.index import merging, segment_files
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets_tests.support.memory.mapping_topic import (
    CLUSTERS,
    LocalIndex,
    folded_at_once,
    histories,
    mapping_record,
    unique_root,
)
from k2k_assets_tests.support.suite.properties import examples


@examples(15)
@given(records=histories(most=40), data=st.data())
def test_a_look_up_answers_as_the_fold_of_all_does(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    index = LocalIndex(unique_root(tmp_path_factory.getbasetemp()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_files, "ROWS_PER_GROUP", 4)
        patch.setattr(merging, "MOST_OF_A_TIER", data.draw(st.sampled_from([2, 100])))
        while records:
            count = data.draw(st.integers(1, len(records)))
            written, records = records[:count], records[count:]
            for record in written:
                index.topic.write(record, partition=record.partition)
            index.update()
    if not any(index.topic.partitions):
        return
    everything = [MappingRecord.parse(m.key(), m.value()) for messages in index.topic.partitions for m in messages]
    reader = index.reader()
    for source, whole in folded_at_once(everything).items():
        for low in data.draw(st.sets(st.integers(0, whole.covered_end + 1), max_size=8)):
            high = low + data.draw(st.integers(0, 5))
            part = reader.partition_map(source, low, high)
            assert part.covered == whole.covered
            assert _covered(part.skipped, part) == _covered(whole.skipped, whole)
            assert set(part.runs) <= set(whole.runs)
            positions = np.arange(low, high + 1)
            for target in whole.runs:
                wanted, found = translate(whole, target, positions), translate(part, target, positions)
                assert found.offsets.tolist() == wanted.offsets.tolist()
                if target in part.runs:
                    assert found.states.tolist() == wanted.states.tolist()
                else:  # runs that nothing covers may be gone: they answer nothing
                    assert set(wanted.states.tolist()) <= {TranslationState.UNKNOWN, TranslationState.NOT_REPLICATED}


def _covered(ranges: Iterable[Covered], of: PartitionMap) -> list[tuple[int, int]]:
    """What of some ranges is covered."""
    parts = ((max(one.start, each.start), min(one.end, each.end)) for one in ranges for each in of.covered)
    return [(start, end) for start, end in parts if start < end]


def test_what_is_known_of_each_source_partition(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path)
    index.topic.positions = [
        NotedPosition(topic="s", partition=1, source_topic_id="sid", position=5, records=5, began=2)
    ]
    index.topic.write(mapping_record((1, 7), (2, 5), [(2, 0, 3)], partition=1))
    index.topic.write(mapping_record((1, 8), (0, 5), partition=0, topic_id="former"))
    index.update()
    reader = index.reader()
    former, today = (SourcePartition(CLUSTERS[0], "s", id_, p) for id_, p in (("former", 0), ("sid", 1)))
    assert reader.sources() == [former, today]
    assert [reader.partition_map(source).began for source in (former, today)] == [None, 2]
    assert [reader.newest(source) for source in (former, today)] == [Order(1, 8), Order(1, 7)]
    stranger = former._replace(topic="another")
    assert reader.newest(stranger) == NEVER
    assert (reader.partition_map(stranger).covered, reader.partition_map(stranger).runs) == ((), {})


@pytest.mark.processes
def test_neither_spark_nor_java_is_needed() -> None:
    code = "import sys; from k2k_assets.mapping.index import IndexReader; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
