"""Measures what the content check does beside reading records, where there are many partitions: its plan and its notes.

    python -m benchmarks.content_plans            # 4,000 and 100,000 partitions
    python -m benchmarks.content_plans --append   # the same, appended to RESULTS.md

Index, portions and notes are real files; the clusters answer at once from what they were told, because no broker here
holds so many partitions. Reading is bounded by a budget, however many partitions there are: see
`benchmarks.content_check`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import cast

from benchmarks import machine, report
from benchmarks.index_portions import RECORDS, source_of, write_index
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.verification.content.by_batches.choosing import to_prove
from k2k_assets.verification.content.by_batches.stretches import can_be_proven, cut
from k2k_assets.verification.content.sampling import looks
from k2k_assets.verification.content.survey import survey
from k2k_assets.verification.content.verified import MappedRecord, Verified
from k2k_assets.verification.content.verified_notes import Conditions, VerifiedNotes
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster

SIZES = (4_000, 100_000)
REPEATS = 5
_HEAD = ["partitions", "before", "notes read", "survey", "choice", "notes written", "in all", "partitions looked at"]
_FILE = """
name: bench
source: {kafka: {common: {bootstrap.servers: "source:9092"}, consumer: {group.id: bench}}}
target: {kafka: {common: {bootstrap.servers: "target:9092"}}}
replication: [{source: {topic: "shop.*"}}, {sink: {topic: source, partition: source}}]
"""
# Of three records that a topic has, two were verified.
_VERIFIED = RECORDS * 2 // 3


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.content_plans", description=__doc__.split("\n")[0])
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    rows = [row for size in SIZES for row in measure(size)]
    title = (
        "### The plan of the content check\n\n"
        f"Seconds of CPU of the driver, least of {REPEATS}; {RECORDS} records of each partition in one run; without "
        "Spark, Kafka and the records themselves\n\n" + machine.listed()
    )
    report.publish([title, report.table(_HEAD, rows)], options.append)


def measure(size: int) -> list[list[str]]:
    """Rows of the table for so many source partitions: nothing is noted yet, and all are."""
    with tempfile.TemporaryDirectory(prefix="k2k-bench-") as scratch:
        report.progress(f"writing an index of {size:,} partitions")
        root = Path(scratch)
        manifest = write_index(root, size)
        file = root / "bench.yaml"
        file.write_text(_FILE)
        plan = Plan(load_pipeline(file), MappingIndex(root, manifest, read_portions(root, manifest.directory)), size)
        rows = [_row(size, "nothing is verified", plan)]
        plan.verify_all()
        return [*rows, _row(size, "all partitions have notes", plan)]


def _row(size: int, before: str, plan: Plan) -> list[str]:
    runs = [plan.evaluate() for _ in range(REPEATS)]
    least = [min(each) for each in zip(*runs, strict=True)]
    return [f"{size:,}", before, *(f"{each:.3f}" for each in (*least, sum(least))), f"{plan.looked_at:,}"]


class Plan:
    """The steps of an evaluation that read no records.

    Args:
        pipeline: The pipeline.
        index: Its index.
        size: Number of source partitions.

    Attributes:
        looked_at: How many partitions the last evaluation would look at.
    """

    def __init__(self, pipeline: Pipeline, index: MappingIndex, size: int) -> None:
        self.looked_at = 0
        self._pipeline, self._index = pipeline, index
        self._sources = [source_of(number) for number in range(size)]
        self._source, self._target = Answering("source", self._sources), Answering("target", self._sources)
        self._notes = VerifiedNotes(index.root, Conditions.of(pipeline, index, "source"))

    def verify_all(self) -> None:
        """Notes that all partitions were verified some time ago."""
        last = MappedRecord(
            source_offset=_VERIFIED - 1, target_topic_id="id", target_partition=0, target_offset=_VERIFIED - 1
        )
        seen = (Covered(0, _VERIFIED // 2),)
        verified = Verified(position=_VERIFIED, last=last, seen=seen, turn=3)
        with self._notes.locked():
            self._notes.write(4, 400_000, dict.fromkeys(self._sources, verified))

    def evaluate(self) -> tuple[float, float, float, float]:
        """CPU seconds of the steps: reading the notes, survey, choice, writing the notes as they were."""
        times = [time.process_time()]
        known = self._notes.read()
        times.append(time.process_time())
        source, target = cast(Cluster, self._source), cast(Cluster, self._target)
        found = survey(self._pipeline, self._index, source, target, known.verified, known.turn)
        times.append(time.process_time())
        unverified = found.unverified()
        look = looks(unverified, known.budget, known.turn)
        ranges = to_prove(unverified, look, found.seen(), dict.fromkeys(unverified, 1 / RECORDS))
        cut([piece for piece in found.pieces_of(ranges).found if can_be_proven(piece)], found.source.stable)
        found.plan(look)
        self.looked_at = len(look)
        times.append(time.process_time())
        if known.verified:
            self._notes.write(known.turn - 1, 400_000, known.verified)
        times.append(time.process_time())
        read, surveyed, chosen, written = (end - start for start, end in pairwise(times))
        return read, surveyed, chosen, written


class Answering(FakeCluster):
    """A cluster that holds all topics.

    Args:
        role: Its id.
        sources: The partitions.
    """

    def __init__(self, role: str, sources: Collection[SourcePartition]) -> None:
        counts: dict[str, tuple[str, int]] = {}
        for source in sources:
            id_ = source.topic_id if role == "source" else "id"
            counts[source.topic] = id_, counts.get(source.topic, (id_, 0))[1] + 1
        super().__init__(counts, ends={TopicPartition(each.topic, each.partition): RECORDS for each in sources})
        self.role = role

    def cluster_id(self) -> str:
        """Its id."""
        return self.role

    def topic_configs(self, topics: Collection[str], only_changed: bool = True) -> dict[str, dict[str, str]]:
        """Nothing is compacted."""
        return {topic: {"cleanup.policy": "delete"} for topic in topics}


if __name__ == "__main__":
    main()
