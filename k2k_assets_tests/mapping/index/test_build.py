"""The index as Spark reads it, from files that were written without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets_tests.support.memory.mapping_topic import LocalIndex, mapping_record


@pytest.mark.spark
def test_in_a_segment_that_is_cut_the_stretches_of_one_source_are_read_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Mappings of partition 0 are missing from 100 to 199; partition 2 lies in the same file, and is set back."""
    index = LocalIndex(tmp_path / "index")
    index.topic.write(
        mapping_record((1, 1), (0, 100), [(0, 0, 100)]),
        mapping_record((3, 1), (200, 300), [(200, 300, 100)]),
        mapping_record((1, 2), (0, 100), [(0, 0, 100)], partition=2),
    )
    index.update()
    index.topic.write(mapping_record((4, 1), (50, 60), [(50, 500, 10)], partition=2))
    manifest = index.update()
    found = MappingIndex(index.root, manifest, read_portions(index.root, manifest.directory)).runs(spark)
    rows = sorted((row.partition, row.source_start, row.target_start, row["count"]) for row in found.collect())
    assert rows == [(0, 0, 0, 100), (0, 200, 300, 100), (2, 0, 0, 50), (2, 50, 500, 10)]
