"""Measures the codecs of commit and mapping records, in microseconds of this process's CPU; needs no brokers.

python -m benchmarks.records            # the best of many, so that what else runs counts little
python -m benchmarks.records --append   # the same, appended to RESULTS.md
"""

from __future__ import annotations

import argparse
import time
import timeit
from collections.abc import Callable

from benchmarks import machine, report
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition

RUNS = (1, 20, 1000)
REPEAT = 25
# Runs of one measurement are so many that the clock's steps count for nothing.
BUDGET = 40_000
ID = "Zs0pVwqSSmuLgCsBcJmtLQ"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    rows = [_row("commit record", commit_record(), CommitRecord.parse, 1)]
    rows += [_row(f"mapping record, {n:,} runs", mapping_record(n), MappingRecord.parse, n) for n in RUNS]
    words = machine.listed()
    title = f"### Records of control topics\n\nMicroseconds of CPU, the best of {REPEAT}"
    columns = ["what", "bytes", "build", "encode key", "encode value", "decode both"]
    sections = [f"{title}\n\n{words}", report.table(columns, rows)]
    report.publish(sections, options.append)


def commit_record() -> CommitRecord:
    """As a slot writes it, without what is rare."""
    return CommitRecord(
        group="k2k.orders",
        cluster="b2ZzZXQtY2x1c3Rlcg",
        source=TopicPartition("orders.v1", 7),
        kind="commit",
        pipeline="orders",
        position=123_456_789,
        leader_epoch=3,
        source_topic_id=ID,
        target_topic="orders.v1",
        target_topic_id=ID,
        target_end=133_456_789,
        generation=16,
        slot=2,
        sequence=51_234,
        time=1_700_000_000_000,
        records=110_000,
        bytes_=22_000_000,
        runs=3000,
        began=0,
        log_start=0,
    )


def mapping_record(runs: int) -> MappingRecord:
    """Of one target partition, with a gap after each run."""
    start, to = 123_456_789, 133_456_789
    return MappingRecord(
        group="k2k.orders",
        topic="orders.v1",
        partition=7,
        pipeline="orders",
        cluster="b2ZzZXQtY2x1c3Rlcg",
        source_topic_id=ID,
        generation=16,
        slot=2,
        sequence=51_234,
        time=1_700_000_000_000,
        covered_from=start,
        covered_to=start + 100 * runs,
        targets=(
            MappedPartition("orders.v1", ID, 7, tuple(Run(start + 100 * n, to + 101 * n, 98) for n in range(runs))),
        ),
        settings="a1b2c3d4",
    )


def _row(
    what: str,
    record: CommitRecord | MappingRecord,
    parse: Callable[[bytes, bytes, str], object],
    runs: int,
) -> list[str]:
    key, value = record.key_bytes(), record.value_bytes()
    if parse(key, value, "there") != record:
        raise AssertionError(f"{what}: what was written is not what is read")
    build = commit_record if isinstance(record, CommitRecord) else lambda: mapping_record(runs)
    steps = (build, record.key_bytes, record.value_bytes, lambda: parse(key, value, "there"))
    return [what, f"{len(value):,}", *(f"{_microseconds(step, runs):.2f}" for step in steps)]


def _microseconds(step: Callable[[], object], runs: int) -> float:
    number = BUDGET // (20 + runs)
    return min(timeit.repeat(step, number=number, repeat=REPEAT, timer=time.process_time)) / number * 1e6


if __name__ == "__main__":
    main()
