"""Measures updates of an index of many portions of which few are touched: the driver's part, without Kafka and Spark.

    python -m benchmarks.index_portions               # 20 000 and 100 000 portions, ten of them touched
    python -m benchmarks.index_portions --append      # the same, appended to RESULTS.md

What a Spark job does is done in this process, and its time is not counted. Everything else of an update is: manifest,
table of portions, files that are looked for and removed. Each update begins with the same version.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks import machine, report
from k2k_assets.core.runs import Run
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition
from k2k_assets.mapping.index.folding import SORTED_BY, SOURCE
from k2k_assets.mapping.index.jobs import NewSegment
from k2k_assets.mapping.index.manifest import IndexIdentity, Manifest, NotedPosition, Segment, read_manifest, switch
from k2k_assets.mapping.index.portion_table import from_table, to_table, write_portions
from k2k_assets.mapping.index.portions import Portion, PortionPiece
from k2k_assets.mapping.index.record_rows import ROWS
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.segment_files import SegmentFile
from k2k_assets.mapping.index.tasks import by_stretch, fold_rows, merge_portions
from k2k_assets.mapping.index.unread import Unread
from k2k_assets.mapping.index.update import Update

SIZES = (20_000, 100_000)
PARTITIONS = 100  # of each topic
TOUCHED = 10
RECORDS = 1000  # of each partition, in one run
REPEATS = 7
FILES = 8
GOALS = {20_000: "0.5"}
_DAY = 24 * 3600 * 1000
_FIRST = "00000001-first"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_portions", description=__doc__.split("\n")[0])
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    rows = [row for size in SIZES for row in measure(size)]
    words = machine.listed()
    settings = (
        f"- {PARTITIONS} partitions a topic, one portion of one run and one committed position for each; {TOUCHED} of "
        f"them touched, in one segment of {FILES} files; least of {REPEATS} updates (of all: of 2), each of the same "
        "version, in one process; jobs of Spark are left out, files in the page cache, synced to disk"
    )
    title = f"### Updates of an index of many portions\n\n{words}\n{settings}"
    head = ["portions", "what is touched", "CPU s", "wall s", "manifest alone, CPU s", "goal: below"]
    sections = [title, report.table(head, rows)]
    report.publish(sections, options.append)


def measure(size: int) -> list[list[str]]:
    """Rows of the table for an index of so many portions."""
    with tempfile.TemporaryDirectory(prefix="k2k-bench-") as scratch:
        report.progress(f"writing an index of {size:,} portions")
        root = Path(scratch)
        before = write_index(root, size)
        cases = {
            "nothing but positions": Case(root, [], None),
            "appended to": Case(root, range(TOUCHED), None),
            "appended to, retention of 30 days": Case(root, range(TOUCHED), 30 * _DAY),
            "copied again from the middle": Case(root, range(TOUCHED), None, again=True),
            "all of them appended to": Case(root, range(size), None, repeats=2),
        }
        return [[f"{size:,}", name, *_measured(case, before, size)] for name, case in cases.items()]


def _measured(case: Case, before: Manifest, size: int) -> list[str]:
    took = [case.update(before) for _ in range(case.repeats)]
    cpu, wall = (min(each[i] for each in took) for i in range(2))
    manifest = min(_manifest_seconds(case.root) for _ in range(REPEATS))
    report.progress(f"{size:,} portions: {cpu:.3f} s CPU, {wall:.3f} s")
    return [f"{cpu:.3f}", f"{wall:.3f}", f"{manifest:.3f}", GOALS.get(size, "")]


def _manifest_seconds(root: Path) -> float:
    started = time.process_time()
    manifest = read_manifest(root)
    if manifest:
        switch(root, manifest)
    return time.process_time() - started


@dataclass
class Case:
    """Updates of one kind; also the jobs of them.

    Attributes:
        root: Directory of the index.
        touched: Numbers of the source partitions of which there is something new.
        retention: `index.retention`, milliseconds.
        again: Whether they are copied again instead of being copied further.
        repeats: How many updates are measured.
        job_cpu: CPU seconds of jobs.
        job_wall: Seconds of jobs.
    """

    root: Path
    touched: Sequence[int]
    retention: int | None
    again: bool = False
    repeats: int = REPEATS
    job_cpu: float = 0.0
    job_wall: float = 0.0

    def update(self, before: Manifest) -> tuple[float, float]:
        """CPU seconds and seconds of an update of a version, without its jobs."""
        switch(self.root, before)
        self.job_cpu = self.job_wall = 0.0
        update = Update(self.root, "bench", "bench", "mappings", self.retention, self, self.find_unread, lambda: _DAY)
        cpu, wall = time.process_time(), time.perf_counter()
        manifest = update.run(read_manifest(self.root))
        took = time.process_time() - cpu - self.job_cpu, time.perf_counter() - wall - self.job_wall
        wanted = before.mapped + (0 if self.again else len(self.touched) * RECORDS)
        if manifest.mapped != wanted:
            raise AssertionError(f"{manifest.mapped} records are mapped, and should be {wanted}")
        return took

    def find_unread(self, before: IndexIdentity | None) -> Unread:
        """What there is to read."""
        if not isinstance(before, Manifest):
            raise TypeError("these updates do not begin anew")
        end = 1 if self.touched else 0
        ranges = [OffsetRange("mappings", 0, 0, 1)] if self.touched else []
        return Unread(ranges, {0: end}, before.positions, "source", "target", "id")

    def fold(self, root: IndexRoot, segment: str, ranges: Sequence[OffsetRange], most: int | None) -> NewSegment:
        """See `Jobs`."""
        with self._job():
            start = RECORDS // 2 if self.again else RECORDS
            rows = pa.Table.from_pylist([_row(n, start, 2 * start) for n in self.touched], schema=ROWS)
            rows = rows.sort_by([(name, "ascending") for name in SORTED_BY])
            return NewSegment(by_stretch(fold_rows(root, segment, rows)), [])

    def merge(self, root: IndexRoot, segment: str, portions: pa.Table) -> pa.Table:
        """See `Jobs`."""
        with self._job():
            return to_table(merge_portions(root, segment, from_table(portions)))

    @contextmanager
    def _job(self) -> Iterator[None]:
        """Adds the time of its block to that of the jobs."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.job_cpu += time.process_time() - cpu
        self.job_wall += time.perf_counter() - wall


def write_index(root: Path, size: int, cluster: str = "source") -> Manifest:
    """Writes an index of so many portions of a source cluster; it is for the caller to switch to it."""
    portions: list[Portion] = []
    run = RunTable.of([Run(0, 0, RECORDS)])
    for first in range(FILES):
        with SegmentFile(root, _FIRST) as file:
            for number in range(first, size, FILES):
                source = source_of(number, cluster)
                piece = file.add(source, Target(source.topic, "id", source.partition), run)
                portions.append(_portion(source, file.name, piece))
    runs, mapped = len(portions), RECORDS * len(portions)
    manifest = Manifest(
        pipeline="bench",
        group="bench",
        source_cluster=cluster,
        target_cluster="target",
        mapping_topic="mappings",
        mapping_topic_id="id",
        offsets={0: 0},
        directory=_FIRST,
        number=1,
        time=0,
        records_read=runs,
        runs=runs,
        mapped=mapped,
        segments=[Segment(name=_FIRST, runs=runs, mapped=mapped, since=0, until=_DAY)],
        positions=[_position(number) for number in range(size)],
    )
    write_portions(root, manifest.directory, to_table(portions))
    return manifest


def source_of(number: int, cluster: str = "source") -> SourcePartition:
    """The source partition of a number."""
    topic, partition = divmod(number, PARTITIONS)
    return SourcePartition(cluster, f"shop.orders.of-country-{topic:04}", f"c291cmNlLXRvcGlj{topic:04}", partition)


def _portion(source: SourcePartition, file: str, piece: PortionPiece) -> Portion:
    covered = Covered(0, RECORDS)
    order = Order(1, 0)
    return Portion(
        source, _FIRST, file, *covered, (covered,), order, Beginning(1, 1, 0), order, _DAY, _DAY, 1, (piece,)
    )


def _position(number: int) -> NotedPosition:
    _, topic, topic_id, partition = source_of(number)
    return NotedPosition(
        topic=topic,
        partition=partition,
        source_topic_id=topic_id,
        position=RECORDS,
        records=RECORDS,
        began=0,
        log_start=0,
    )


def _row(number: int, start: int, end: int) -> dict[str, object]:
    source = source_of(number)
    run = RunTable.of([Run(start, 2 * RECORDS + start, end - start)])
    packed = b"".join(
        int(column[0]).to_bytes(8, "little") for column in (run.source_starts, run.target_starts, run.counts)
    )
    return {
        **dict(zip(SOURCE, source, strict=True)),
        "target_topic": source.topic,
        "target_topic_id": "id",
        "target_partition": source.partition,
        "generation": 1,
        "forward_since": 1,
        "sequence": 1,
        "offset": number,
        "time": _DAY,
        "covered_from": start,
        "covered_to": end,
        "override": False,
        "settings": "",
        "stretch": 0,
        "runs": packed,
    }


if __name__ == "__main__":
    main()
