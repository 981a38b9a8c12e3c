"""Measures how Dagster's database grows by the reports of a run that copies, with many topics.

    python -m benchmarks.report_growth                       # 1 000 topics of one partition, an hour, SQLite
    python -m benchmarks.report_growth --storage postgres    # likewise in a PostgreSQL of its own
    python -m benchmarks.report_growth --topics 3 --partitions 4
    python -m benchmarks.report_growth --append              # appended to RESULTS.md

A run of the sync job of a real pipeline's definitions, in a real Dagster instance with the settings that are shipped.
In place of the copy the run is told, for each second of an hour, that all topics have moved; its clock is that hour's
and not the wall's. What it reports is what a run reports, at its own pace.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import dagster as dg
import sqlalchemy

from benchmarks import machine, report
from k2k_assets import orchestration
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.orchestration.assets.topics.sync_run import SyncRun
from k2k_assets.orchestration.checks.evaluations import RunVerdicts
from k2k_assets.orchestration.hooks import Copy, CopyResults, Hooks
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.orchestration.runs.report_schedule import run_window
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.driver.events import ProgressRead
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets_tests.support.services.postgres import binaries, postgres

HOUR, DAY = 3600, 86_400
# Moved on each second of the hour.
_RECORDS_PER_SECOND = 10


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_growth", description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--storage", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    topics = [f"europe.shop-{number % 20:02}.order-events.v{number:03}" for number in range(options.topics)]
    with tempfile.TemporaryDirectory(prefix="k2k-growth-") as name, _storage(options.storage, Path(name)) as size:
        pipeline = _pipeline(Path(name))
        hour = Hour(pipeline, topics, options.partitions, size)
        hour.run()
    sections = [_title(options), hour.table()]
    report.publish(sections, options.append)


def _pipeline(folder: Path) -> Pipeline:
    os.environ["K2K_HOME"] = str(folder / "k2k")
    path = folder / "large.yaml"
    path.write_text(
        """name: large
features: {exactlyOnce: enabled, offsetMapping: enabled}
source: {kafka: {common: {bootstrap.servers: "localhost:1"}, consumer: {group.id: k2k.large}}}
target: {kafka: {common: {bootstrap.servers: "localhost:2"}}}
replication:
- source: {topic: 'europe[.].*'}
- sink: {topic: source, partition: source}
"""
    )
    return load_pipeline([path])


@contextmanager
def _storage(kind: str, folder: Path) -> Iterator[Callable[[], int]]:
    """Makes DAGSTER_HOME; yields what tells how many bytes Dagster keeps."""
    home = folder / "dagster"
    home.mkdir()
    os.environ["DAGSTER_HOME"] = str(home)
    settings = "dagster.yaml" if kind == "sqlite" else "dagster-postgres.yaml"
    (home / "dagster.yaml").write_text((Path(orchestration.__file__).parent / settings).read_text())
    if kind == "sqlite":
        yield lambda: sum(path.stat().st_blocks * 512 for path in home.rglob("*") if path.is_file())
        return
    programs = binaries()
    if programs is None:
        raise SystemExit("there is no PostgreSQL on this machine (on Debian: apt-get install postgresql)")
    with postgres(programs) as variables:
        os.environ.update(variables)
        address = sqlalchemy.URL.create(
            "postgresql+psycopg2",
            variables["DAGSTER_POSTGRES_USER"],
            variables["DAGSTER_POSTGRES_PASSWORD"],
            variables["DAGSTER_POSTGRES_HOST"],
            int(variables["DAGSTER_POSTGRES_PORT"]),
            variables["DAGSTER_POSTGRES_DB"],
        )
        engine = sqlalchemy.create_engine(address)

        def size() -> int:
            with engine.connect() as connection:
                return int(
                    connection.execute(sqlalchemy.text("select pg_database_size(current_database())")).scalar_one()
                )

        yield size
        engine.dispose()


@dataclass
class Hour:
    """An hour of a run that copies.

    Attributes:
        pipeline: What is copied.
        topics: All of which move all the time.
        partitions: Of each.
        size: Bytes that Dagster keeps.
        sizes: At each moment of interest, with the reports so far.
    """

    pipeline: Pipeline
    topics: list[str]
    partitions: int
    size: Callable[[], int]
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _seconds: int = HOUR
    _second: int = 0
    _materialized: int = 0
    _reported: int = 0

    def run(self) -> None:
        """Runs it."""
        known = {topic: DiscoveredTopic(self.partitions, topic) for topic in self.topics}
        found = Discovery(self.pipeline.name, 0, "source", "target", known)
        names = AssetNames(self.pipeline.name)
        definitions = pipeline_definitions(self.pipeline, found, Hooks(execute=self._copied))
        job = definitions.resolve_job_def(names.sync_job)
        with dg.DagsterInstance.get() as instance:
            # The first one is not counted: tables and snapshots are made once.
            for self._seconds in (1, HOUR):
                self._note("before")
                assert job.execute_in_process(instance=instance).success
                self._note("ended")

    def _note(self, moment: str) -> None:
        self.sizes[moment] = self.size(), self._materialized, self._reported

    def _copied(self, context: dg.AssetExecutionContext, copy: Copy) -> CopyResults:
        """In the place of a copy."""
        self._second = 0
        run = SyncRun(
            pipeline=self.pipeline,
            names=AssetNames(self.pipeline.name),
            window=HOUR,
            shown=self.topics,
            sink=_Counting(self, context),
            report=lambda event: self._report(context, event),
            verdicts=RunVerdicts(context.instance, context.run_id, context.job_name),
            read_log=self._commit_log,
            describe=lambda topics: {t: TopicDescription(t, "source-topic-id", self.partitions) for t in topics},
            oldest=lambda waiting: dict.fromkeys(waiting, int(time.time() * 1000) - 40),
            latency=lambda commits: {record.source: 0.012 for record in commits},
            log=context.log.info,
            warn=context.log.warning,
            clock=lambda: float(self._second),
        )
        for second in range(1, self._seconds + 1):
            self._second = second
            run.see(ProgressRead(Progress(self._parts(), 0.0)))
            if second == 1:
                self._note("each topic once")
            if second % 600 == 0:
                report.progress(f"{second // 60} minutes: {self._materialized} materializations")
        yield from ()

    def _report(self, context: dg.AssetExecutionContext, event: dg.AssetObservation | dg.AssetCheckEvaluation) -> None:
        self._reported += 1
        context.instance.report_runless_asset_event(event)

    def _parts(self) -> Mapping[TopicPartition, PartitionProgress]:
        position = self._second * _RECORDS_PER_SECOND
        part = PartitionProgress(position, position, position, records=position)
        return {TopicPartition(topic, n): part for topic in self.topics for n in range(self.partitions)}

    def _commit_log(self) -> CommitLog:
        position, now = self._second * _RECORDS_PER_SECOND, int(time.time() * 1000)

        def record(at: TopicPartition) -> CommitRecord:
            return CommitRecord(
                group=self.pipeline.group, cluster="source", source=at, kind="commit", pipeline=self.pipeline.name,
                position=position, leader_epoch=0, source_topic_id="source-topic-id", target_topic=at.topic,
                target_topic_id="target-topic-id", target_end=2 * position, generation=7, slot=at.partition % 2,
                sequence=self._second, time=now, records=position, began=0, log_start=0,
            )  # fmt: skip

        return CommitLog({at: record(at) for at in self._parts()})

    def table(self) -> str:
        """What was written when, and what that makes a day."""
        window = run_window(HOUR, self.pipeline.sync.reports_per_day, [self.partitions] * len(self.topics))
        moments = ["before", "each topic once", "ended"]
        parts = ["the start of a run, each topic once", "an hour after it"]
        rows, total = [], 0.0
        for (before, after), what, seconds in zip(pairwise(moments), parts, [window, HOUR], strict=True):
            size, made, told = (b - a for a, b in zip(self.sizes[before], self.sizes[after], strict=True))
            daily, each = DAY / seconds, size / (made + told)
            total += size * daily
            figures = f"{size / 1000:,.0f}", f"{each / 1000:.1f}", f"{daily:.1f}", f"{size * daily / 1e6:,.1f}"
            rows.append([what, f"{made:,}", f"{told:,}", *figures])
        rows.append(["all", "", "", "", "", "", f"{total / 1e6:,.1f}"])
        head = ["of reports", "materializations", "observations", "KB", "KB each", "times a day", "MB a day"]
        return report.table(head, rows)


@dataclass
class _Counting:
    """The step, and how many events go through it."""

    hour: Hour
    context: dg.AssetExecutionContext

    def log_event(self, event: dg.AssetMaterialization) -> None:
        self.hour._materialized += 1
        self.context.log_event(event)


def _title(options: argparse.Namespace) -> str:
    words = machine.listed()
    return (
        f"### How Dagster's database grows by reports: {options.storage}\n\n{options.topics} topics of "
        f"{options.partitions} partitions, all of which move all the time; `sync.reportsPerDay` and `sync.window` at "
        f"their defaults (1800, an hour)\n\n{words}"
    )


if __name__ == "__main__":
    main()
