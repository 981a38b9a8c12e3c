"""G6 when nothing happens: instances with nothing to copy do not disturb the others.

Nobody is fenced, no partition changes its owner, and when an instance ends, another one continues.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.coordination.takeover import OTHERS_SECONDS
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.job import Runner
from k2k_assets.replication.plan import slot_of
from k2k_assets.replication.slot.commit import committer
from k2k_assets.replication.slot.start import slot_claims
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport import producer_calls
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets.transport.librdkafka import transport as librdkafka_transport
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer
from k2k_assets_tests.support.brokers.kafka import ReadRecord, create_topic, delete_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, commit_records, copy, in_threads
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.copies.slot_processes import SlotProcesses
from k2k_assets_tests.support.copies.takeovers import (
    Flow,
    assert_all_copied,
    assert_exact,
    assignments,
    await_written,
    claimed_topics,
    copied_to,
    generations,
    held_by,
    owners,
    topic_of,
)

pytestmark = pytest.mark.integration

PARTITIONS, SLOTS = 3, 8
# Heartbeats are much more frequent than by default, so that a busy machine makes nobody silent.
GRACE_SECONDS, HEARTBEAT_SECONDS = 15, 0.5
# So many of them take longer than the grace window.
GRACE_HEARTBEATS = int(GRACE_SECONDS / HEARTBEAT_SECONDS) + 1


def pipeline_of(clusters: KafkaSandbox, directory: Path, mode: str, topics: Sequence[str] = ()) -> Pipeline:
    """One topic if none are given, and more slots than there are partitions."""
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics or [create_topic(clusters.source_servers, unique("idle"), PARTITIONS)],
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={"assignment": {"topic": unique("claims"), "graceWindow": f"{GRACE_SECONDS} seconds"}},
        configuration={"partitionParallelism": SLOTS},
    )


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many signs of life, and no session that begins anew because a commit was slow, which is nobody's harm."""
    monkeypatch.setattr(slot_claims, "heartbeat_interval_seconds", lambda _: HEARTBEAT_SECONDS)
    monkeypatch.setattr(control_writer, "AMBIGUOUS_AFTER_SECONDS", 60.0)


@pytest.fixture
def claimed_ids(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that a transactional id is claimed (InitProducerId), by a slot that begins or one that fences."""
    found: list[str] = []
    real = producer_calls.claim

    def noting(producer: Any, timeout: float, what: str) -> None:
        found.append(what)
        real(producer, timeout, what)

    for module in (control_writer, librdkafka_transport):
        monkeypatch.setattr(module, "claim", noting)
    opened = TransactionalProducer.open

    def noted(self: TransactionalProducer, step: str = "claiming") -> None:
        found.append(step)
        opened(self, step)

    monkeypatch.setattr(TransactionalProducer, "open", noted)
    return found


Start = Callable[..., Running]


class Slots:
    """Runs slots in threads, and knows how many there were, and how often all have ended."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended = 0

    def __call__(self, plans: Any) -> list[SlotResult]:
        self.begun.append(len(plans))
        try:
            return in_threads(plans)
        finally:
            self.ended += 1


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts instances, which end with the test."""
    started: list[Running] = []

    def one(pipeline: Pipeline, runner: Runner = in_threads, **rest: Any) -> Running:
        started.append(Running(pipeline, 1, runner, **rest))
        return started[-1]

    yield one
    for instance in started:
        instance.stop.set()
    for instance in started:
        instance.join()


def are_held_by(clusters: KafkaSandbox, pipeline: Pipeline, number: int) -> bool:
    """Whether one instance, by its age, holds all partitions that are held."""
    return owners(clusters, pipeline) == {number}


def has_begun(clusters: KafkaSandbox, pipeline: Pipeline, newest: int) -> bool:
    """Whether there is a generation after the newest."""
    return generations(clusters, pipeline) > newest


@pytest.mark.storm
@MODES
def test_an_instance_that_stands_by_and_slots_that_have_no_partition_do_no_harm(
    clusters: KafkaSandbox, tmp_path: Path, claimed_ids: list[str], start: Start, mode: str
) -> None:
    pipeline = pipeline_of(clusters, tmp_path, mode)
    flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
    of_idle, of_busy = Slots(), Slots()
    flow.write(20)
    idle = start(pipeline, of_idle)
    idle.await_copied(flow.written)
    busy = start(pipeline, of_busy)
    generation = await_holder(clusters, pipeline, after=held_by(clusters, pipeline, PARTITIONS))
    wait_until(lambda: of_idle.ended, 120, "the older instance to stand by")
    flow.write(20)
    await_written(clusters, pipeline, flow)
    since, claimed, commits = end_of_claims(clusters, pipeline), list(claimed_ids), commits_of(clusters, pipeline)

    await_heartbeats(clusters, pipeline, since, GRACE_HEARTBEATS)
    assert commits_of(clusters, pipeline) == commits, "nothing to copy, nothing committed"
    for _ in range(3):
        flow.write(10)
        await_written(clusters, pipeline, flow)
    await_heartbeats(clusters, pipeline, end_of_claims(clusters, pipeline), 2)

    assert changes(clusters, pipeline, since) == []
    assert claimed_ids == claimed, "no session broke, and nobody was fenced"
    assert of_idle.begun == of_busy.begun == [PARTITIONS], "one slot for each partition, one generation"
    committed = [record for record in commits_of(clusters, pipeline) if record not in commits]
    assert {record.source.partition for record in committed} == set(range(PARTITIONS))
    assert {record.generation for record in committed} == {generation}
    idle.end()
    assert changes(clusters, pipeline, since) == [], "it leaves without a word"
    busy.end()
    assert_exact(clusters, pipeline)


@pytest.mark.slow
def test_of_two_instances_that_stand_by_one_goes_on_and_neither_takes_anything_back(
    clusters: KafkaSandbox, tmp_path: Path, claimed_ids: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the slots of the one that leaves release one after the other."""
    release_one_by_one(monkeypatch)
    pipeline = pipeline_of(clusters, tmp_path, "enabled")
    flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
    flow.write(20)
    instances: list[Running] = []
    generation = -1
    for _ in range(3):
        instances.append(start(pipeline))
        generation = await_holder(clusters, pipeline, after=generation)
        await_written(clusters, pipeline, flow)
    before = generations(clusters, pipeline)

    instances.pop().end()
    flow.write(20)
    await_written(clusters, pipeline, flow)

    # Both may have seen at once that all is free: the newer generation is right. Or each has seen other partitions that
    # were free first: then they share. After that nothing moves.
    quiet = wait_until(lambda: a_quiet_while(clusters, pipeline, claimed_ids), 120, "them to keep what they have")
    assert quiet is not None
    since, claimed = quiet
    # Two, if no machine is too busy; without the rule it goes on and on.
    assert generations(clusters, pipeline) - before <= 5
    flow.write(20)
    await_written(clusters, pipeline, flow)
    assert changes(clusters, pipeline, since) == []
    assert len(claimed_ids) == claimed
    for instance in instances:
        instance.end()
    assert_exact(clusters, pipeline)


def test_what_a_run_with_an_end_lets_go_of_slot_by_slot_is_taken_at_once(
    clusters: KafkaSandbox, tmp_path: Path, claimed_ids: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes over, catches up and ends: whoever stands by draws one generation for all of it."""
    release_one_by_one(monkeypatch)
    pipeline = pipeline_of(clusters, tmp_path, "enabled")
    flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
    flow.write(20)
    instance = start(pipeline)
    generation = await_holder(clusters, pipeline, after=-1)
    await_written(clusters, pipeline, flow)
    flow.write(20)
    copy(pipeline, cores=SLOTS)

    await_holder(clusters, pipeline, after=generation)
    flow.write(20)
    await_written(clusters, pipeline, flow)
    assert wait_until(lambda: a_quiet_while(clusters, pipeline, claimed_ids), 120, "it to keep all") is not None
    assert generations(clusters, pipeline) == 3
    instance.end()
    assert_exact(clusters, pipeline)


@pytest.mark.storm
@MODES
def test_an_instance_that_loses_a_worker_keeps_what_it_has(
    clusters: KafkaSandbox, tmp_path: Path, claimed_ids: list[str], start: Start, mode: str
) -> None:
    """It begins anew, and who stands by leaves it that; in the end each has its own, and keeps it."""
    pipeline = pipeline_of(clusters, tmp_path, mode)
    flow = Flow(clusters, topic_of(pipeline), PARTITIONS)
    flow.write(20)
    idle = start(pipeline)
    idle.await_copied(flow.written)
    runner = SlotProcesses()
    busy = start(pipeline, runner)
    generation = await_holder(clusters, pipeline, after=held_by(clusters, pipeline, PARTITIONS))
    flow.write(20)
    await_written(clusters, pipeline, flow)

    for _ in range(2):
        runner.workers[-1].kill()
        generation = await_holder(clusters, pipeline, after=generation)
        flow.write(20)
        await_written(clusters, pipeline, flow)
        assert wait_until(lambda: a_quiet_while(clusters, pipeline, claimed_ids), 120, "it to keep all") is not None
    assert generations(clusters, pipeline) == 4, "two instances, and two lost workers"
    for instance in (idle, busy):
        instance.end()
    assert_all_copied(clusters, pipeline, overtaken=True)


@pytest.mark.storm
def test_what_has_stopped_is_not_taken_in_turns(
    clusters: KafkaSandbox, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot had nothing else to copy, and has ended; whoever takes it stops it again, and disturbs the others."""
    monkeypatch.setattr(committer, "_TOPICS_SECONDS", 0.5)
    source, target = clusters.source_servers, clusters.target_servers
    good = create_topic(source, unique("good"), PARTITIONS)
    bad = create_topic(source, name_of_the_slot_that_is_left(good))
    pipeline = pipeline_of(clusters, tmp_path, "enabled", [good, bad])
    flow = Flow(clusters, good, PARTITIONS)
    for number in (1, 2):
        start(pipeline)
        wait_until(partial(are_held_by, clusters, pipeline, number), 120, "it to hold all partitions")
    wait_until(lambda: len(assignments(clusters, pipeline).claims) == PARTITIONS + 1, 120, "it to hold all partitions")
    delete_topic(source, bad)
    create_topic(source, bad)

    def stopped_and_released() -> bool:
        told = any(record.reason for record in commits_of(clusters, pipeline))
        return told and bad not in claimed_topics(clusters, pipeline)

    wait_until(stopped_and_released, 120, "the topic to be stopped")
    since = end_of_claims(clusters, pipeline)
    await_heartbeats(clusters, pipeline, since, int((OTHERS_SECONDS + 2) / HEARTBEAT_SECONDS))
    assert changes(clusters, pipeline, since) == []
    assert generations(clusters, pipeline) == 2
    flow.write()
    wait_until(lambda: len(read_all(target, good)) == flow.written, 120, "the other topic to be copied")


@pytest.mark.storm
def test_a_topic_that_was_created_anew_and_accepted_is_copied_on_by_one_of_two(
    clusters: KafkaSandbox, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both know the former one, and neither is started again: the command that the stop names does, with --force."""
    monkeypatch.setattr(committer, "_TOPICS_SECONDS", 0.5)
    source, target = clusters.source_servers, clusters.target_servers
    good, bad = (create_topic(source, unique(name), PARTITIONS) for name in ("good", "bad"))
    pipeline = pipeline_of(clusters, tmp_path, "enabled", [good, bad])
    flow = Flow(clusters, bad, PARTITIONS)
    flow.write(10)
    instances = []
    for number in (1, 2):
        instances.append(start(pipeline))
        wait_until(partial(are_held_by, clusters, pipeline, number), 120, "it to hold all partitions")
    wait_until(lambda: copied_to(pipeline, clusters) == flow.written, 120, "all to be copied")
    delete_topic(source, bad)
    create_topic(source, bad, PARTITIONS)
    wait_until(lambda: stopped(clusters, pipeline) == PARTITIONS, 120, "the topic to be stopped")
    again = Flow(clusters, bad, PARTITIONS)
    again.write(20)

    with both_clusters(pipeline) as (of_source, of_target):
        request = Request((Wanted(bad, None, "earliest"),), "a test", new_topic=True)
        override(pipeline, of_source, of_target, request, force=True)

    def copied() -> int:
        return len(read_all(target, bad)) - flow.written

    wait_until(lambda: copied() == again.written, 120, "the new topic to be copied")
    again.write(20)
    wait_until(lambda: copied() == again.written, 120, "it to be copied on")
    assert stopped(clusters, pipeline) == 0
    assert {owner for owner in owners(clusters, pipeline) if owner} != set()
    new = read_all(target, bad)
    former = [b"%d-%d" % (p, i) for p in range(PARTITIONS) for i in range(10)]
    assert sorted(r.value or b"" for r in new) == sorted([*(r.value or b"" for r in read_all(source, bad)), *former])
    assert generations(clusters, pipeline) <= 5, "two instances, the tool, and whoever takes the topic up"
    for instance in instances:
        instance.end()
    outcomes = [instance.outcome for instance in instances if instance.outcome]
    assert [outcome.stopped for outcome in outcomes if outcome.generation == max(o.generation for o in outcomes)] == [
        {}
    ]


def stopped(clusters: KafkaSandbox, pipeline: Pipeline) -> int:
    """How many partitions' newest commit records say why they were stopped."""
    newest = {record.source: record for record in commits_of(clusters, pipeline)}
    return sum(record.reason is not None for record in newest.values())


def name_of_the_slot_that_is_left(topic: str) -> str:
    """Of a topic whose one partition has a slot to itself, beside all of another topic."""
    slots = PARTITIONS + 1
    taken = {slot_of(TopicPartition(topic, partition), slots) for partition in range(PARTITIONS)}
    names = (unique("alone") for _ in itertools.count())
    return next(name for name in names if slot_of(TopicPartition(name, 0), slots) not in taken)


@pytest.mark.storm
def test_instances_of_other_topics_disturb_no_stand_by(
    clusters: KafkaSandbox, tmp_path: Path, claimed_ids: list[str], start: Start
) -> None:
    """They claim the transactional ids that slots of older instances use, and whoever is fenced claims under others.

    Meanwhile its partitions seem to be free.
    """
    topics = [create_topic(clusters.source_servers, unique("pair"), PARTITIONS) for _ in range(2)]
    pipeline = pipeline_of(clusters, tmp_path, "enabled", topics)
    flows = [Flow(clusters, topic, PARTITIONS) for topic in topics]
    for topic in topics:
        for _ in range(2):
            start(pipeline, topics=[topic])
            newest = generations(clusters, pipeline)
            wait_until(partial(has_begun, clusters, pipeline, newest), 120, "it to begin")

    for _ in range(3):
        for flow in flows:
            flow.write()
        await_written(clusters, pipeline, *flows)
    assert wait_until(lambda: a_quiet_while(clusters, pipeline, claimed_ids), 120, "all to keep what they have")
    assert generations(clusters, pipeline) <= 5  # four, if no machine is too busy
    for topic in topics:
        assert_same_content(clusters.source_servers, topic, clusters.target_servers)


@pytest.mark.slow
def test_what_is_new_on_the_source_goes_to_the_instance_that_copies(
    clusters: KafkaSandbox, tmp_path: Path, start: Start
) -> None:
    """All see it at about the same time; it ends its slots and begins anew, and nobody takes what it lets go of."""
    prefix = unique("grown")
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}-.*",
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        coordination={"assignment": {"topic": unique("claims"), "graceWindow": f"{GRACE_SECONDS} seconds"}},
        configuration={"partitionParallelism": SLOTS},
        sync={"metadataInterval": "2 seconds"},
    )
    first = create_topic(clusters.source_servers, f"{prefix}-a", PARTITIONS)
    generation = -1
    for _ in range(3):
        start(pipeline)
        generation = await_holder(clusters, pipeline, after=generation)
    before = generations(clusters, pipeline)

    second = create_topic(clusters.source_servers, f"{prefix}-b", PARTITIONS)
    for topic in (first, second):
        produce(clusters.source_servers, topic, [b"new"] * 5, 0)
    wait_until(lambda: copied_to(pipeline, clusters) == 10, 120, "what is new to be copied")
    await_holder(clusters, pipeline, after=generation, partitions=2 * PARTITIONS)
    since = end_of_claims(clusters, pipeline)
    await_heartbeats(clusters, pipeline, since, 6)

    assert changes(clusters, pipeline, since) == []
    # One, if no machine is too busy; without the rules 3 to 27 were seen.
    assert generations(clusters, pipeline) - before <= 2


def release_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine: between the releases of two slots of an instance lie several looks of the others."""
    real = slot_claims.SlotClaims.release

    def later(self: slot_claims.SlotClaims, partitions: Iterable[TopicPartition] | None = None) -> None:
        if partitions is None:
            time.sleep(0.6 * self._plan.slot)
        real(self, partitions)

    monkeypatch.setattr(slot_claims.SlotClaims, "release", later)


def await_holder(clusters: KafkaSandbox, pipeline: Pipeline, after: int, partitions: int = PARTITIONS) -> int:
    """Waits until a generation above `after` holds all partitions, and returns it."""
    seen: list[int] = []  # the expected value; a moment later a slot may have begun again

    def newer_holds_all() -> bool:
        seen.append(held_by(clusters, pipeline, partitions))
        return seen[-1] > after

    wait_until(newer_holds_all, 120, "a newer generation to hold all partitions")
    return seen[-1]


def a_quiet_while(clusters: KafkaSandbox, pipeline: Pipeline, claimed_ids: list[str]) -> tuple[int, int] | None:
    """Where it began, in the assignment topic and in claims of ids; None if something changed meanwhile."""
    since, claimed = end_of_claims(clusters, pipeline), len(claimed_ids)
    await_heartbeats(clusters, pipeline, since, 4)
    return None if changes(clusters, pipeline, since) or len(claimed_ids) > claimed else (since, claimed)


def commits_of(clusters: KafkaSandbox, pipeline: Pipeline) -> list[CommitRecord]:
    """All that were written so far."""
    return commit_records(pipeline, clusters.target_servers)


def claims_topic(clusters: KafkaSandbox, pipeline: Pipeline, since: int = 0) -> list[ReadRecord]:
    """All records of the assignment topic from an offset on, tombstones too."""
    topic = pipeline.coordination.assignment.topic
    return [r for r in read_all(clusters.target_servers, topic, isolation="read_uncommitted") if r.offset >= since]


def end_of_claims(clusters: KafkaSandbox, pipeline: Pipeline) -> int:
    """Behind its last record."""
    return claims_topic(clusters, pipeline)[-1].offset + 1


def is_heartbeat(record: ReadRecord) -> bool:
    return record.value is not None and json.loads(record.key or b"")["kind"] == "beat"


def is_end_of_instance_heartbeats(record: ReadRecord) -> bool:
    """An instance takes its own back, up to an interval after its slots have begun to write theirs."""
    key = json.loads(record.key or b"")
    return record.value is None and key["kind"] == "beat" and key["slot"] == -1


def changes(clusters: KafkaSandbox, pipeline: Pipeline, since: int) -> list[tuple[bytes | None, bytes | None]]:
    """What was written but signs of life: generations, claims, releases, stops."""
    written = claims_topic(clusters, pipeline, since)
    return [(r.key, r.value) for r in written if not (is_heartbeat(r) or is_end_of_instance_heartbeats(r))]


def await_heartbeats(clusters: KafkaSandbox, pipeline: Pipeline, since: int, count: int) -> None:
    """Waits until all is copied, and as many slots as copy, of one instance or more, have each given so many signs of
    life."""

    def all_have() -> bool:
        claims = assignments(clusters, pipeline).claims.values()
        slots = len({(claim.generation, claim.slot) for claim in claims})
        heartbeats = Counter(r.key for r in claims_topic(clusters, pipeline, since) if is_heartbeat(r))
        return len(claims) >= PARTITIONS and sum(found >= count for found in heartbeats.values()) >= slots

    wait_until(all_have, 120, f"{count} signs of life of all slots", interval=0.2)
