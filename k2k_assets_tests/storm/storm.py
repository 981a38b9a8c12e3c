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

from confluent_kafka import KafkaException

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.storm import indexing
from k2k_assets_tests.storm.environment import Environment
from k2k_assets_tests.storm.faults import FAULTS, Fault
from k2k_assets_tests.storm.forms import Sessions, sessions_of
from k2k_assets_tests.storm.hanging import HangingTransactions
from k2k_assets_tests.storm.history_of_dagster import runs_in_words, too_large
from k2k_assets_tests.storm.instances import home_of_dagster
from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.storm.judging import await_groups, compare_groups, compare_records
from k2k_assets_tests.storm.plan import Plan
from k2k_assets_tests.storm.staged import all_stages, stages_both_ways
from k2k_assets_tests.storm.stages import Stages
from k2k_assets_tests.storm.ways import GROUPS, PIPELINES, Way, ways_of
from k2k_assets_tests.support.brokers.kafka import end_offsets
from k2k_assets_tests.support.copies.copying import commit_records
from k2k_assets_tests.support.proof.verifying import Verdict
from k2k_assets_tests.support.proof.verifying_groups import GroupVerdict

_MOST_AT_ONCE = 4
_RECOVERY_SECONDS = 150.0
_STOP_SECONDS = 90.0
_LOST_MARKERS = (
    "a broker skipped transaction markers after its restart (see its log): that transaction hangs for ever, which is "
    "Kafka's own defect and may explain all of the above"
)


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
        sessions: How many there were of each form, and why some went back to records.
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
    sessions: Sessions = field(default_factory=Sessions)

    def words(self) -> str:
        """For people."""
        mode = "exactly once" if self.plan.exactly_once else "at least once"
        stages = ", with stages that change records" if self.plan.stages else ""
        stages += f", both ways, markers of mode {self.plan.marker}" if self.plan.both_ways else ""
        form = f", {self.plan.form}"
        groups = GROUPS * (2 if self.plan.both_ways else 1)
        done = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        lines = [
            f"storm of {self.plan.seconds:g} s, seed {self.plan.seed}, {mode}{form}, on {self.plan.engine}{stages}",
            f"  faults     {sum(self.faults.values())}: {done}",
            f"  instances  {self.instances}, and {self.mappers} mappers",
            f"  sessions   {self.sessions.words()}",
            f"  records    {self.verdict.records} on the source, {self.verdict.copies} on the target, "
            f"{self.verdict.commits} commit records, {self.verdict.dead_letters} dead letters",
            f"  groups     {groups}, {self.groups.commits} of their commits on the target{self._answers()}",
            f"  verdict    {'nothing lost, doubled, reordered, torn or aborted' if not self.problems else 'WRONG'}",
        ]
        if self.runs:
            lines.append(f"  Dagster    {self.runs}")
        if self.problems:
            lines += [f"    {line}" for problem in self.problems for line in problem.splitlines()]
            lines.append(f"  evidence   {self.directory}")
        return "\n".join(lines)

    def _answers(self) -> str:
        said = ", ".join(f"{count} x {state}" for state, count in sorted(self.groups.answers.items()))
        return f"; of positions is said: {said}" if said else ""


def storm(plan: Plan) -> Report:
    """Runs a storm on brokers of its own."""
    directory = Path(tempfile.mkdtemp(prefix=f"k2k-storm-{plan.seed}-"))
    journal = Journal(directory, plan.aloud)
    report, began = Report(plan, directory), time.monotonic()
    with KafkaSandbox(directory / "brokers") as sandbox, _stages(plan, directory, sandbox) as stages:
        ways = ways_of(plan, directory, sandbox, stages, journal)
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
        home, lasted = home_of_dagster(directory / PIPELINES), time.monotonic() - began
        report.runs = runs_in_words(home, lasted)
        report.problems += too_large(home, lasted)
    report.sessions = sessions_of(directory)
    report.problems += report.sessions.problems(plan.form, plan.engine)
    report.faults = dict(journal.faults)
    report.instances = sum(way.environment.copiers.started for way in ways)
    report.mappers = sum(way.environment.mappers.started for way in ways)
    if not report.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return report


def _begin(way: Way, at_work: ExitStack) -> None:
    """Faults strike a pipeline that is at work: what a broker does in the seconds after topics were made is its own."""
    environment = way.environment

    def is_at_work() -> bool:
        environment.keep_up(2)
        return len(commit_records(environment.pipeline, environment.sandbox.target_servers)) > len(
            environment.writer.places
        )

    if not environment.writer.places:
        wait_until(environment.follow, _RECOVERY_SECONDS, "the topics of the opposite pipeline", interval=0.3)
    at_work.enter_context(environment.writer.going_on())
    wait_until(is_at_work, _RECOVERY_SECONDS, "the first records to be copied", interval=0.3)
    at_work.enter_context(way.groups.going_on())


def _stages(plan: Plan, directory: Path, sandbox: KafkaSandbox) -> AbstractContextManager[list[Stages]]:
    if plan.both_ways:  # without a marker what is copied would be copied back
        ids = sandbox.source.cluster_id, sandbox.target.cluster_id
        return stages_both_ways(directory, ids if plan.marker == "cluster" else None)
    return all_stages(directory) if plan.stages else nullcontext([Stages()])


def _rounds(plan: Plan, ways: list[Way], report: Report) -> None:
    began, number = time.monotonic(), 0
    first = ways[0].environment
    while not report.problems and (left := plan.seconds - (time.monotonic() - began)) > 0:
        number += 1
        rng = random.Random(f"{plan.seed}.{number}")
        _strike(plan, [way.environment for way in ways], rng, min(left, plan.round_seconds))
        with ExitStack() as quiet:
            for way in ways:
                quiet.enter_context(way.environment.writer.quiet())
                quiet.enter_context(way.groups.quiet())
            _settle(ways, report, rng)
            report.verdict = sum((compare_records(plan, way) for way in ways), Verdict())
            report.groups = compare_groups(plan, ways)
            if plan.engine != "processes":
                report.problems += [words for way in ways for words in _index_problems(way.environment)]
        unexpected = [words for way in ways for words in way.environment.unexpected()]
        report.problems += [*report.verdict.problems, *report.groups.problems, *unexpected]
        first.journal.note(f"round {number}: {report.verdict.records} records, {report.problems or 'all is right'}")


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


def _settle(ways: list[Way], report: Report, rng: random.Random) -> None:
    """After the last fault: all recover by themselves, catch up, move all groups, and stop when asked to."""
    environments, journal = [way.environment for way in ways], ways[0].environment.journal
    slots, hanging = rng.randint(1, 4), HangingTransactions(journal)
    journal.note("calm")

    def keep_up() -> None:
        for environment in environments:
            environment.keep_up(slots)

    def caught_up() -> bool:
        keep_up()
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
        said = "\n".join(environment.copiers.last_words() for environment in environments)
        report.problems.append(f"{late}\n{said}")
    journal.note("NOT caught up" if report.problems else "caught up")
    if not report.problems:
        report.problems += await_groups(ways, keep_up)
    for environment in environments:
        for fleet in (environment.copiers, environment.mappers):
            fleet.stop(_STOP_SECONDS)


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
