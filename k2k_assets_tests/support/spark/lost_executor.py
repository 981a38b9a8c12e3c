"""`python -m k2k_assets_tests.support.spark.lost_executor FILE FOLDER`: updates an index, and loses executors.

Of the two tasks that fold, one is done and the other has its records in hand when the executors are killed: with them
goes what was read of the mapping topic, so Spark reads it again for the second task alone. By then the topic holds more
than before. Then the index is updated once more, without trouble. Standard output tells what it holds after each
update, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark import SparkContext

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.mapping.index import spark_jobs, update, update_index
from k2k_assets.mapping.index.tasks import FoldedPortion, fold_rows
from k2k_assets.pipeline import load_pipeline
from k2k_assets.spark.sessions import start_session
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets_tests.support.brokers.kafka import Record, produce, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.processes import executor_jvms
from k2k_assets_tests.support.memory.mapping_topic import mapping_record

PARTITIONS = 6
RECORDS = 20
LENGTH = 10
_SECONDS = 100.0
# Reached by the eleventh record: each range is read in two rounds, and the first ends in the midst of any chunk.
_MOST_BYTES = 2300


def write(copy: HandCopy, first: int, after: int) -> None:
    """Writes mapping records of as many source partitions as the mapping topic has, each into its own.

    Args:
        copy: Whose.
        first: Number of the first.
        after: That after the last one.
    """
    cluster = copy.source.cluster_id()
    for partition in range(PARTITIONS):
        records = [
            mapping_record(
                (1, number),
                (number * LENGTH, (number + 1) * LENGTH),
                [(number * LENGTH, number * (LENGTH + 1), LENGTH)],
                partition,
                group=copy.pipeline.group,
            )
            for number in range(first, after)
        ]
        messages = [
            Record(record.key_bytes(), replace(record, cluster=cluster).value_bytes(), partition=partition)
            for record in records
        ]
        produce(copy.target.servers, copy.pipeline.offset_mapping.topic, messages, transactional_id=unique("hand"))


def main(file: Path, folder: Path) -> None:
    """Updates twice."""
    update.MOST_BYTES = _MOST_BYTES
    spark_jobs.read_range = _reading(folder)  # type: ignore[assignment,attr-defined]
    spark_jobs.fold_rows = _folding(folder)  # type: ignore[assignment,attr-defined]
    pipeline = load_pipeline([file])
    copy = HandCopy(pipeline)
    # Where executors are lost for no fault of the tasks, these are tried again whatever a pipeline's session says.
    spark = start_session({**spark_conf(pipeline), "spark.task.maxFailures": "4"})
    loss = threading.Thread(target=_lose_executors, args=(spark.sparkContext, copy, folder), daemon=True)
    loss.start()
    for _ in range(2):
        index = update_index(spark, pipeline, copy.source, copy.target)
        covered = index.coverage(spark).select("partition", "covered_from", "covered_to").collect()
        runs = index.runs(spark).select("partition", "source_start", "target_start", "count").collect()
        print(json.dumps({"covered": sorted(map(list, covered)), "runs": sorted(map(list, runs))}))


def _reading(folder: Path) -> Callable[[Mapping[str, object], OffsetRange], Iterator[list[Any]]]:
    """Reads as usual, in small chunks that are of another size each time."""

    def read(properties: Mapping[str, object], wanted: OffsetRange) -> Iterator[list[Any]]:
        before = len(list(folder.glob(f"read-{wanted.partition}-{wanted.start}-*")))
        (folder / f"read-{wanted.partition}-{wanted.start}-{uuid.uuid4().hex}").touch()
        size = 3 + 2 * before
        for chunk in read_range(properties, wanted):
            yield from (chunk[start : start + size] for start in range(0, len(chunk), size))

    return read


def _folding(folder: Path) -> Callable[[Path, str, pa.Table], list[FoldedPortion]]:
    """Folds as usual; the first task to do so waits, and never gets to it."""

    def fold(root: Path, segment: str, rows: pa.Table) -> list[FoldedPortion]:
        try:
            (folder / "waiting").touch(exist_ok=False)
        except FileExistsError:
            return fold_rows(root, segment, rows)
        threading.Event().wait(_SECONDS)
        raise AssertionError("the executor lives")

    return fold


def _lose_executors(spark: SparkContext, copy: HandCopy, folder: Path) -> None:
    wait_until((folder / "waiting").exists, _SECONDS, "a task to wait")
    wait_until(lambda: _other_is_done(spark), _SECONDS, "the other task to be done")
    write(copy, RECORDS, RECORDS + 1)
    for executor in executor_jvms(psutil.Process(os.getpid())):
        executor.kill()


def _other_is_done(spark: SparkContext) -> bool:
    tracker = spark.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(stage and (stage.numTasks, stage.numCompletedTasks) == (2, 1) for stage in stages)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
