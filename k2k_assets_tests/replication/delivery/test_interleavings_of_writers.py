"""Named interleavings of writers: the worst moment of each, with the rule that prevents damage and without it.

The table is in `docs/guarantees.md`. Without its rule each one must cause damage, or the test proves nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from k2k_assets.coordination import claims, fencing_rules
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import K2KError
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.extent import Continuous
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot import slot
from k2k_assets.replication.slot.commit.target_chain import TargetChain
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.spark import slot_task as task
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    OpenTransaction,
    create_topic,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    PROCESSES,
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    mapping_records,
    told,
)
from k2k_assets_tests.support.copies.interleaving import (
    RULE,
    Step,
    at_step,
    copy_alone,
    inside_chunks,
    pipeline_of,
    values,
)

pytestmark = pytest.mark.integration

OLD, NEW = ([b"%s-%d" % (age, n) for n in range(20)] for age in (b"old", b"new"))


# -- who writes to the target partition -------------------------------------------------------------------------------


@RULE
def test_markers_of_a_former_owner_inside_chunks_of_the_new_one(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    """A gap in the chain is read back: only records in it are a foreign writer's."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("marker"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    copy_alone(pipeline)
    produce(source, topic, NEW)

    def former_owner() -> Any:
        return OpenTransaction(target, topic, [b"of the former owner"] * 2).abort

    # Inside the first chunk, and inside the second attempt, in which each record reports where it went.
    hit = inside_chunks(monkeypatch, topic, former_owner, times=2)
    if not rule:
        monkeypatch.setattr(slot, "count_records", lambda *args: args[4] - args[3])
    outcome = copy_alone(pipeline)

    if rule:
        assert outcome.stopped == {}
        assert assert_same_content(source, topic, target) == 40
        assert_exact_mappings(pipeline, source, target, topic)
        runs = [part.runs for record in mapping_records(pipeline, target) for part in record.targets]
        log = [(r.offset, r.value) for r in read_all(target, topic, isolation="read_uncommitted")]
        assert max(map(len, runs)) == 2, ("a marker lies between two runs of one transaction", hit, log)
    else:
        assert "not written by this pipeline" in told(outcome)[topic], "a false alarm"
        assert values(target, topic) == OLD


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
@RULE
def test_a_foreign_writer_between_two_transactions_of_one_session(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, moment: Step
) -> None:
    """Its record lies before or behind the marker of the first one, and that is all that tells."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("foreign"))
    produce(source, topic, OLD + NEW)
    pipeline = pipeline_of(clusters, tmp_path, [topic], commit={"batchSize": 20})
    marked = 20 if moment == "before commit" else 21

    def interfere() -> None:
        wait_until(lambda: end_offsets(target, topic)[0] == marked, PATIENCE, "the marker, if there is to be one")
        produce(target, topic, [b"foreign"])

    at_step(monkeypatch, moment, interfere)
    if not rule:
        monkeypatch.setattr(TargetChain, "_gap", lambda *_, **__: None)
    outcome = copy_alone(pipeline)

    if rule:
        assert f"1 record at {topic}-0 offsets 20 to 21 was not written by this pipeline" in told(outcome)[topic]
        assert values(target, topic) == [*OLD, b"foreign"]
    else:
        assert outcome.stopped == {}
        assert values(target, topic) == [*OLD, b"foreign", *NEW], "mixed in silence"


@RULE
def test_a_partition_that_is_stopped_beside_healthy_ones_in_one_slot(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = create_topic(source, unique("bad"), 2), create_topic(source, unique("good"))
    sources = [(bad, 0), (bad, 1), (good, 0)]
    pipeline = pipeline_of(clusters, tmp_path, [bad, good])
    for topic, partition in sources:
        produce(source, topic, OLD, partition)
    copy_alone(pipeline)
    produce(target, bad, [b"foreign"], 0)
    for topic, partition in sources:
        produce(source, topic, NEW, partition)
    if not rule:
        stop_all_with_one(monkeypatch)
    outcome = copy_alone(pipeline)

    if not rule:
        assert set(outcome.stopped) == {bad, good}, "nothing is wrong with one of them"
        assert [len(read_all(target, *of)) for of in sources] == [21, 20, 20], "healthy ones stand still"
        assert {topic: part.lag for topic, part in outcome.topics.items()} == {bad: 40, good: 20}
        return
    assert set(outcome.stopped) == {bad}
    assert told(outcome)[bad].startswith(
        f"{bad}-0: [foreign-records] 1 record at {bad}-0 offsets 20 to 21 was not written"
    )
    assert [len(read_all(target, *of)) for of in sources] == [21, 40, 40]
    assert_same_content(source, good, target)
    assert_exact_mappings(pipeline, source, target, good)
    newest = {str(record.source): record for record in commit_records(pipeline, target)}
    assert {name: (r.position, r.kind, r.reason is None) for name, r in newest.items()} == {
        f"{bad}-0": (20, "release", False),
        f"{bad}-1": (40, "release", True),
        f"{good}-0": (40, "release", True),
    }


@pytest.mark.storm
@pytest.mark.parametrize("damage", ["a foreign writer", "a record that is too large"])
@RULE
def test_at_least_once_a_partition_that_is_stopped_beside_healthy_ones_in_one_slot(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, damage: str
) -> None:
    """Within a session: between two, foreign records stop nothing. What is refused stops its topic."""
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = create_topic(source, unique("bad"), 2), create_topic(source, unique("good"))
    create_topic(target, bad, 2, {"max.message.bytes": "20000"})
    sources = [TopicPartition(bad, 0), TopicPartition(bad, 1), TopicPartition(good, 0)]
    pipeline = pipeline_of(clusters, tmp_path, [bad, good], mode="disabled")
    for tp in sources:
        produce(source, tp.topic, OLD, tp.partition)
    if not rule:
        stop_all_with_one(monkeypatch)
    running = Running(pipeline, 1)
    running.await_copied(60)

    foreign = damage == "a foreign writer"
    if foreign:
        produce(target, bad, [b"foreign"], 0)
    else:
        produce(source, bad, [os.urandom(50_000)], 0)
    produce(source, bad, NEW, 0)

    def stopped() -> dict[TopicPartition, StopReason]:
        parts = running.progress.partitions if running.progress else {}
        return {tp: part.stopped for tp, part in parts.items() if part.stopped}

    wait_until(lambda: sources[0] in stopped(), PATIENCE, "the stop")
    ill = set(sources if not rule else sources[:1] if foreign else sources[:2])
    reason = stopped()[sources[0]]
    words = "1 record at {} offsets 20 to 20 was not written" if foreign else "the target refuses the record at {} "
    assert words.format(sources[0]) in render(reason)
    for tp in sources[1:]:
        produce(source, tp.topic, NEW, tp.partition)
    if rule:
        done = {tp: 40 for tp in sources if tp not in ill}
        wait_until(lambda: done.items() <= running.positions().items(), PATIENCE, "the healthy ones to go on")
    running.end()

    assert stopped().keys() == ill, "nothing is wrong with the others"
    assert values(target, bad, 0) == ([*OLD, b"foreign", *NEW] if foreign else OLD), "not committed, and not mapped"
    for tp in sources[1:]:
        assert values(target, tp.topic, tp.partition) == (OLD if tp in ill else OLD + NEW)
    newest = {record.source: record for record in commit_records(pipeline, target)}
    assert {tp: (r.position, r.kind, r.reason) for tp, r in newest.items()} == {
        tp: (20, "release", reason) if tp in ill else (40, "release", None) for tp in sources
    }
    if rule:
        assert_exact_mappings(pipeline, source, target, good)


def stop_all_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule: the one that cannot go on is left out of the next session, and the others go on there."""

    def stop_all(self: Slot, _: Iterable[TopicPartition], reason: StopReason) -> None:
        stop(self, [plan.source for plan in self._plan.partitions], reason)

    stop = Slot._stop
    monkeypatch.setattr(Slot, "_stop", stop_all)


# -- who is no longer right -------------------------------------------------------------------------------------------


@pytest.mark.librdkafka  # by batches what it has in hand is refused: test_at_least_once_by_batches.py
@RULE
def test_an_at_least_once_writer_that_freezes_and_wakes(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    """It froze with a chunk in hand, another instance copied it, and then it goes on where it was."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("frozen"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode="disabled", commit={"batchSize": 20})
    if not rule:  # the rule: positions are committed under an id that the newer one claims away
        monkeypatch.setattr(fencing_rules, "free_id", lambda *_: unique("of-nobody"))
        monkeypatch.setattr(claims, "fence", lambda *_: None)
    frozen, woken = threading.Event(), threading.Event()
    ended: list[Exception | None] = []

    def freeze() -> None:
        frozen.set()
        assert woken.wait(PATIENCE)

    def run() -> None:
        try:
            copy_alone(pipeline)
            ended.append(None)
        except K2KError as error:
            ended.append(error)

    at_step(monkeypatch, "before write", freeze)
    writer = threading.Thread(target=run, daemon=True)
    writer.start()
    assert frozen.wait(PATIENCE)
    newer = copy_alone(pipeline)
    assert values(target, topic) == OLD
    woken.set()
    writer.join(60)

    assert values(target, topic) == OLD + OLD, "what it had in hand lands late, as duplicates behind the newer copy"
    commits = [r for r in commit_records(pipeline, target) if r.kind == "commit"]
    if rule:
        assert ended == [None], "it begins anew, and finds that all is copied"
        assert [(r.position, r.generation) for r in commits] == [(20, newer.generation)]
        assert [(r.covered_from, r.covered_to) for r in mapping_records(pipeline, target)] == [(0, 20)]
        produce(source, topic, NEW)
        copy_alone(pipeline)
        assert values(target, topic) == OLD + OLD + NEW
    else:
        generations = {r.generation for r in commits}
        assert [r.position for r in commits] == [20, 20], "one position is committed by two instances"
        assert len(generations) == 2


def parent_of_a_task(plan: SlotPlan, rule: bool, told: Connection) -> None:
    """What Spark's daemon is to a worker: forks it, and waits."""
    pid = os.fork()
    if pid:
        told.send(pid)
        os.waitpid(pid, 0)
        return
    if not rule:
        task.end_with_parent = lambda: None
    batch = pa.RecordBatch.from_arrays([pa.array([0])], names=["id"])
    for _ in task.copy_task([plan])(iter([batch])):
        pass
    os._exit(0)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
@RULE
def test_a_driver_that_dies_while_its_tasks_live(clusters: KafkaSandbox, tmp_path: Path, rule: bool) -> None:
    """The same on Spark, as a whole: `test_spark.py`."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("orphan"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    planned: list[SlotPlan] = []

    def remember(plans: Sequence[SlotPlan]) -> list[Any]:
        planned.extend(plans)
        return []

    copy(pipeline, Continuous(), cores=1, runner=remember)
    mine, theirs = PROCESSES.Pipe()
    parent = PROCESSES.Process(target=parent_of_a_task, args=(planned[0], rule, theirs))
    parent.start()
    assert mine.poll(PATIENCE)
    worker = mine.recv()
    try:
        wait_until(lambda: len(read_all(target, topic)) == 20, PATIENCE, "the task to copy")
        parent.kill()
        parent.join(PATIENCE)
        if rule:
            wait_until(lambda: is_gone(worker), PATIENCE, "the task to end by itself")
            produce(source, topic, NEW)
            assert values(target, topic) == OLD
        else:
            produce(source, topic, NEW)
            wait_until(lambda: len(read_all(target, topic)) == 40, PATIENCE, "the orphan to copy on, seen by nobody")
            assert not is_gone(worker)
    finally:
        if not is_gone(worker):
            os.kill(worker, signal.SIGKILL)
    copy_alone(pipeline)
    assert assert_same_content(source, topic, target) == 40
