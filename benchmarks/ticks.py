"""Measures one tick of each sensor, and its cursor, where there is much to look at.

    python -m benchmarks.ticks                                  # 500 topics of 20 partitions, 1 000 groups
    python -m benchmarks.ticks --topics 50 --groups 100         # to try the benchmark itself
    python -m benchmarks.ticks --append                         # the same, appended to RESULTS.md
    python -m benchmarks.ticks --profile                        # and where the time of each case goes

Two real brokers hold the topics and groups, and a real Dagster instance on SQLite with the settings that are shipped
the history. A tick is evaluated as Dagster's code server does it, in this process; what the daemon then writes, the
events that a tick has reported, is measured apart. Between two ticks everything moves: each partition is committed
anew.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import dagster as dg
from dagster._serdes import serialize_value

from benchmarks import machine, report
from benchmarks.tick_world import Size, TickWorld
from k2k_assets import orchestration
from k2k_assets.core.stops.reasons.target_topic import TargetDeleted
from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.names import AssetNames

GOAL_SECONDS, GOAL_KB = 2.0, 64.0


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ticks", description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=5, help="of each case")
    parser.add_argument("--profile", action="store_true", help="show where the time of each case goes")
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    size = Size(options.topics, options.partitions, options.groups)
    with tempfile.TemporaryDirectory(prefix="k2k-ticks-") as folder:
        home = Path(folder) / "dagster"
        home.mkdir()
        (home / "dagster.yaml").write_text((Path(orchestration.__file__).parent / "dagster.yaml").read_text())
        os.environ["DAGSTER_HOME"] = str(home)
        with TickWorld(size, Path(folder)) as world, dg.DagsterInstance.from_config(str(home)) as instance:
            cases = list(_cases(world, instance, options.ticks, options.profile))
    sections = [_title(size), report.table(_HEAD, [case.row() for case in cases])]
    report.publish(sections, options.append)


@dataclass
class Case:
    """Ticks of one sensor in one situation.

    Attributes:
        name: Of the situation.
        sensor: Of the sensor.
        seconds: What each tick took.
        cpu: Processor time of each, with that of the process that asks for groups.
        writes: What Dagster needed each time to write its events.
        events: How many there were, each time.
        cursor: The largest cursor, bytes.
        said: What the last one said.
    """

    name: str
    sensor: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    cursor: int = 0
    said: str = ""

    def row(self) -> list[str]:
        """A row of the table."""
        return [
            self.sensor,
            self.name,
            str(len(self.seconds)),
            f"{median(self.seconds):.2f}",
            f"{max(self.seconds):.2f}",
            f"{median(self.cpu):.2f}",
            f"{max(self.events)}",
            f"{max(self.writes):.2f}",
            f"{self.cursor / 1024:.1f}",
        ]


_HEAD = [
    "sensor",
    "while",
    "ticks",
    "median s",
    "max s",
    "median CPU s",
    "most events",
    "most s to write them",
    "largest cursor, KB",
]


class Sensor:
    """A sensor of the pipeline as it is known now.

    Args:
        world: Where the pipeline is.
        instance: Dagster's.
        name: Of the sensor.
    """

    def __init__(self, world: TickWorld, instance: dg.DagsterInstance, name: str) -> None:
        self._instance = instance
        self.repository = build_definitions(world.folder / "pipelines").get_repository_def()
        self._definition = self.repository.get_sensor_def(name)
        self._cursor: str | None = None

    def tick(self, case: Case, profile: cProfile.Profile | None = None) -> None:
        """One tick, and what follows from it."""
        context = dg.build_sensor_context(
            instance=self._instance,
            cursor=self._cursor,
            repository_def=self.repository,
            sensor_name=self._definition.name,
            last_sensor_start_time=0.0,
        )
        began, cpu = time.perf_counter(), sum(os.times()[:4])
        if profile:
            profile.enable()
        answer: Any = self._definition.evaluate_tick(context)
        serialize_value(answer)
        if profile:
            profile.disable()
        case.seconds.append(time.perf_counter() - began)
        case.cpu.append(sum(os.times()[:4]) - cpu)
        began = time.perf_counter()
        for event in answer.asset_events:
            self._instance.report_runless_asset_event(event)
        case.writes.append(time.perf_counter() - began)
        case.events.append(len(answer.asset_events))
        self._cursor = answer.cursor
        case.cursor = max(case.cursor, len((answer.cursor or "").encode()))
        case.said = answer.skip_message or f"{len(answer.run_requests or [])} runs asked for"
        report.progress(f"{case.sensor}, {case.name}: {case.seconds[-1]:.2f} s, {case.events[-1]} events, {case.said}")


def _cases(world: TickWorld, instance: dg.DagsterInstance, ticks: int, profiled: bool) -> Iterator[Case]:
    names = AssetNames(world.pipeline.name)
    shown = Sensor(world, instance, names.sensor)

    def ticked(sensor: Sensor, case: Case, between: Callable[[], object], count: int = ticks) -> Case:
        with _profile(profiled) as profile:
            for _ in range(count):
                sensor.tick(case, profile)
                between()
        return case

    yield ticked(shown, Case("nothing is known yet", "replication"), lambda: None, 1)
    # As the code location shows it after that.
    replication = Sensor(world, instance, names.sensor)

    by_hand = world.claim_all(run=None)

    def moves() -> None:
        world.commit_all()
        by_hand.beat()

    yield ticked(replication, Case("a `k2k start` copies, and all topics move", "replication"), moves)
    by_hand.leave()

    job = replication.repository.get_job(names.sync_job)
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=names.sync_tags)
    own = world.claim_all(run=run.run_id)

    def copies() -> None:
        world.commit_all()
        own.beat()

    yield ticked(replication, Case("a run copies", "replication"), copies)
    own.leave()
    instance.report_run_failed(run)
    world.commit_all(stopped=TargetDeleted("europe.shop-00.order-events.v000", "europe.shop-00.order-events.v000"))
    yield ticked(replication, Case("every topic is stopped", "replication"), lambda: None)

    offsets = Sensor(world, instance, names.offset_sensor)
    moving = offsets.repository.get_job(names.offset_sync_job)
    run = instance.create_run_for_job(moving, status=dg.DagsterRunStatus.STARTED, tags=names.offset_sync_tags)
    mapper = world.mapper(run.run_id)
    yield ticked(offsets, Case("a run moves the groups", "offsets"), lambda: world.beat(mapper))


@contextmanager
def _profile(wanted: bool) -> Iterator[cProfile.Profile | None]:
    if not wanted:
        yield None
        return
    profile = cProfile.Profile()
    yield profile
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


def _title(size: Size) -> str:
    words = machine.listed()
    return (
        f"### Ticks\n\n{size.topics} topics of {size.partitions} partitions, {size.groups} groups with a commit in "
        f"each partition of two topics; goals: {GOAL_SECONDS:g} s a tick, {GOAL_KB:g} KB a cursor\n\n{words}"
    )


if __name__ == "__main__":
    main()
