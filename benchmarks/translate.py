"""Measures the translation of offsets: in this process, and as a column of a Spark DataFrame on two cores.

    python -m benchmarks.translate                  # 20 million rows, two indexes: a million runs, and 26 million
    python -m benchmarks.translate --rows 2000000   # fewer, to try the benchmark itself
    python -m benchmarks.translate --append         # the same, appended to RESULTS.md

No brokers: the index is written as an update would have left it, and read by the tasks as always.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import machine, report
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets.mapping.index.manifest import Manifest, NotedPosition, Segment
from k2k_assets.mapping.index.portion_table import to_table, write_portions
from k2k_assets.mapping.index.portions import Portion
from k2k_assets.mapping.index.segment_files import SegmentFile
from k2k_assets.translation.frame import FrameIndex, translated
from k2k_assets.translation.frame_tasks import MOST_RUNS
from k2k_assets.translation.routes import Routes, Standing

PARTITIONS = 10
RUNS = (1_000_000, 26_000_000)
LOOKUPS = 1_000_000
REPEAT = 3
GOAL = "1,000,000"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translate", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    rows = look_ups()
    spark = _session()
    for runs in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            report.progress(f"writing an index of {runs:,} runs")
            rows += columns(spark, written_index(Path(folder), runs), options.rows)
    words = machine.listed()
    title = "### Translation of offsets\n\nBest of three; random positions in ten partitions"
    sections = [f"{title}\n\n{words}", report.table(["what", "per second", "goal: above"], rows)]
    report.publish(sections, options.append)


def look_ups() -> list[list[str]]:
    """Positions in one array, in this process."""
    target = Target("orders", "target-id", 0)
    table, end = history(0, RUNS[1] // PARTITIONS)
    mapping = PartitionMap(_source(0), 0, (Covered(0, end),), {target: table})
    draw = np.random.default_rng(1)
    rows = []
    for name, ask, top in (("translate", translate, end), ("translate_back", translate_back, table.target_end)):
        positions = draw.integers(0, top, LOOKUPS)
        took = min(_seconds(lambda ask=ask, at=positions: ask(mapping, target, at)) for _ in range(REPEAT))
        rows.append([f"{name}, {len(table):,} runs, one array", _rate(LOOKUPS, took), GOAL])
    return rows


def columns(spark: SparkSession, index: FrameIndex, count: int) -> list[list[str]]:
    """Rows of a DataFrame, on two cores; the rows alone for comparison."""
    end = min(position.position for position in index.manifest.positions)
    frame = spark.range(count).select(
        F.lit("orders").alias("topic"),
        (F.col("id") % PARTITIONS).cast("int").alias("partition"),
        F.pmod(F.xxhash64("id"), F.lit(end)).alias("offset"),
    )
    first = translated(frame.limit(100_000), index).groupBy("state").count().collect()
    if [row["state"] for row in first] != [TranslationState.EXACT.label]:
        raise AssertionError(f"not all positions were translated: {first}")
    runs, rows = f"index of {index.manifest.runs:,} runs", []
    for name, made in (
        ("the rows alone, made by Spark", frame),
        (f"DataFrame, {runs}", translated(frame, index)),
        (f"DataFrame, {runs}, reverse", translated(frame, index, reverse=True)),
    ):
        took = min(_seconds(lambda made=made: _run(made)) for _ in range(REPEAT))
        report.progress(f"{name}: {took:.1f} s")
        rows.append([name, _rate(count, took), GOAL if made is not frame else ""])
    return rows if index.manifest.runs <= MOST_RUNS else rows[1:]


def written_index(root: Path, runs: int) -> FrameIndex:
    """An index of one segment, all partitions alike but for their gaps."""
    portions, positions = [], []
    for partition in range(PARTITIONS):
        table, end = history(partition, runs // PARTITIONS)
        with SegmentFile(root, "generated") as file:
            piece = file.add(_source(partition), Target("orders", "target-id", partition), table)
            covered = Covered(0, end)
            orders = Order(1, 1), Beginning(1, 1, 0), Order(1, 1)
            portions.append(
                Portion(_source(partition), "generated", file.name, 0, end, (covered,), *orders, 0, 0, 1, (piece,))
            )
        positions.append(
            NotedPosition(
                topic="orders", partition=partition, source_topic_id="source-id", position=end, records=end, began=0
            )
        )
    manifest = Manifest(
        pipeline="bench",
        group="bench",
        source_cluster="source",
        target_cluster="target",
        mapping_topic="mappings",
        mapping_topic_id="mapping-id",
        offsets={},
        directory="generated",
        number=1,
        time=0,
        records_read=runs,
        runs=runs,
        mapped=sum(portion.mapped for portion in portions),
        segments=[Segment(name="generated", runs=runs, mapped=0, since=0, until=0)],
        positions=positions,
    )
    write_portions(root, manifest.directory, to_table(portions))
    standing = Standing({"orders": "source-id"}, {}), Standing({"orders": "target-id"}, {})
    return FrameIndex(root, manifest, Routes("source", {"orders": "orders"}, frozenset(), *standing))


def history(partition: int, runs: int) -> tuple[RunTable, int]:
    """Transactions of 1 to 200 records with markers between them; also the end of the source log."""
    draw = np.random.default_rng(partition)
    counts = draw.integers(1, 201, runs)
    after = np.cumsum(counts + draw.integers(0, 3, runs))
    targets = np.cumsum(counts + draw.integers(1, 3, runs))
    table = RunTable(np.concatenate(([0], after[:-1])), np.concatenate(([0], targets[:-1])), counts)
    return table, int(after[-1])


def _source(partition: int) -> SourcePartition:
    return SourcePartition("source", "orders", "source-id", partition)


def _session() -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def _run(frame: DataFrame) -> Any:
    # Makes every column of every row, and keeps none.
    return frame.write.format("noop").mode("overwrite").save()


def _seconds(action: Any) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}"


if __name__ == "__main__":
    main()
