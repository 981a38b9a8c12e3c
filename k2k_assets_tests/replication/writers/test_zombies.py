"""Writers that resume too late: frozen beyond every timeout, superseded, or started twice."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult, copy_slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.interface import Sink
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, create_topic, end_offsets, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.copies.slot_processes import Misfortune, SlotProcesses
from k2k_assets_tests.support.copies.steps import WrappedSink, sinks_wrapped
from k2k_assets_tests.support.copies.takeovers import assignment_records, parsed
from k2k_assets_tests.support.proof.verifying import Verdict, verify
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

TRANSACTION_SECONDS = 1.0
# Seconds that a slot is frozen: slightly more than its transaction timeout, or much more.
SHORT, LONG = TRANSACTION_SECONDS + 0.5, 25.0
PARTITIONS = 2
Make = Callable[[str], Pipeline]


@pytest.fixture
def topic(clusters: KafkaSandbox, writer: NumberedWriter) -> str:
    name = create_topic(clusters.source_servers, unique("zombie"), PARTITIONS)
    write(writer, name)
    return name


@pytest.fixture
def writer(clusters: KafkaSandbox) -> NumberedWriter:
    return NumberedWriter(clusters.source_servers, [], 0)


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path, topic: str) -> Make:
    def made(mode: str) -> Pipeline:
        name = unique("zombie")
        producer = {"transaction.timeout.ms": int(TRANSACTION_SECONDS * 1000)}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
            coordination={
                "commit": {"topic": f"{name}-commits", "batchSize": 40},
                "assignment": {"topic": f"{name}-claims", "graceWindow": "1 second"},
            },
            producer=producer,
        )

    return made


@pytest.fixture
def frozen() -> Iterator[Callable[[str, int], SlotProcesses]]:
    """Runners whose first slots freeze at a step; nothing of them is left after the test."""
    made: list[SlotProcesses] = []

    def at(step: str, occurrence: int) -> SlotProcesses:
        made.append(SlotProcesses(Misfortune(step, occurrence)))
        return made[-1]

    yield at
    for runner in made:
        runner.end()


def write(writer: NumberedWriter, topic: str) -> None:
    """Committed, aborted and plain batches in each partition."""
    for partition in range(PARTITIONS):
        for kind in ("plain", "committed", "aborted", "plain"):
            writer.write(60, topic, partition, kind)


def judged(clusters: KafkaSandbox, pipeline: Pipeline, topic: str, zombies: bool) -> Verdict:
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, [topic], zombies=zombies)
    assert verdict.problems == []
    return verdict


def nothing_open(servers: str, topic: str) -> bool:
    return end_offsets(servers, topic) == end_offsets(servers, topic, "read_committed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "step", "occurrence", "seconds"),
    [
        ("enabled", "before_commit", 4, SHORT),
        ("disabled", "write", 3, SHORT),
        *in_storms(
            ("enabled", "write", 3, SHORT),
            ("enabled", "during_commit", 4, SHORT),
            ("disabled", "before_commit", 4, SHORT),
            ("enabled", "before_commit", 4, LONG),
            ("disabled", "write", 3, LONG),
        ),
    ],
)
def test_a_slot_that_slept_past_its_transaction_goes_on(
    clusters: KafkaSandbox, make: Make, topic: str, frozen: Any, mode: str, step: str, occurrence: int, seconds: float
) -> None:
    """The broker aborts what was open; the slot wakes, is refused, and reads what the target holds."""
    pipeline, runner = make(mode), frozen(step, occurrence)
    with ThreadPoolExecutor(1) as pool:
        running: Future[Outcome] = pool.submit(copy, pipeline, cores=1, runner=runner)
        runner.await_frozen(seconds)
        wait_until(lambda: nothing_open(clusters.target_servers, topic), SECONDS, "the broker to abort")
        runner.thaw()
        outcome = running.result(90)
    assert outcome.topics[topic].lag == 0
    assert judged(clusters, pipeline, topic, zombies=False).records == PARTITIONS * 180


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "step", "seconds"),
    [
        ("enabled", "write", 0.0),
        ("enabled", "during_commit", 0.0),
        ("disabled", "before_commit", 0.0),
        *in_storms(
            ("enabled", "begin", 0.0),
            ("enabled", "before_commit", LONG),
            ("disabled", "begin", 0.0),
            ("disabled", "write", LONG),
        ),
    ],
)
def test_a_slot_that_was_overtaken_in_its_sleep_commits_nothing(
    clusters: KafkaSandbox,
    make: Make,
    topic: str,
    writer: NumberedWriter,
    frozen: Any,
    mode: str,
    step: str,
    seconds: float,
) -> None:
    pipeline, runner = make(mode), frozen(step, 6)
    with ThreadPoolExecutor(1) as pool:
        running: Future[Outcome] = pool.submit(copy, pipeline, cores=1, runner=runner)
        runner.await_frozen(seconds)
        newer = copy(pipeline, cores=2)
        write(writer, topic)
        runner.thaw()
        assert running.result(90).topics[topic].lag == 0, "it begins anew, and finds nothing to do"
    assert newer.topics[topic].lag == 0
    copy(pipeline)
    judged(clusters, pipeline, topic, zombies=True)


class Meeting(WrappedSink):
    """Once it has claimed its transactional id, it waits for all others to have done so."""

    turns = threading.Lock()

    def __init__(self, sink: Sink, everybody: threading.Barrier) -> None:
        super().__init__(sink)
        self._everybody = everybody

    def open(self) -> None:
        with self.turns:
            super().open()
        self._everybody.wait(PATIENCE)


@pytest.mark.slow
@MODES
def test_two_attempts_of_one_slot_at_once(clusters: KafkaSandbox, make: Make, topic: str, mode: str) -> None:
    """As a scheduler does that takes a slow task for a dead one: the earlier attempt fails, the other one counts."""
    pipeline, everybody = make(mode), threading.Barrier(2 * PARTITIONS)
    left = itertools.count(2 * PARTITIONS, -1)

    def twice(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        with ThreadPoolExecutor(2 * len(plans)) as pool:
            attempts = [[pool.submit(copy_slot, plan) for _ in range(2)] for plan in plans]
        return [next(a.result() for a in of_slot if a.exception() is None) for of_slot in attempts]

    with sinks_wrapped(pipeline, lambda sink: Meeting(sink, everybody) if next(left) > 0 else sink):
        outcome = copy(pipeline, cores=PARTITIONS, runner=twice)
    assert outcome.topics[topic].lag == 0
    claims = map(parsed, assignment_records(clusters, pipeline, "claim"))
    times_claimed = Counter((claim.generation, claim.slot, claim.what) for claim in claims)
    assert len(times_claimed) == PARTITIONS
    assert min(times_claimed.values()) >= 2, "each of two attempts has claimed it"
    judged(clusters, pipeline, topic, zombies=True)
