"""Measures what copying costs by whole batches and through librdkafka, in microseconds of this process's CPU a record.

    python -m benchmarks.batch_copying              # on two real brokers; some four minutes
    python -m benchmarks.batch_copying --append     # the same, appended to RESULTS.md
    python -m benchmarks.batch_copying --only 1,2   # some of the loads, by their numbers

Exactly once, in one process without Spark: a source is read, and written in transactions with a control record each.
Both transports take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import machine, report
from benchmarks.batch_reading import PARTITIONS, Written, write
from benchmarks.distant_broker import distant
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


@dataclass(frozen=True, slots=True)
class Case:
    """What is copied, and how.

    Attributes:
        written: The records.
        title: In words.
        keeps_headers: Whether headers are copied.
        transaction: Records of a transaction; None: as many as 16 MB hold.
        round_trip: Seconds that a question to the target and its answer are on their way.
    """

    written: Written
    title: str
    keeps_headers: bool = True
    transaction: int | None = None
    round_trip: float = 0.0


_SMALL = Written("100 B", 2_000_000, 100)
_LZ4 = Written("1 KB lz4", 400_000, 1000, "lz4", 47, of_words=True)
CASES = (
    Case(_SMALL, "100 B, 2,400 a batch"),
    Case(Written("1 KB", 400_000, 1000), "1 KB, 240 a batch"),
    Case(_LZ4, "1 KB lz4, 47 a batch"),
    Case(Written("1 KB", 400_000, 1000, batch=4), "1 KB, 4 a batch"),
    Case(Written("1 KB", 200_000, 1000, batch=1), "1 KB, 1 a batch"),
    Case(_SMALL, "100 B, headers off, there are none", keeps_headers=False),
    Case(Written("100 B", 1_000_000, 100, with_headers=True), "100 B with a header, headers off", keeps_headers=False),
    Case(_SMALL, "100 B, a transaction for 1,000", transaction=1000),
    Case(_LZ4, "1 KB lz4, 47 a batch, target 50 ms away", transaction=100_000, round_trip=0.05),
)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_copying", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    parser.add_argument("--only", help="numbers of the loads, from 1 on, with commas")
    parser.add_argument("--form", choices=TRANSPORTS, help="one transport only")
    options = parser.parse_args()
    words = machine.listed()
    forms = [options.form] if options.form else list(TRANSPORTS)
    numbers = [int(each) for each in options.only.split(",")] if options.only else range(1, len(CASES) + 1)
    with Lab() as lab:
        create_topic(lab.target, CONTROLS, 1)
        there: set[Written] = set()
        rows = []
        for case in (CASES[number - 1] for number in numbers):
            if case.written not in there:
                create_topic(lab.source, case.written.topic, PARTITIONS)
                write(lab.sandbox.source_servers, case.written)
                there.add(case.written)
            with ExitStack() as stack:
                servers = lab.sandbox.target_servers
                if case.round_trip:
                    servers = stack.enter_context(distant(servers, case.round_trip))
                rows.append([case.title, *_cells(lab, _pipeline(lab, servers), case, forms)])
    how = (
        f"Microseconds of CPU a record (median of {REPEAT}, least to most), records a second; exactly once, "
        f"{PARTITIONS} partitions, transactions of {_TRANSACTION_BYTES >> 20} MB, in one process without Spark"
    )
    sections = [f"### Copying by batches\n\n{how}\n\n{words}", report.table(["what", *forms], rows)]
    report.publish(sections, options.append)


def _pipeline(lab: Lab, target_servers: str) -> Pipeline:
    path = lab.folder / "pipeline.yaml"
    clusters = {
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.source_servers},
                "consumer": {"group.id": "k2k.batches"},
            }
        },
        "target": {"kafka": {"common": {"bootstrap.servers": target_servers}}},
    }
    document = {
        "name": "batches",
        "features": {"exactlyOnce": "enabled", "headerReplication": "enabled"},
        **clusters,
        "replication": [{"source": {"topic": ".*"}}, {"sink": {"topic": {"prefix": "copy."}, "partition": "source"}}],
    }
    path.write_text(json.dumps(document))
    return load_pipeline([path])


def _cells(lab: Lab, pipeline: Pipeline, case: Case, forms: Sequence[str]) -> list[str]:
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    records = case.written.records
    for turn in range(REPEAT + 1):
        for name, times in spent.items():
            topic = f"copy-{case.written.topic}"
            create_topic(lab.target, topic, PARTITIONS)
            cpu, seconds = _copy(name, pipeline, case, topic)
            delete_topics(lab.target, [topic])
            if turn:  # code and page cache are warm then
                times.append((cpu, seconds))
            report.progress(f"{case.title}, {name}: {cpu / records * 1e6:.3f}")
    return [_cell(times, records) for times in spent.values()]


def _cell(times: Sequence[tuple[float, float]], records: int) -> str:
    costs = sorted(cpu / records * 1e6 for cpu, _ in times)
    rate = records / statistics.median(seconds for _, seconds in times)
    return f"{statistics.median(costs):.3f} ({costs[0]:.3f} to {costs[-1]:.3f}), {rate:,.0f}/s"


def _copy(name: str, pipeline: Pipeline, case: Case, topic: str) -> tuple[float, float]:
    """Copies all of a topic; returns the CPU seconds and the seconds that it took."""
    written = case.written
    most = _TRANSACTION_BYTES // written.size if case.transaction is None else case.transaction
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
            chunk.keep_headers = case.keeps_headers
            left -= chunk.count
            in_hand += chunk.count
            sink.write(chunk)
        if is_begun and (in_hand >= most or not left):
            sink.settle()
            sink.write_control(CONTROLS, 0, b"position", b"%d" % left)
            sink.commit()
            in_hand, is_begun = 0, False
        if deadline.expired():
            raise TimeoutError(f"{left} records of {case.title} were not copied within {_SECONDS:g} s")
    spent = time.process_time() - cpu, time.monotonic() - wall
    gc.enable()
    source.close()
    sink.close()
    sinks.close(discard=False)
    return spent


if __name__ == "__main__":
    main()
