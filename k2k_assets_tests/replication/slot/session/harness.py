"""A session with a clock, a source, a sink and an assignment topic that a test controls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from k2k_assets.control.assignment_records import Claim
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.control.pause_records import Pause
from k2k_assets.control.stop_notes import StopNote, is_note, parse_note_key
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Extent
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.commit.committer import CommitListener
from k2k_assets.replication.slot.commit.target_chain import TargetChain
from k2k_assets.replication.slot.read import silent_source
from k2k_assets.replication.slot.session import Session
from k2k_assets.replication.slot.slot_memory import SlotMemory
from k2k_assets.stages import Stage, stages_of
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_transport import BY_RECORD, Arrival, FakeSink, FakeSource, Transaction
from k2k_assets_tests.support.memory.plans import COMMIT_TOPIC_ID, GENERATION, slot_plan

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0 = TopicPartition("u", 0)
TOPICS = {
    "s": {"t": ("s-t", 2), "u": ("s-u", 1)},
    "t": {"t": ("t-t", 2), "u": ("t-u", 1), "commits": (COMMIT_TOPIC_ID, 1)},
}
HOUR = timedelta(hours=1)


class FakeTail:
    """The assignment topic: asked to stop, or others with a higher claim of a partition, from a moment on."""

    def __init__(self, clock: FakeClock, stop_at: float, newer_at: float, newer_of: Collection[TopicPartition]) -> None:
        self._clock, self.stop_at, self._newer_at = clock, stop_at, newer_at
        self.paused_at = self.resumed_at = float("inf")
        self._newer = {
            str(tp): Claim(f"s-{tp.topic}", tp.partition, "k2k.p.k2k.g.7", str(tp), GENERATION + 1, 0, tp.topic, 99)
            for tp in newer_of
        }

    @property
    def state(self) -> Assignments:
        return self.refresh()

    def catch_up(self) -> Assignments:
        return self.refresh()

    def refresh(self, timeout: float = 0.0) -> Assignments:
        now = self._clock.now
        stops = {GENERATION} if now >= self.stop_at else set()
        paused = {"t": Pause("anna@ops1", 0)} if self.paused_at <= now < self.resumed_at else {}
        return Assignments(stops=stops, claims=self._newer if now >= self._newer_at else {}, paused=paused)


class Harness:
    """A session with everything around it in memory.

    Args:
        pipeline: Batch sizes and times.
        clock: The only clock.
        arrivals: What the source gets, seconds counted from the beginning.
        ends: High watermarks past trailing markers.
        extent: When to end.
        positions: What the commit topic says; start positions are 0 otherwise.
        chain: Follows the target offsets.
        foresees: Whether the sink tells where chunks will go.
        capabilities: What source and sink can do; chunks are undecoded where whole batches are kept.
        one_to_one: Whether nobody else feeds the target partitions.
        first_stages: Stages before those of the pipeline.
        last: Tells of a topic whether its stages may take long.
        raises: Whether the sink writes under producer ids whose epochs it raises.
        listener: Hears of commits.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        clock: FakeClock,
        arrivals: list[Arrival],
        ends: Mapping[TopicPartition, int],
        extent: Extent | None = None,
        positions: Mapping[TopicPartition, CommitRecord] | None = None,
        poll_seconds: float = 0.0,
        stop_at: float = float("inf"),
        newer_at: float = float("inf"),
        newer_of: Collection[TopicPartition] = (P0, P1),
        starts: Mapping[TopicPartition, int] | None = None,
        fail_at_commit: int = 0,
        chain: TargetChain | None = None,
        one_to_one: bool = True,
        foresees: bool = False,
        capabilities: Capabilities = BY_RECORD,
        first_stages: Sequence[Stage] = (),
        last: Callable[[str], bool] | None = None,
        raises: bool = False,
        listener: CommitListener | None = None,
    ) -> None:
        self.began = clock.now
        self.clock = clock
        self.plan: SlotPlan = slot_plan(pipeline, ends, extent, one_to_one=one_to_one)
        self.commit_log = CommitLog(dict(positions or {}))
        self.memory = SlotMemory(started=clock.now)
        arriving = [a._replace(at=clock.now + a.at) for a in arrivals]
        self.source = FakeSource(clock, arriving, ends, poll_seconds, whole_batches=capabilities.keeps_batches)
        self.sink = FakeSink(clock, fail_at_commit, foresees, raises=raises)
        self.clusters = (
            FakeCluster(TOPICS["s"], starts=starts, ends=ends),
            FakeCluster(TOPICS["t"], end=10**6),
        )
        self.tail = FakeTail(clock, clock.now + stop_at, clock.now + newer_at, newer_of)
        clusters, tail = cast("tuple[Cluster, Cluster]", self.clusters), cast("AssignmentTail", self.tail)
        stages = *first_stages, *stages_of(pipeline, self.plan.cluster, self.plan.target_cluster)
        told = clusters, tail, "k2k.p.k2k.g.0", chain, capabilities, stages, clock
        self.session = Session(self.plan, self.memory, self.source, self.sink, *told, last=last, listener=listener)
        self.ended: bool | None = None

    def run(self) -> Harness:
        if self.session.start():
            self.ended = self.session.copy()
        return self

    @property
    def copying(self) -> list[Transaction]:
        """The transactions after the claim and the start positions."""
        return [
            t for t in self.sink.transactions if t.chunks or self.commits(t, "commit") or self.commits(t, "release")
        ]

    def commits(self, transaction: Transaction, kind: str | None = None) -> list[CommitRecord]:
        topic = self.plan.pipeline.coordination.commit.topic
        found = [CommitRecord.parse(c.key, c.value, "") for c in transaction.to(topic) if not is_note(c.key)]
        return [record for record in found if kind in (None, record.kind)]

    def notes(self, transaction: Transaction) -> dict[TopicPartition, StopNote | None]:
        """The notes of stops in a transaction; None: a tombstone."""
        written = [c for c in transaction.to(self.plan.pipeline.coordination.commit.topic) if is_note(c.key)]
        return {parse_note_key(c.key, "")[-1]: StopNote.parse(c.key, c.value, "") if c.value else None for c in written}

    def mappings(self, transaction: Transaction) -> list[MappingRecord]:
        return [MappingRecord.parse(c.key, c.value) for c in transaction.to(self.plan.pipeline.offset_mapping.topic)]

    def times(self) -> list[float]:
        """When the transactions with records were committed, seconds since the beginning."""
        return [round(t.at - self.began, 3) for t in self.sink.transactions if t.chunks]


def pipeline_with(
    directory: Path, batch_size: int = 10, seconds: int = 2, isolation: str = "read_committed", **features: str
) -> Pipeline:
    consumer = {"group.id": "k2k.g", "isolation.level": isolation}
    return make_pipeline(
        directory,
        "a:1",
        "b:1",
        ["t"],
        consumer=consumer,
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled", **features},
        coordination={
            "commit": {"topic": "commits", "batchSize": batch_size, "batchTimeout": f"{seconds} seconds"},
            "assignment": {"topic": "claims"},
        },
        offsetMapping={"topic": "mappings"},
        sync={"minCommitInterval": "50 milliseconds"},
    )


def use_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """A clock, with no thread beside it that keeps a time of its own."""
    monkeypatch.setattr(silent_source, "in_thread", _at_once)
    return FakeClock()


def _at_once(function: Callable[[], Any]) -> Future[Any]:
    """A question whose answer is there with it."""
    future: Future[Any] = Future()
    try:
        future.set_result(function())
    except K2KError as error:
        future.set_exception(error)
    return future


def arrivals(*offsets: int, at: float = 0.0, source: TopicPartition = P0) -> list[Arrival]:
    return [Arrival(at, source, offset) for offset in offsets]


def lone_writer() -> TargetChain:
    return TargetChain(fail=True, markers=1, read_back=lambda *_: 0, ends_of_committed=dict)
