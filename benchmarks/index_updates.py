"""Measures whole updates of an index of many portions: brokers, commit log, Spark, and the driver.

    python -m benchmarks.index_updates                    # 100 000 portions, ten of them touched by each update
    python -m benchmarks.index_updates --portions 1000    # fewer, to try the benchmark itself
    python -m benchmarks.index_updates --append           # the same, appended to RESULTS.md

The index is written as by `benchmarks.index_portions`, the commit records of all its source partitions are in the
commit topic, and each update reads ten new mapping records. Source topics are names only: nobody looks at them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks import machine, report
from benchmarks.index import bench_pipeline
from benchmarks.index_portions import PARTITIONS, RECORDS, TOUCHED, source_of, write_index
from benchmarks.lab import Lab
from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index import update_index
from k2k_assets.mapping.index.manifest import switch
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.sessions import build_session

UPDATES = 6
_NOW = 24 * 3600 * 1000


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_updates", description=__doc__.split("\n")[0])
    parser.add_argument("--portions", type=int, default=100_000)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    with Lab() as lab:
        rows = measure(lab, options.portions)
    words = machine.listed()
    settings = (
        f"- {options.portions:,} portions of {PARTITIONS} partitions a topic, a commit record for each; {TOUCHED} new "
        f"mapping records in each of {UPDATES} updates; Spark local[2], in the benchmark's process and its JVM"
    )
    sections = [f"### Whole updates of an index of many portions\n\n{words}\n{settings}"]
    sections.append(report.table(["what", "wall s", "CPU s of the driver's Python"], rows))
    report.publish(sections, options.append)


def measure(lab: Lab, size: int) -> list[list[str]]:
    """Rows of the table."""
    pipeline = bench_pipeline(lab)
    cluster = lab.source.cluster_id()
    report.progress(f"writing an index of {size:,} portions, and their commit records")
    _write_index(lab, pipeline, cluster, size)
    _write_commits(lab, pipeline, cluster, size)
    spark = build_session(pipeline)
    took = [_update(lab, pipeline, spark, cluster, number, size) for number in range(1, UPDATES + 1)]
    logs = [_timed(lambda: read_commit_log(pipeline, cluster, lab.target)) for _ in range(UPDATES)]
    named = {
        "first update in a session": took[0],
        "an update, median": tuple(statistics.median(each[i] for each in took[1:]) for i in range(2)),
        "of that reading the commit log, median": tuple(statistics.median(each[i] for each in logs) for i in range(2)),
    }
    return [[what, *(f"{seconds:.2f}" for seconds in each)] for what, each in named.items()]


def _update(lab: Lab, pipeline: Pipeline, spark: Any, cluster: str, number: int, size: int) -> tuple[float, float]:
    _write_mappings(lab, pipeline, cluster, number)
    found = []
    took = _timed(lambda: found.append(update_index(spark, pipeline, lab.source, lab.target)))
    [index] = found
    if index.manifest.mapped != size * RECORDS + number * TOUCHED * RECORDS:
        raise AssertionError(f"{index.manifest.mapped} records are mapped")
    report.progress(f"update {number}: {took[0]:.2f} s, {len(index.manifest.positions):,} positions")
    return took


def _timed(action: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def _write_index(lab: Lab, pipeline: Pipeline, cluster: str, size: int) -> None:
    root = Path(pipeline.index.path or "")
    topic = pipeline.offset_mapping.topic
    identity = {
        "pipeline": pipeline.name,
        "group": pipeline.group,
        "target_cluster": lab.target.cluster_id(),
        "mapping_topic": topic,
        "mapping_topic_id": lab.target.describe([topic])[topic].topic_id,
        "offsets": {},
    }
    switch(root, write_index(root, size, cluster).model_copy(update=identity))


def _write_commits(lab: Lab, pipeline: Pipeline, cluster: str, size: int) -> None:
    producer = _producer(lab)
    for number in range(size):
        _, topic, topic_id, partition = source_of(number)
        record = CommitRecord(
            group=pipeline.group,
            cluster=cluster,
            source=TopicPartition(topic, partition),
            kind="commit",
            pipeline=pipeline.name,
            position=RECORDS,
            leader_epoch=None,
            source_topic_id=topic_id,
            target_topic=topic,
            target_topic_id="id",
            target_end=None,
            generation=1,
            slot=0,
            sequence=number,
            time=_NOW,
            records=RECORDS,
            began=0,
            log_start=0,
        )
        _produce(producer, pipeline.coordination.commit.topic, record.key_bytes(), record.value_bytes())
    if producer.flush(120):
        raise RuntimeError("the commit records were not all written")


def _write_mappings(lab: Lab, pipeline: Pipeline, cluster: str, number: int) -> None:
    producer = _producer(lab)
    for touched in range(TOUCHED):
        _, topic, topic_id, partition = source_of(touched)
        start = number * RECORDS
        record = MappingRecord(
            group=pipeline.group,
            topic=topic,
            partition=partition,
            pipeline=pipeline.name,
            cluster=cluster,
            source_topic_id=topic_id,
            generation=1,
            slot=0,
            sequence=number,
            time=_NOW,
            covered_from=start,
            covered_to=start + RECORDS,
            targets=(MappedPartition(topic, "id", partition, (Run(start, 2 * start, RECORDS),)),),
        )
        _produce(producer, pipeline.offset_mapping.topic, record.key_bytes(), record.value_bytes())
    if producer.flush(60):
        raise RuntimeError("the mapping records were not all written")


def _producer(lab: Lab) -> Producer:
    return Producer({"bootstrap.servers": lab.sandbox.target_servers, "linger.ms": 20, "enable.idempotence": True})


def _produce(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
            return
        except BufferError:
            producer.poll(0.1)


if __name__ == "__main__":
    main()
