"""Measures what copying costs by whole batches and through librdkafka, in microseconds of this process's CPU a record.

    python -m benchmarks.batch_copying            # on two real brokers; some two minutes
    python -m benchmarks.batch_copying --append   # the same, appended to RESULTS.md

Exactly once, in one process without Spark: a source is read, and written in transactions with a control record each.
Both transports take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time

from benchmarks import machine, report
from benchmarks.batch_reading import PARTITIONS, WRITTEN, Written, write
from benchmarks.lab import Lab, create_topic, delete_topics
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.transport.factory import TRANSPORTS
from k2k_assets.transport.interface import Position

REPEAT = 3
CONTROLS = "controls"
_LIMIT = 1000
_TRANSACTION_BYTES = 16 * 1024 * 1024
_SECONDS = 300.0
_BATCH_BYTES = 1_000_000


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_copying", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    words = machine.listed()
    found: dict[str, list[str]] = {name: [] for name in TRANSPORTS}
    with Lab() as lab:
        create_topic(lab.target, CONTROLS, 1)
        pipeline = _pipeline(lab)
        for written in WRITTEN:
            create_topic(lab.source, written.topic, PARTITIONS)
            write(lab.sandbox.source_servers, written)
            for name, cell in _cells(lab, pipeline, written).items():
                found[name].append(cell)
            delete_topics(lab.source, [written.topic])
    rows = [[name, *cells] for name, cells in found.items()]
    how = (
        f"Microseconds of CPU a record, records a second; exactly once, {PARTITIONS} partitions, transactions of "
        f"{_TRANSACTION_BYTES >> 20} MB, median of {REPEAT}"
    )
    sections = [f"### Copying by batches\n\n{how}\n\n{words}", report.table(["how", *(w.title for w in WRITTEN)], rows)]
    report.publish(sections, options.append)


def _pipeline(lab: Lab) -> Pipeline:
    path = lab.folder / "pipeline.yaml"
    clusters = {
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.source_servers},
                "consumer": {"group.id": "k2k.batches"},
            }
        },
        "target": {"kafka": {"common": {"bootstrap.servers": lab.sandbox.target_servers}}},
    }
    document = {
        "name": "batches",
        "features": {"exactlyOnce": "enabled", "headerReplication": "enabled"},
        **clusters,
        "replication": [{"source": {"topic": ".*"}}, {"sink": {"topic": {"prefix": "copy."}, "partition": "source"}}],
    }
    path.write_text(json.dumps(document))
    return load_pipeline([path])


def _cells(lab: Lab, pipeline: Pipeline, written: Written) -> dict[str, str]:
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in TRANSPORTS}
    for turn in range(REPEAT + 1):
        for name, times in spent.items():
            topic = f"copy-{written.topic}"
            create_topic(lab.target, topic, PARTITIONS)
            cpu, seconds = _copy(name, pipeline, written, topic)
            delete_topics(lab.target, [topic])
            if turn:  # code and page cache are warm then
                times.append((cpu, seconds))
            report.progress(f"{written.title} {name}: {cpu / written.records * 1e6:.3f}")
    return {
        name: f"{statistics.median(cpu for cpu, _ in times) / written.records * 1e6:.3f} "
        f"({written.records / statistics.median(wall for _, wall in times):,.0f}/s)"
        for name, times in spent.items()
    }


def _copy(name: str, pipeline: Pipeline, written: Written, topic: str) -> tuple[float, float]:
    """Copies all of a topic; returns the CPU seconds and the seconds that it took."""
    transport = TRANSPORTS[name](pipeline)
    sinks = transport.open_sinks(True, _BATCH_BYTES)
    sink = sinks.open_sink("benchmark")
    sink.open()
    source = transport.open_source()
    source.assign({TopicPartition(written.topic, n): Position(0) for n in range(PARTITIONS)})
    gc.collect()
    gc.disable()
    cpu, wall, deadline = time.process_time(), time.monotonic(), Deadline(_SECONDS)
    left, in_hand, is_begun = written.records, 0, False
    while left:
        for chunk in source.poll(_LIMIT, 1.0).chunks:
            if not is_begun:
                sink.begin()
                is_begun = True
            chunk.target_topic, chunk.target_partition = topic, chunk.source.partition
            left -= chunk.count
            in_hand += chunk.count * written.size
            sink.write(chunk)
        if is_begun and (in_hand >= _TRANSACTION_BYTES or not left):
            sink.settle()
            sink.write_control(CONTROLS, 0, b"position", b"%d" % left)
            sink.commit()
            in_hand, is_begun = 0, False
        if deadline.expired():
            raise TimeoutError(f"{left} records of {written.title} were not copied within {_SECONDS:g} s")
    spent = time.process_time() - cpu, time.monotonic() - wall
    gc.enable()
    source.close()
    sink.close()
    sinks.close(discard=False)
    return spent


if __name__ == "__main__":
    main()
