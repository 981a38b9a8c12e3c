"""A storm: random faults on real brokers and processes, then a calm after which everything must be right.

    python -m k2k_assets_tests.storm --seconds 300 --seed 7

A storm goes in rounds. In each one faults strike for a while, several at the same time; then they end, the pipeline has
to recover and to catch up by itself, all its instances have to stop when they are asked to, and every record is
compared. Positions, topics and brokers live on into the next round.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.storm import indexing
from k2k_assets_tests.storm.environment import Environment
from k2k_assets_tests.storm.faults import FAULTS, LEAVE_NO_SLEEPER, Fault
from k2k_assets_tests.storm.fleet import Fleet
from k2k_assets_tests.storm.groups import ReadingGroups
from k2k_assets_tests.storm.hanging import HangingTransactions
from k2k_assets_tests.storm.history_of_dagster import runs_in_words
from k2k_assets_tests.storm.instances import Engine, home_of_dagster
from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.storm.opposite import Opposite
from k2k_assets_tests.storm.stages import Stages, all_stages
from k2k_assets_tests.support.copying import commit_records, mapping_records
from k2k_assets_tests.support.kafka import end_offsets, read_all, unique
from k2k_assets_tests.support.numbered import NumberedWriter
from k2k_assets_tests.support.offsets_topic import group_commits
from k2k_assets_tests.support.pipelines import write_pipeline
from k2k_assets_tests.support.verifying import Verdict, verify
from k2k_assets_tests.support.verifying_groups import Copies, GroupVerdict, misplaced, verify_commits

_PIPELINES = "pipelines"
_TRANSACTION_MS = 3000
_GRACE = "2 seconds"
_MOST_AT_ONCE = 4
_RECOVERY_SECONDS = 150.0
_STOP_SECONDS = 90.0
_GROUPS = 5
_GROUP_SECONDS = 60.0
# In Dagster they wait for the checks of the mappings.
_VERDICT_SECONDS = 240.0
_LOST_MARKERS = (
    "a broker skipped transaction markers after its restart (see its log): that transaction hangs for ever, which is "
    "Kafka's own defect and may explain all of the above"
)


@dataclass(frozen=True)
class Plan:
    """What kind of storm.

    Attributes:
        seconds: How long faults strike, in all.
        seed: Of every choice.
        exactly_once: The delivery mode.
        engine: What the instances run on.
        round_seconds: How long faults strike before the next calm.
        lasting: Seconds of what has to outlast time-outs, from and to.
        pause: Mean seconds between two faults.
        only: Names of faults; all if empty.
        aloud: Whether to tell what happens.
        stages: Whether the pipeline changes records.
        both_ways: Whether a second pipeline copies back what is written on the target; then without groups.
    """

    seconds: float
    seed: int
    exactly_once: bool = True
    engine: Engine = "processes"
    round_seconds: float = 120.0
    lasting: tuple[float, float] = (1.0, 26.0)
    pause: float = 3.0
    only: tuple[str, ...] = ()
    aloud: bool = False
    stages: bool = False
    both_ways: bool = False

    @property
    def late_writers(self) -> bool:
        """Whether what a writer had sent may come behind its successor's records: at least once, if it can sleep."""
        return not self.exactly_once and not (self.only and LEAVE_NO_SLEEPER.issuperset(self.only))


@dataclass
class Report:
    """What came of it.

    Attributes:
        faults: What was done, how often.
        instances: How many were started.
        mappers: Likewise, of consumer groups.
        verdict: Of the last comparison.
        groups: Likewise, of the groups.
        problems: All that is wrong.
        directory: Evidence; gone if nothing is wrong.
        writes_failed: Batches of the source's writer without an answer.
        runs: Of Dagster, in words; empty elsewhere.
    """

    plan: Plan
    directory: Path
    faults: dict[str, int] = field(default_factory=dict)
    instances: int = 0
    mappers: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    groups: GroupVerdict = field(default_factory=GroupVerdict)
    problems: list[str] = field(default_factory=list)
    writes_failed: int = 0
    runs: str = ""

    def words(self) -> str:
        """For people."""
        mode = "exactly once" if self.plan.exactly_once else "at least once"
        stages = ", with stages that change records" if self.plan.stages else ""
        stages += ", both ways" if self.plan.both_ways else ""
        groups = 0 if self.plan.both_ways else _GROUPS
        done = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        lines = [
            f"storm of {self.plan.seconds:g} s, seed {self.plan.seed}, {mode}, on {self.plan.engine}{stages}",
            f"  faults     {sum(self.faults.values())}: {done}",
            f"  instances  {self.instances}, and {self.mappers} mappers",
            f"  records    {self.verdict.records} on the source, {self.verdict.copies} on the target, "
            f"{self.verdict.commits} commit records",
            f"  groups     {groups}, {self.groups.commits} of their commits on the target",
            f"  verdict    {'nothing lost, doubled, reordered, torn or aborted' if not self.problems else 'WRONG'}",
        ]
        if self.runs:
            lines.append(f"  Dagster    {self.runs}")
        if self.problems:
            lines += [f"    {line}" for problem in self.problems for line in problem.splitlines()]
            lines.append(f"  evidence   {self.directory}")
        return "\n".join(lines)


def storm(plan: Plan) -> Report:
    """Runs a storm on brokers of its own."""
    directory = Path(tempfile.mkdtemp(prefix=f"k2k-storm-{plan.seed}-"))
    journal = Journal(directory, plan.aloud)
    report = Report(plan, directory)
    with KafkaSandbox(directory / "brokers") as sandbox, _stages(plan, directory) as stages:
        ways = _ways(plan, directory, sandbox, stages, journal)
        for partitions in (3, 1):
            ways[0].environment.add_topic(partitions)
        try:
            with ExitStack() as at_work:
                for way in ways:
                    _begin(way, at_work)
                _rounds(plan, ways, report)
        finally:
            for way in ways:
                way.environment.end()
            report.writes_failed = sum(way.environment.writer.failures for way in ways)
        if report.problems and ways[0].environment.lost_markers():
            report.problems.append(_LOST_MARKERS)
    if plan.engine == "dagster":
        report.runs = runs_in_words(home_of_dagster(directory / _PIPELINES))
    report.faults = dict(journal.faults)
    report.instances = sum(way.environment.copiers.started for way in ways)
    report.mappers = sum(way.environment.mappers.started for way in ways)
    if not report.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return report


class _Way(NamedTuple):
    """One pipeline of a storm; without groups where a second one copies back."""

    environment: Environment
    stages: Stages
    groups: ReadingGroups | None


def _ways(plan: Plan, directory: Path, sandbox: KafkaSandbox, stages: list[Stages], journal: Journal) -> list[_Way]:
    prefix = unique("storm")
    readers = [] if plan.both_ways else [f"{prefix}-reader-{number}" for number in range(_GROUPS)]
    ways: list[_Way] = []
    for number, (clusters, staged) in enumerate(zip((sandbox, Opposite(sandbox)), stages, strict=False)):
        writer = NumberedWriter(clusters.source_servers, [], plan.seed + number, dress=staged.dress)
        path = _pipeline_file(directory, clusters, plan, prefix, readers, staged, number)
        what = clusters, path, plan.engine, prefix, writer, journal, plan.lasting, staged
        environment = Environment(*what, ways[0].environment if ways else None)
        groups = ReadingGroups(clusters.source_servers, readers, writer.places, plan.seed) if readers else None
        ways.append(_Way(environment, staged, groups))
    return ways


def _begin(way: _Way, at_work: ExitStack) -> None:
    """Faults strike a pipeline that is at work: what a broker does in the seconds after topics were made is its own."""
    environment = way.environment

    def is_at_work() -> bool:
        environment.keep_up(2)
        return len(commit_records(environment.pipeline, environment.sandbox.target_servers)) > len(
            environment.writer.places
        )

    if not environment.writer.places:
        wait_until(environment.follow, _RECOVERY_SECONDS, "the topics of the opposite pipeline", interval=0.3)
    at_work.enter_context(environment.writer.writing())
    wait_until(is_at_work, _RECOVERY_SECONDS, "the first records to be copied", interval=0.3)
    if way.groups is not None:
        at_work.enter_context(way.groups.reading())


def _stages(plan: Plan, directory: Path) -> AbstractContextManager[list[Stages]]:
    # Without a marker what is copied would be copied back.
    return all_stages(directory, plan.both_ways) if plan.stages or plan.both_ways else nullcontext([Stages()])


def _rounds(plan: Plan, ways: list[_Way], report: Report) -> None:
    began, number = time.monotonic(), 0
    first = ways[0].environment
    while not report.problems and (left := plan.seconds - (time.monotonic() - began)) > 0:
        number += 1
        rng = random.Random(f"{plan.seed}.{number}")
        _strike(plan, [way.environment for way in ways], rng, min(left, plan.round_seconds))
        with ExitStack() as quiet:
            for way in ways:
                quiet.enter_context(way.environment.writer.quiet())
                if way.groups is not None:
                    quiet.enter_context(way.groups.quiet())
            _settle(ways, report, rng)
            verdicts = [_verdict(plan, way) for way in ways]
            report.verdict = sum(verdicts, Verdict())
            if ways[0].groups is not None:
                report.groups = _group_verdict(first, ways[0].groups)
            if plan.engine != "processes":
                report.problems += [words for way in ways for words in _index_problems(way.environment)]
        unexpected = [words for way in ways for words in way.environment.unexpected()]
        report.problems += [*report.verdict.problems, *report.groups.problems, *unexpected]
        first.journal.note(f"round {number}: {report.verdict.records} records, {report.problems or 'all is right'}")


def _verdict(plan: Plan, way: _Way) -> Verdict:
    environment, stages = way.environment, way.stages
    clusters = environment.sandbox
    return verify(
        environment.pipeline, clusters.source_servers, clusters.target_servers, environment.topics(),
        plan.late_writers, stages.through_all, stages.is_copy,
    )  # fmt: skip


def _strike(plan: Plan, environments: list[Environment], rng: random.Random, seconds: float) -> None:
    """Faults for some seconds. What is chosen depends on the seed alone; when it strikes, on the machine too."""
    faults = [f for f in FAULTS if plan.engine in f.engines and (f.name in plan.only or not plan.only)]
    weights = [fault.weight for fault in faults]
    end = time.monotonic() + seconds
    under_way: list[Future[None]] = []
    for environment in environments:
        environment.stir()
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        while time.monotonic() < end:
            (fault,) = rng.choices(faults, weights)
            struck = environments[0] if fault.shared or len(environments) == 1 else rng.choice(environments)
            pause, seed, slots = rng.expovariate(1 / plan.pause), rng.random(), rng.randint(1, 4)
            under_way.append(pool.submit(_act, fault, struck, random.Random(seed)))
            next_one = min(end, time.monotonic() + pause)
            while time.monotonic() < next_one or sum(not done.done() for done in under_way) >= _MOST_AT_ONCE:
                for environment in environments:
                    environment.keep_up(slots)
                time.sleep(0.1)
            for environment in environments[1:]:
                environment.follow()
        for environment in environments:
            environment.calm()
    for done in under_way:
        done.result()


def _act(fault: Fault, environment: Environment, rng: random.Random) -> None:
    began = time.monotonic()
    what = fault.act(environment, rng)
    if what:
        environment.journal.did(fault.name, what, time.monotonic() - began)


def _settle(ways: list[_Way], report: Report, rng: random.Random) -> None:
    """After the last fault: all recover by themselves, catch up, move all groups, and stop when asked to."""
    environments, journal = [way.environment for way in ways], ways[0].environment.journal
    slots, hanging = rng.randint(1, 4), HangingTransactions(journal)
    journal.note("calm")

    def caught_up() -> bool:
        for environment in environments:
            environment.keep_up(slots)
        try:
            if environments[0].lost_markers():
                for environment in environments:
                    for servers, topics in environment.all_topics().items():
                        hanging.abort(servers, topics)
            return all([*map(_caught_up, environments)])
        except (KafkaException, TimeoutError):  # a broker has just come back
            return False

    try:
        wait_until(caught_up, _RECOVERY_SECONDS, "the pipeline to recover and to catch up", interval=1.0)
    except TimeoutError as late:
        said = "\n".join(_last_words(environment.copiers) for environment in environments)
        report.problems.append(f"{late}\n{said}")
    journal.note("NOT caught up" if report.problems else "caught up")
    if not report.problems and ways[0].groups is not None:
        report.problems += _left_behind(environments[0], ways[0].groups, slots)
    for environment in environments:
        for fleet in (environment.copiers, environment.mappers):
            fleet.stop(_STOP_SECONDS)


def _left_behind(environment: Environment, groups: ReadingGroups, slots: int) -> list[str]:
    """Groups that a mapper does not move to where they belong, though all is calm."""
    copies, positions, found = _copies(environment), groups.positions(), [[""]]
    patience = _GROUP_SECONDS if environment.mappers.started else _VERDICT_SECONDS

    def all_moved() -> bool:
        environment.keep_up(slots)
        held = {(c.group, c.partition): c.offset for c in group_commits(environment.sandbox.target_servers)}
        found.append(misplaced(held, positions, copies))
        return not found[-1]

    try:
        wait_until(all_moved, patience, "the groups to be moved", interval=1.0)
    except TimeoutError as late:
        return [f"{late}: {'; '.join(found[-1])}\n{_last_words(environment.mappers)}"]
    return []


def _group_verdict(environment: Environment, groups: ReadingGroups) -> GroupVerdict:
    made = group_commits(environment.sandbox.target_servers)
    return verify_commits(made, groups.history, _copies(environment), environment.pipeline.groups.offset_guard_prefix)


def _copies(environment: Environment) -> dict[TopicPartition, Copies]:
    """Where each record of each source partition is now."""
    mappings = mapping_records(environment.pipeline, environment.sandbox.target_servers)
    copies = {}
    for topic, partitions in environment.topics().items():
        there = read_all(environment.sandbox.source_servers, topic)
        copied = read_all(environment.sandbox.target_servers, environment.pipeline.routing.target_topic(topic))
        for partition in range(partitions):
            copies[TopicPartition(topic, partition)] = Copies.of(
                [record for record in there if record.partition == partition],
                [record for record in copied if record.partition == partition],
                [record for record in mappings if (record.topic, record.partition) == (topic, partition)],
            )
    return copies


def _last_words(fleet: Fleet) -> str:
    return "\n".join(f"{instance.name}:\n{instance.last_words()}" for instance in fleet.running())


def _index_problems(environment: Environment) -> list[str]:
    """Whatever befell the updates before, the next one makes the index whole."""
    with environment.index_update() as update:
        assert update is not None, "all faults have ended"
        code, said = indexing.outcome(update)
    if code:
        return [f"the index was not brought up to date: {said}"]
    return indexing.problems(environment.pipeline, environment.sandbox.target_servers)


def _caught_up(environment: Environment) -> bool:
    """No transaction is open on the source, and every position is at its end."""
    source = environment.sandbox.source_servers
    positions = {r.source: r.position for r in commit_records(environment.pipeline, environment.sandbox.target_servers)}
    for topic in environment.topics():
        ends = end_offsets(source, topic)
        if end_offsets(source, topic, "read_committed") != ends:
            return False
        if any(positions.get(TopicPartition(topic, p), 0) < end for p, end in ends.items()):
            return False
    return True


def _pipeline_file(
    directory: Path, sandbox: KafkaSandbox, plan: Plan, prefix: str, groups: list[str], stages: Stages, number: int
) -> Path:
    name = unique("storm")
    sections: dict[str, Any] = {
        "coordination": {
            "commit": {"topic": f"{name}-commits", "syncTimeout": "15 seconds", "batchSize": 50},
            "assignment": {"topic": f"{name}-claims", "graceWindow": _GRACE},
        },
        "target": {
            "kafka": {
                "common": {"bootstrap.servers": sandbox.target_servers},
                "producer": {"transaction.timeout.ms": _TRANSACTION_MS},
            }
        },
        "errorHandling": {"onCommitSyncTimeout": "ignore", "onControlMessageDeserializationError": "ignore"},
        "spark": {"master": "local[4]", "config": {"spark.sql.shuffle.partitions": "2"}},
        "index": {"path": str(directory / f"index-{number}")},
        # Transactions stay open for long, so that faults meet them.
        "sync": {"minCommitInterval": "300 milliseconds", "metadataInterval": "2 seconds"},
    }
    if groups:
        sections["groups"] = {"consumerGroups": groups, "pollInterval": "500 milliseconds"}
    folder = directory / _PIPELINES / (str(number) if number else "")
    folder.mkdir(parents=True)
    if plan.engine == "dagster":
        sections["sync"]["window"] = "60 seconds"
        sections["index"]["interval"] = "30 seconds"
    features = {"exactlyOnce": "enabled" if plan.exactly_once else "disabled", "offsetMapping": "enabled"}
    return write_pipeline(
        folder,
        sandbox.source_servers,
        sandbox.target_servers,
        f"{prefix}.*",
        features={**features, "headerReplication": "enabled", **stages.features()},
        **stages.write_options(),
        **sections,
    )
