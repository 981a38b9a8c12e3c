"""A storm: faults at random over real brokers and real processes, then a calm in which all has to come right.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from k2k_assets.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.storm import indexing
from k2k_assets_tests.storm.faults import FAULTS, LEAVE_NO_SLEEPER, Fault
from k2k_assets_tests.storm.hanging import HangingTransactions
from k2k_assets_tests.storm.instances import Engine
from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.storm.scene import Scene
from k2k_assets_tests.support.copying import commit_records
from k2k_assets_tests.support.kafka import end_offsets, unique
from k2k_assets_tests.support.numbered import NumberedWriter
from k2k_assets_tests.support.pipelines import write_pipeline
from k2k_assets_tests.support.verifying import Verdict, verify

_TRANSACTION_MS = 3000
_GRACE = "2 seconds"
_MOST_AT_ONCE = 4
_RECOVERY_SECONDS = 150.0
_STOP_SECONDS = 90.0
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
        verdict: Of the last comparison.
        problems: All that is wrong.
        directory: Evidence; gone if nothing is wrong.
        writes_failed: Batches of the source's writer without an answer.
    """

    plan: Plan
    directory: Path
    faults: dict[str, int] = field(default_factory=dict)
    instances: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)
    writes_failed: int = 0

    def words(self) -> str:
        """For people."""
        mode = "exactly once" if self.plan.exactly_once else "at least once"
        done = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        lines = [
            f"storm of {self.plan.seconds:g} s, seed {self.plan.seed}, {mode}, on {self.plan.engine}",
            f"  faults     {sum(self.faults.values())}: {done}",
            f"  instances  {self.instances}",
            f"  records    {self.verdict.records} on the source, {self.verdict.copies} on the target, "
            f"{self.verdict.commits} commit records",
            f"  verdict    {'nothing lost, doubled, reordered, torn or aborted' if not self.problems else 'WRONG'}",
        ]
        if self.problems:
            lines += [f"    {line}" for problem in self.problems for line in problem.splitlines()]
            lines.append(f"  evidence   {self.directory}")
        return "\n".join(lines)


def storm(plan: Plan) -> Report:
    """Runs a storm on brokers of its own."""
    directory = Path(tempfile.mkdtemp(prefix=f"k2k-storm-{plan.seed}-"))
    journal = Journal(directory, plan.aloud)
    report = Report(plan, directory)
    with KafkaSandbox(directory / "brokers") as sandbox:
        prefix, writer = unique("storm"), NumberedWriter(sandbox.source_servers, [], plan.seed)
        path = _pipeline_file(directory, sandbox, plan, prefix)
        scene = Scene(sandbox, path, plan.engine, prefix, writer, journal, plan.lasting)
        for partitions in (3, 1):
            scene.add_topic(partitions)
        try:
            with writer.writing():
                _begin(scene)
                _rounds(plan, scene, report)
        finally:
            scene.end()
            report.writes_failed = writer.failures
        if report.problems and scene.lost_markers():
            report.problems.append(_LOST_MARKERS)
    report.faults, report.instances = dict(journal.faults), scene.started
    if not report.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return report


def _begin(scene: Scene) -> None:
    """Faults strike a pipeline that is at work: what a broker does in the seconds after topics were made is its own."""

    def at_work() -> bool:
        scene.keep_up(2)
        return len(commit_records(scene.pipeline, scene.sandbox.target_servers)) > len(scene.writer.places)

    wait_until(at_work, _RECOVERY_SECONDS, "the first records to be copied", interval=0.3)


def _rounds(plan: Plan, scene: Scene, report: Report) -> None:
    began, number = time.monotonic(), 0
    while not report.problems and (left := plan.seconds - (time.monotonic() - began)) > 0:
        number += 1
        rng = random.Random(f"{plan.seed}.{number}")
        _strike(plan, scene, rng, min(left, plan.round_seconds))
        with scene.writer.quiet():
            _settle(scene, report, rng)
            source, target = scene.sandbox.source_servers, scene.sandbox.target_servers
            report.verdict = verify(scene.pipeline, source, target, scene.topics(), zombies=plan.late_writers)
            if plan.engine == "spark":
                report.problems += _index_problems(scene)
        report.problems += [*report.verdict.problems, *scene.unexpected]
        scene.journal.note(f"round {number}: {report.verdict.records} records, {report.problems or 'all is right'}")


def _strike(plan: Plan, scene: Scene, rng: random.Random, seconds: float) -> None:
    """Faults for some seconds. What is chosen depends on the seed alone; when it strikes, on the machine too."""
    faults = [f for f in FAULTS if (plan.engine == "spark" or not f.spark) and (f.name in plan.only or not plan.only)]
    weights = [fault.weight for fault in faults]
    end = time.monotonic() + seconds
    under_way: list[Future[None]] = []
    scene.stir()
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        while time.monotonic() < end:
            (fault,) = rng.choices(faults, weights)
            pause, seed, slots = rng.expovariate(1 / plan.pause), rng.random(), rng.randint(1, 4)
            under_way.append(pool.submit(_act, fault, scene, random.Random(seed)))
            next_one = min(end, time.monotonic() + pause)
            while time.monotonic() < next_one or sum(not done.done() for done in under_way) >= _MOST_AT_ONCE:
                scene.keep_up(slots)
                time.sleep(0.1)
        scene.calm()
    for done in under_way:
        done.result()


def _act(fault: Fault, scene: Scene, rng: random.Random) -> None:
    began = time.monotonic()
    what = fault.act(scene, rng)
    if what:
        scene.journal.did(fault.name, what, time.monotonic() - began)


def _settle(scene: Scene, report: Report, rng: random.Random) -> None:
    """After the last fault: the pipeline recovers by itself, catches up, and stops when it is asked to."""
    slots, hanging = rng.randint(1, 4), HangingTransactions(scene.journal)
    scene.journal.note("calm")

    def caught_up() -> bool:
        scene.keep_up(slots)
        try:
            if scene.lost_markers():
                for servers, topics in scene.all_topics().items():
                    hanging.abort(servers, topics)
            return _caught_up(scene)
        except (KafkaException, TimeoutError):  # a broker has just come back
            return False

    try:
        wait_until(caught_up, _RECOVERY_SECONDS, "the pipeline to recover and to catch up", interval=1.0)
    except TimeoutError as late:
        told = "\n".join(f"{instance.name}:\n{instance.last_words()}" for instance in scene.instances())
        report.problems.append(f"{late}\n{told}")
    scene.journal.note("NOT caught up" if report.problems else "caught up")
    scene.stop_instances(_STOP_SECONDS)


def _index_problems(scene: Scene) -> list[str]:
    """Whatever befell the updates before, the next one makes the index whole."""
    with scene.index_update() as update:
        assert update is not None, "all faults have ended"
        code, said = indexing.outcome(update)
    if code:
        return [f"the index was not brought up to date: {said}"]
    return indexing.problems(scene.pipeline, scene.sandbox.target_servers)


def _caught_up(scene: Scene) -> bool:
    """No transaction is open on the source, and every position is at its end."""
    source = scene.sandbox.source_servers
    positions = {r.source: r.position for r in commit_records(scene.pipeline, scene.sandbox.target_servers)}
    for topic in scene.topics():
        ends = end_offsets(source, topic)
        if end_offsets(source, topic, "read_committed") != ends:
            return False
        if any(positions.get(TopicPartition(topic, p), 0) < end for p, end in ends.items()):
            return False
    return True


def _pipeline_file(directory: Path, sandbox: KafkaSandbox, plan: Plan, prefix: str) -> Path:
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
        "index": {"path": str(directory / "index")},
        # Transactions stay open for long, so that faults meet them.
        "sync": {"minCommitInterval": "300 milliseconds", "metadataInterval": "2 seconds"},
    }
    features = {"exactlyOnce": "enabled" if plan.exactly_once else "disabled", "offsetMapping": "enabled"}
    return write_pipeline(
        directory,
        sandbox.source_servers,
        sandbox.target_servers,
        f"{prefix}.*",
        features={**features, "headerReplication": "enabled"},
        **sections,
    )
