"""What the benchmark of the mapping index works on: weeks of runs, as an index and as mapping records."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from benchmarks.lab import Lab
from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition
from k2k_assets.mapping.index.manifest import Manifest, Segment, switch
from k2k_assets.mapping.index.merging import SEALED_RUNS, Candidate, to_merge
from k2k_assets.mapping.index.portion_table import to_table, write_portions
from k2k_assets.mapping.index.portions import Portion
from k2k_assets.mapping.index.segment_files import SegmentFile
from k2k_assets.pipeline import Pipeline

TOPIC, TOPIC_ID, TARGET_ID = "orders", "c291cmNlLXRvcGljLWlk", "dGFyZ2V0LXRvcGljLWlk"
PARTITIONS = 10
HOUR = 3600


@dataclass(frozen=True)
class History:
    """What was copied of each partition: one transaction a second, each with one run.

    Attributes:
        seconds: How long it goes on.
    """

    seconds: int

    @lru_cache(maxsize=PARTITIONS)  # noqa: B019  # there is one history
    def runs(self, partition: int) -> RunTable:
        """1 to 200 records a transaction; our marker after each on the target, the producer's on the source."""
        draw = np.random.default_rng(partition)
        counts = draw.integers(1, 201, self.seconds)
        after = np.cumsum(counts + draw.integers(0, 3, self.seconds))
        targets = np.cumsum(counts + draw.integers(1, 3, self.seconds))
        return RunTable(np.concatenate(([0], after[:-1])), np.concatenate(([0], targets[:-1])), counts)


def write_index(lab: Lab, pipeline: Pipeline, history: History, hours: int) -> None:
    """Writes what hourly updates would have left."""
    root = Path(pipeline.index.path or "")
    layout = next(islice(layouts(), hours - 1, None))
    cluster = lab.source.cluster_id()
    portions: list[Portion] = []
    for partition in range(PARTITIONS):
        runs = history.runs(partition)
        source = SourcePartition(cluster, TOPIC, TOPIC_ID, partition)
        for number, (start, end) in enumerate(layout):
            with SegmentFile(root, f"{number:08}") as file:
                portions.append(_portion(file, source, f"{number:08}", runs, start * HOUR, end * HOUR))
    segments = [_segment(f"{number:08}", portions) for number in range(len(layout))]
    topic = pipeline.offset_mapping.topic
    manifest = Manifest(
        pipeline=pipeline.name,
        group=pipeline.group,
        source_cluster=cluster,
        target_cluster=lab.target.cluster_id(),
        mapping_topic=topic,
        mapping_topic_id=lab.target.describe([topic])[topic].topic_id,
        offsets={},
        directory="generated",
        number=hours,
        time=int(time.time() * 1000),
        records_read=hours * HOUR * PARTITIONS,
        runs=sum(segment.runs for segment in segments),
        mapped=sum(segment.mapped for segment in segments),
        segments=segments,
    )
    write_portions(root, manifest.directory, to_table(portions))
    switch(root, manifest)


def layouts() -> Iterator[list[tuple[int, int]]]:
    """From which to which hour the segments reach that hourly updates leave, hour by hour."""
    segments: list[Candidate] = []
    for hour in count():
        segments.append(Candidate(f"{hour}-{hour + 1}", HOUR * PARTITIONS, 0, 0))
        if names := to_merge(segments):
            first = [segment.name for segment in segments].index(names[0])
            merged = segments[first : first + len(names)]
            name = f"{names[0].partition('-')[0]}-{names[-1].partition('-')[2]}"
            segments[first : first + len(names)] = [Candidate(name, sum(s.runs for s in merged), 0, 0)]
        yield [(int(start), int(end)) for start, _, end in (s.name.partition("-") for s in segments)]


def hours_before(days: int, extensions: int) -> int:
    """So many hours, at least these days, that the largest merge falls into the middle of the extensions."""
    for hours, layout in enumerate(layouts(), 1):
        start, end = layout[-1]
        if hours > days * 24 + extensions // 2 and (end - start) * HOUR * PARTITIONS >= SEALED_RUNS:
            return hours - extensions // 2
    raise AssertionError("layouts never end")


def _portion(file: SegmentFile, source: SourcePartition, name: str, runs: RunTable, start: int, end: int) -> Portion:
    part = RunTable(runs.source_starts[start:end], runs.target_starts[start:end], runs.counts[start:end])
    piece = file.add(source, Target(TOPIC, TARGET_ID, source.partition), part)
    covered = Covered(int(runs.source_starts[start]), int(runs.source_starts[end]))
    oldest, newest = Order(1, start), Order(1, end - 1)
    return Portion(
        source,
        name,
        file.name,
        *covered,
        (covered,),
        oldest,
        Beginning(1, 1, covered.start),
        newest,
        0,
        0,
        end - start,
        (piece,),
    )


def _segment(name: str, portions: list[Portion]) -> Segment:
    mine = [portion for portion in portions if portion.segment == name]
    return Segment(name=name, runs=sum(p.runs for p in mine), mapped=sum(p.mapped for p in mine), since=0, until=0)


def write_records(lab: Lab, pipeline: Pipeline, history: History, hour: int) -> None:
    """Writes the mapping records of an hour to the mapping topic, in one transaction."""
    producer = Producer({**_producer(lab.sandbox.target_servers), "transactional.id": "index-bench"})
    producer.init_transactions(30)
    producer.begin_transaction()
    cluster = lab.source.cluster_id()
    for partition in range(PARTITIONS):
        for record in _records(pipeline, cluster, history, partition, hour * HOUR, (hour + 1) * HOUR):
            producer.produce(pipeline.offset_mapping.topic, record.value_bytes(), record.key_bytes())
    producer.commit_transaction(60)


def write_all_records(lab: Lab, pipeline: Pipeline, history: History, hours: int) -> None:
    """Writes the mapping records of all hours to the mapping topic, in two processes, outside transactions."""
    servers, cluster = lab.sandbox.target_servers, lab.source.cluster_id()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        written = [
            pool.submit(_write_partition, servers, cluster, pipeline, history, partition, hours)
            for partition in range(PARTITIONS)
        ]
        for done in as_completed(written):
            done.result()


def _write_partition(
    servers: str, cluster: str, pipeline: Pipeline, history: History, partition: int, hours: int
) -> None:
    producer = Producer({**_producer(servers), "enable.idempotence": True, "compression.type": "lz4"})
    for record in _records(pipeline, cluster, history, partition, 0, hours * HOUR):
        while True:
            try:
                producer.produce(pipeline.offset_mapping.topic, record.value_bytes(), record.key_bytes())
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError(f"the mapping records of partition {partition} were not all written")


def _producer(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}


def _records(
    pipeline: Pipeline, cluster: str, history: History, partition: int, start: int, end: int
) -> Iterator[MappingRecord]:
    """Of the seconds from `start` to `end`."""
    runs = history.runs(partition)
    columns = (runs.source_starts, runs.target_starts, runs.counts)
    rows = zip(*(column[start : end + 1].tolist() for column in columns), strict=True)
    for second, (run, after) in enumerate(pairwise(rows), start):
        yield MappingRecord(
            group=pipeline.group,
            topic=TOPIC,
            partition=partition,
            pipeline=pipeline.name,
            cluster=cluster,
            source_topic_id=TOPIC_ID,
            generation=1,
            slot=0,
            sequence=second,
            time=int(time.time() * 1000),
            covered_from=run[0],
            covered_to=after[0],
            targets=(MappedPartition(TOPIC, TARGET_ID, partition, (Run(*run),)),),
        )
