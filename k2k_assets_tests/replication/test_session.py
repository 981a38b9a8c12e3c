"""The copy loop against both ends in memory: what goes into which transaction, and when it closes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from k2k_assets.errors import Superseded
from k2k_assets.mapping.records import MappingRecord
from k2k_assets.mapping.runs import runs_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication import session as module
from k2k_assets.replication import transactions
from k2k_assets.replication.assignment import holding
from k2k_assets.replication.assignment.records import Claim
from k2k_assets.replication.assignment.state import Assignments
from k2k_assets.replication.commit_log import CommitLog
from k2k_assets.replication.commit_record import CommitRecord
from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.session import Session
from k2k_assets.replication.target_chain import ForeignWriter, TargetChain
from k2k_assets.replication.transactions import SlotMemory
from k2k_assets.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.fake_transport import (
    Arrival,
    Clock,
    FakeCluster,
    FakeSink,
    FakeSource,
    ListRecords,
    Transaction,
)
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.plans import GENERATION, commit_record, slot_plan
from k2k_assets_tests.support.properties import examples

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS = {"s": {"t": ("s-t", 2)}, "t": {"t": ("t-t", 2)}}
HOUR = timedelta(hours=1)


class FakeTail:
    """The assignment topic: asked to stop, or others with a higher claim of a partition, from a moment on."""

    def __init__(self, clock: Clock, stop_at: float, newer_at: float, newer_of: Collection[TopicPartition]) -> None:
        self._clock, self._stop_at, self._newer_at = clock, stop_at, newer_at
        self._newer = {
            str(tp): Claim(f"s-{tp.topic}", tp.partition, "k2k.p.k2k.g.7", str(tp), GENERATION + 1, 0, tp.topic, 99)
            for tp in newer_of
        }

    @property
    def state(self) -> Assignments:
        return self.look()

    def catch_up(self) -> Assignments:
        return self.look()

    def look(self, timeout: float = 0.0) -> Assignments:
        stops = {GENERATION} if self._clock.now >= self._stop_at else set()
        return Assignments({}, stops, self._newer if self._clock.now >= self._newer_at else {})


class Bench:
    """A session with everything around it in memory.

    Args:
        pipeline: Batch sizes and times.
        clock: The only clock.
        arrivals: What the source gets, seconds counted from the beginning.
        ends: High watermarks past trailing markers.
        extent: When to end.
        positions: What the commit topic says; start positions are 0 otherwise.
        chain: Follows the target offsets; without it nothing is predicted.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        clock: Clock,
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
    ) -> None:
        self.began = clock.now
        self.clock = clock
        self.plan: SlotPlan = slot_plan(pipeline, ends, extent)
        self.commit_log = CommitLog(dict(positions or {}))
        self.memory = SlotMemory(started=clock.now)
        self.source = FakeSource(
            clock, [a._replace(at=clock.now + a.at) for a in arrivals], ends, poll_seconds=poll_seconds
        )
        self.sink = FakeSink(clock, fail_at_commit)
        self.clusters = (FakeCluster(TOPICS["s"], starts=starts, ends=ends), FakeCluster(TOPICS["t"]))
        self.tail = FakeTail(clock, clock.now + stop_at, clock.now + newer_at, newer_of)
        self.session = Session(
            self.plan, self.memory, self.source, self.sink, self.clusters, self.tail, "k2k.p.k2k.g.0", chain
        )  # type: ignore[arg-type]
        self.ended: bool | None = None

    def run(self) -> Bench:
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
        found = [CommitRecord.parse(c.key, c.value, "") for c in transaction.to(topic)]
        return [record for record in found if kind in (None, record.kind)]

    def mappings(self, transaction: Transaction) -> list[MappingRecord]:
        return [MappingRecord.parse(c.key, c.value) for c in transaction.to(self.plan.pipeline.offset_mapping.topic)]

    def times(self) -> list[float]:
        """When the transactions with records were committed, seconds since the beginning."""
        return [round(t.at - self.began, 3) for t in self.sink.transactions if t.chunks]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return pipeline_with(tmp_path_factory.mktemp("pipeline"))


def pipeline_with(directory: Path, batch_size: int = 10, seconds: int = 2, **features: str) -> Pipeline:
    return make_pipeline(
        directory,
        "a:1",
        "b:1",
        ["t"],
        source={"kafka": {"common": {"bootstrap.servers": "a:1"}, "consumer": {"group.id": "k2k.g"}}},
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled", **features},
        coordination={
            "commit": {"topic": "commits", "batchSize": batch_size, "batchTimeout": f"{seconds} seconds"},
            "assignment": {"topic": "claims"},
        },
        offsetMapping={"topic": "mappings"},
        sync={"minCommitInterval": "50 milliseconds"},
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return use_clock(monkeypatch)


def use_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for used in (module, transactions, holding):
        monkeypatch.setattr(used, "time", clock)
        monkeypatch.setattr(used, "now_ms", lambda: int(clock.now * 1000))
    return clock


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, clock: Clock, pipeline: Pipeline) -> Any:
    def make(arrivals: list[Arrival], ends: Mapping[TopicPartition, int], **rest: Any) -> Bench:
        made = Bench(rest.pop("pipeline", pipeline), clock, arrivals, ends, **rest)
        monkeypatch.setattr(module, "read_commit_log", lambda *_, **__: made.commit_log)
        return made

    return make


def arrivals(*offsets: int, at: float = 0.0, source: TopicPartition = P0) -> list[Arrival]:
    return [Arrival(at, source, offset) for offset in offsets]


# -- starting -----------------------------------------------------------------------------------------------------


def test_claim_then_start_positions_then_copying(bench: Any) -> None:
    made = bench(arrivals(5, 6), {P0: 7, P1: 3}, starts={P0: 5, P1: 3}).run()
    claim, start, *rest = made.sink.transactions

    assert [json.loads(c.key)["kind"] for c in claim.controls] == ["claim", "claim"]
    assert not claim.chunks
    assert {r.source: (r.kind, r.position, r.sequence) for r in made.commits(start)} == {
        P0: ("start", 5, 1),
        P1: ("start", 3, 1),
    }
    assert not start.chunks
    assert made.mappings(start) == []
    assert made.sink.steps[0] == "open"
    assert [t.offsets for t in rest if t.chunks] == [{P0: [5, 6]}]


def test_a_known_position_is_not_started_again(bench: Any) -> None:
    made = bench(arrivals(4, 5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)}).run()
    assert made.source.assigned == {P0: Position(5, 3)}
    assert not any(made.commits(t, "start") for t in made.sink.transactions)
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [5, 6]}]


def test_what_was_stopped_is_left_out_and_released_with_its_reason_where_it_is(bench: Any) -> None:
    made = bench(arrivals(5, source=P1), {P0: 7, P1: 6}, positions={P0: commit_record(P0, 5), P1: commit_record(P1, 5)})
    made.memory.stopped[P0] = "deleted"
    made.run()
    released = [r for t in made.sink.transactions for r in made.commits(t) if r.source == P0]
    assert [(r.kind, r.position, r.reason) for r in released] == [("release", 5, "deleted")]
    assert set(made.source.assigned) == {P1}


def test_what_others_copy_already_is_left_to_them_and_no_id_is_claimed_away_from_them(bench: Any) -> None:
    made = bench(arrivals(1), {P0: 2}, newer_at=0.0).run()
    assert made.sink.steps == []
    assert set(made.memory.taken) == {P0}


def test_a_higher_claim_that_came_with_the_own_one_is_seen_before_a_position_is_read(bench: Any) -> None:
    made = bench(arrivals(1) + arrivals(5, source=P1), {P0: 2, P1: 6}, newer_at=0.5, newer_of=[P0])
    made.sink.open = lambda: made.clock.advance(0.4)
    catch_up = made.tail.catch_up
    made.tail.catch_up = lambda: (made.clock.advance(0.05), catch_up())[1]
    begin = made.sink.begin
    made.sink.begin = lambda: (made.clock.advance(0.1), begin())[1]
    made.run()
    assert set(made.memory.taken) == {P0}
    assert set(made.source.assigned) == {P1}
    claims, given_up = (t.to("claims") for t in made.sink.transactions[:2])
    assert len(claims) == 2
    assert [(c.key, c.value) for c in given_up] == [(claims[0].key, None)]


def test_a_claim_whose_commit_failed_is_known_as_an_own_one(bench: Any) -> None:
    """It may lie in the topic all the same: taken for that of another attempt, it would end the slot."""
    made = bench(arrivals(1), {P0: 2, P1: 0}, fail_at_commit=1)
    with pytest.raises(Restart):
        made.run()
    assert len(made.memory.claims) == 2


def test_an_instance_that_was_outrun_by_one_that_is_gone_already_copies_nothing(bench: Any) -> None:
    """Its commit records would count for nothing."""
    made = bench(arrivals(5), {P0: 6}, positions={P0: commit_record(P0, 5, generation=GENERATION + 1)})
    with pytest.raises(Superseded, match="t-0 was copied by the instance of generation 18 meanwhile; this one is"):
        made.run()
    assert made.copying == []


def test_a_slot_that_was_asked_to_stop_does_not_start(bench: Any) -> None:
    made = bench(arrivals(1), {P0: 2}, stop_at=0.0)
    assert made.session.start() is False
    assert made.sink.steps == []


# -- when a transaction closes ------------------------------------------------------------------------------------


def test_a_lone_record_is_committed_at_once(bench: Any) -> None:
    made = bench(arrivals(0, at=5.0), {P0: 1}).run()
    (at,) = made.times()
    assert at == pytest.approx(5.0, abs=0.003)


@pytest.mark.parametrize("pause", [0.005, 0.001])
def test_a_trickle_shares_transactions(bench: Any, tmp_path: Path, pause: float) -> None:
    """No more than one commit in 50 ms, and no record waits longer: a steady stream is never silent for 2 ms."""
    records = [Arrival(1 + i * pause, P0, i) for i in range(int(1 / pause))]
    made = bench(records, {P0: len(records)}, poll_seconds=0.0001, pipeline=pipeline_with(tmp_path, 100_000)).run()
    times = made.times()
    waited = [t.at - made.began - (1 + o * pause) for t in made.copying for o in t.offsets.get(P0, [])]
    assert 15 <= len(times) <= 22
    assert all(b - a > 0.049 for a, b in pairwise(times))
    assert max(waited) < 0.06


def test_batches_are_full_but_never_larger(bench: Any) -> None:
    made = bench(arrivals(*range(35)), {P0: 35}).run()
    assert [len(t.offsets[P0]) for t in made.copying if t.chunks] == [10, 10, 10, 5]
    assert max(made.source.limits) <= 10


def test_a_source_that_never_runs_dry_is_committed_after_the_batch_time(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 5)
    pipeline = pipeline_with(tmp_path, 100_000)
    made = bench(arrivals(*range(5000)), {P0: 5000}, poll_seconds=0.01, pipeline=pipeline).run()
    assert made.times()[:2] == pytest.approx([2.0, 4.0], abs=0.05)


def test_possible_runs_are_limited_so_that_a_mapping_record_stays_small(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_RUNS", 100)
    monkeypatch.setattr(module, "_CHUNK", 50)
    with_gaps, whole = range(0, 1000, 2), range(1000, 1500)
    made = bench(arrivals(*with_gaps, *whole), {P0: 1500}, pipeline=pipeline_with(tmp_path, 100_000)).run()
    runs = [sum(len(m.targets[0].runs) for m in made.mappings(t) if m.targets) for t in made.copying]
    assert max(runs) <= 100
    assert sum(runs) == 501


def test_markers_at_the_end_are_committed_without_a_record(bench: Any) -> None:
    """Otherwise a partition that ends in a marker has a lag of one for ever."""
    made = bench([], {P0: 4}, positions={P0: commit_record(P0, 2, target_end=77)}).run()
    progress = [r for t in made.copying for r in made.commits(t, "commit")]
    assert [(r.position, r.target_end) for r in progress] == [(4, 77)]
    (mapping,) = [m for t in made.copying for m in made.mappings(t)]
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (2, 4, ())
    assert made.memory.stopped == {}


# -- what is in a transaction ---------------------------------------------------------------------------------------


def test_steps_come_in_order_flush_then_control_records_then_commit(bench: Any) -> None:
    made = bench(arrivals(0, 1), {P0: 2}, positions={P0: commit_record(P0, 0)}).run()
    first_data = made.sink.steps.index("write")
    assert made.sink.steps[first_data - 1 : first_data + 5] == [
        "begin", "write", "settle", "write_control", "write_control", "commit",
    ]  # fmt: skip


def lone_writer() -> TargetChain:
    return TargetChain(fail=True, markers=1, read_back=lambda *_: 0)


def test_where_records_will_go_is_told_before_they_are_there_once_a_transaction_has_shown_it(bench: Any) -> None:
    made = bench(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=lone_writer()).run()
    first, second = (i for i, step in enumerate(made.sink.steps) if step == "write")
    assert made.sink.steps[first : first + 5] == ["write", "settle", "write_control", "write_control", "commit"]
    assert made.sink.steps[second : second + 5] == ["write", "write_control", "write_control", "settle", "commit"]
    told = [m.targets[0].runs[0] for t in made.copying for m in made.mappings(t) if m.targets]
    assert told == [(0, 0, 1), (1, 2, 1)]


def test_a_prediction_that_does_not_come_true_commits_nothing_and_is_the_last(bench: Any) -> None:
    made = bench(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=lone_writer())
    write = made.sink.write

    def beside(chunk: Any) -> Any:
        if chunk.records.first_offset == 1:
            made.sink.log_ends["t", 0] += 1  # a marker of somebody else's empty transaction
        return write(chunk)

    made.sink.write = beside
    with pytest.raises(Restart, match="did not go where the mapping says"):
        made.run()
    assert [r.position for t in made.copying for r in made.commits(t, "commit")] == [1]
    assert not made.memory.predict


@pytest.mark.parametrize(("still_ours", "error"), [(True, ForeignWriter), (False, Restart)])
def test_records_between_ours_are_a_strangers_only_while_the_partition_is_ours(
    bench: Any, still_ours: bool, error: type[Exception]
) -> None:
    """At least once nobody keeps a slot that has slept from writing behind its successor, and seeing its records."""
    chain = TargetChain(fail=True, markers=0, read_back=lambda *_: 3)
    made = bench(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=chain)
    write = made.sink.write

    def beside(chunk: Any) -> Any:
        if chunk.records.first_offset == 1:
            made.sink.log_ends["t", 0] += 3
            own = {tp: claim for tp, claim in made.session._holding._claims.items() if still_ours}
            made.tail.look = lambda timeout=0.0: Assignments({}, set(), {str(tp): own[tp] for tp in own})
        return write(chunk)

    made.sink.write = beside
    with pytest.raises(error):
        made.run()
    assert [r.position for t in made.copying for r in made.commits(t, "commit")] == [1]


def test_without_offset_mapping_there_are_only_commit_records(bench: Any, tmp_path: Path) -> None:
    made = bench(arrivals(0, 1), {P0: 2}, pipeline=pipeline_with(tmp_path, offsetMapping="disabled"))
    made.session._transactions._plan = replace(made.plan, control=replace(made.plan.control, mapping=0))
    made.run()
    assert {c.topic for t in made.sink.transactions for c in t.controls} == {"commits", "claims"}


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_model_every_record_once_in_order_and_all_that_is_told_of_it_is_true(
    monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, data: st.DataObject
) -> None:
    """Any arrivals, gaps, chunk sizes and pauses: transactions, positions, coverage and runs fit together."""
    clock = use_clock(monkeypatch)
    monkeypatch.setattr(module, "_CHUNK", data.draw(st.sampled_from([1, 3, 1000])))
    records: list[Arrival] = []
    ends, first = {}, {}
    for source in (P0, P1):
        offset, at = data.draw(st.integers(0, 5)), 0.0
        first[source] = offset
        for gap, pause in data.draw(
            st.lists(
                st.tuples(st.sampled_from([0, 0, 0, 1, 4]), st.sampled_from([0.0, 0.0, 0.001, 0.03, 0.4])), max_size=30
            )
        ):
            offset, at = offset + gap, at + pause
            records.append(Arrival(at, source, offset))
            offset += 1
        ends[source] = offset + data.draw(st.integers(0, 2))
    poll_seconds = data.draw(st.sampled_from([0.0, 0.001, 0.02]))
    chain = lone_writer() if data.draw(st.booleans()) else None
    made = Bench(pipeline, clock, records, ends, starts=first, poll_seconds=poll_seconds, chain=chain)
    monkeypatch.setattr(module, "read_commit_log", lambda *_, **__: made.commit_log)
    made.run()

    log: dict[TopicPartition, list[tuple[int, int]]] = {P0: [], P1: []}
    covered = dict(first)
    target_ends: dict[TopicPartition, int | None] = {P0: None, P1: None}
    counted = {P0: [0, 0], P1: [0, 0]}
    next_target = {P0: 0, P1: 0}
    sequence = 1
    for transaction in made.copying:
        assert sum(map(len, transaction.offsets.values())) <= 10
        commits = {r.source: r for r in made.commits(transaction)}
        mappings = {TopicPartition(m.topic, m.partition): m for m in made.mappings(transaction)}
        sequence += 1
        assert {r.sequence for r in [*commits.values(), *mappings.values()]} == {sequence}
        assert {r.generation for r in [*commits.values(), *mappings.values()]} == {GENERATION}
        assert set(transaction.offsets) <= set(commits)
        for source, record in commits.items():
            offsets = transaction.offsets.get(source, [])
            targets = list(range(next_target[source], next_target[source] + len(offsets)))
            next_target[source] += len(offsets) + bool(offsets)
            log[source] += zip(offsets, targets, strict=True)
            target_ends[source] = targets[-1] + 1 if targets else target_ends[source]
            counted[source][0] += len(offsets)
            counted[source][1] += ListRecords(offsets).size() if offsets else 0
            assert record.target_end == target_ends[source]
            assert [record.records, record.bytes_] == counted[source]
            assert record.position >= covered[source]
            if source not in mappings:
                assert (record.position, offsets) == (covered[source], [])
                continue
            mapping = mappings[source]
            assert (mapping.covered_from, mapping.covered_to) == (covered[source], record.position)
            assert all(mapping.covered_from <= offset < mapping.covered_to for offset in offsets)
            assert [run for part in mapping.targets for run in part.runs] == runs_of(offsets, targets)
            covered[source] = record.position

    assert {source: [s for s, _ in pairs] for source, pairs in log.items()} == {
        source: [a.offset for a in records if a.source == source] for source in (P0, P1)
    }
    assert covered == ends
    assert [r.kind for r in made.commits(made.copying[-1])] == ["release", "release"]


# -- trouble --------------------------------------------------------------------------------------------------------


def test_an_offset_below_the_expected_one_is_never_copied(bench: Any) -> None:
    made = bench(arrivals(5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)}, extent=Continuous())
    made.session.start()
    made.source._waiting.append(Arrival(made.began + 1, P0, 6))
    with pytest.raises(SourceStopped, match="truncated at 6, below position 7"):
        made.session.copy()
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [5, 6]}]


def test_a_failed_commit_leaves_the_session_and_nothing_is_taken_from_its_memory(bench: Any) -> None:
    made = bench(arrivals(*range(25)), {P0: 25}, fail_at_commit=4)  # claim, start, ten records, ten records
    with pytest.raises(Restart):
        made.run()
    assert [t.offsets for t in made.copying] == [{P0: list(range(10))}]
    assert made.sink.steps[-1] == "commit"


@pytest.mark.parametrize(
    ("side", "topics", "words"),
    [
        (0, {"t": ("s-new", 2)}, r"the source topic t was deleted and created anew .*\(topic id s-t is now s-new\)"),
        (0, {}, "the source topic t was deleted while it was copied"),
        (1, {"t": ("t-new", 2)}, r"the target topic t was deleted and created anew .*\(topic id t-t is now t-new\)"),
        (1, {}, "the target topic t was deleted while it was copied"),
    ],
)
def test_topic_ids_are_asked_in_each_transaction_and_a_changed_one_is_not_committed(
    bench: Any, side: int, topics: dict[str, tuple[str, int]], words: str
) -> None:
    made = bench(arrivals(5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)})
    made.session.start()
    made.clusters[side].topics = topics
    with pytest.raises(SourceStopped, match=words):
        made.session.copy()
    assert made.copying == []


def test_a_higher_claim_ends_it_within_a_look_with_all_that_is_in_hand_committed(bench: Any) -> None:
    records = [Arrival(i / 10, P0, i) for i in range(100)]
    made = bench(records, {P0: 100, P1: 0}, newer_at=3.0, newer_of=[P0], extent=Continuous()).run()
    assert made.ended is False
    assert 3.0 <= made.clock.now - made.began < 3.5
    last, given_up = made.sink.transactions[-2:]
    assert [(r.source, r.kind, r.position) for r in made.commits(last)] == [(P0, "release", len(made.times()))]
    claims = {json.loads(c.key)["partition"]: c.key for c in made.sink.transactions[0].to("claims")}
    assert [(c.key, c.value) for c in given_up.to("claims")] == [(claims[0], None)]
    assert set(made.memory.taken) == {P0}


def test_an_idle_slot_shows_that_it_is_alive_three_times_in_a_grace_window(bench: Any) -> None:
    made = bench([], {P0: 0}, extent=Window(HOUR, timedelta(seconds=31))).run()
    beats = [t.at - made.began for t in made.sink.transactions if t.controls and b'"beat"' in t.controls[0].key]
    assert beats == pytest.approx([5.0, 10.0, 15.0, 20.0, 25.0, 30.0], abs=1.0)


def test_a_beat_waits_for_no_open_transaction(bench: Any, tmp_path: Path) -> None:
    """One that stays open for longer is closed for it: a beat is visible at once, and holds no reader up."""
    records = [Arrival(i / 100, P0, i) for i in range(900)]
    slow = pipeline_with(tmp_path, 100_000, seconds=60)
    made = bench(records, {P0: 900}, poll_seconds=0.005, pipeline=slow)
    made.session._min_interval = 60.0
    made.run()
    first = made.sink.transactions[2]
    assert first.chunks
    assert first.at - made.began == pytest.approx(5.0, abs=0.3)
    assert b'"beat"' in made.sink.transactions[3].controls[0].key


# -- ends -----------------------------------------------------------------------------------------------------------


def released(made: Bench) -> dict[TopicPartition, int]:
    """Positions in the last transaction that copied; only after it all claims are released, and the beats end."""
    *_, last, releases = made.sink.transactions
    claims = made.sink.transactions[0].to("claims")
    *given_up, beat = releases.to("claims")
    assert [(c.key, c.value) for c in given_up] == [(c.key, None) for c in claims]
    assert (json.loads(beat.key)["kind"], beat.value) == ("beat", None)
    return {r.source: r.position for r in made.commits(last, "release")}


def test_a_stop_record_commits_what_is_in_hand_with_the_release(bench: Any) -> None:
    records = [Arrival(i / 100, P0, i) for i in range(1000)]
    made = bench(records, {P0: 1000}, extent=Continuous(), stop_at=3.0).run()
    position = released(made)[P0]
    assert 3.0 <= made.clock.now - made.began < 3.4
    assert position == sum(len(t.offsets.get(P0, [])) for t in made.copying) >= 295


def test_until_caught_up_ends_at_what_was_stable_at_the_start(bench: Any) -> None:
    made = bench(arrivals(0, 1, 2), {P0: 3, P1: 0}, extent=UntilCaughtUp()).run()
    assert released(made) == {P0: 3, P1: 0}
    assert made.clock.now - made.began < 0.3


def test_a_window_ends_when_it_is_over_or_after_an_idle_time(bench: Any) -> None:
    trickle = [Arrival(i / 10, P0, i) for i in range(1000)]
    made = bench(trickle, {P0: 1000}, extent=Window(timedelta(seconds=4), timedelta(seconds=1))).run()
    assert made.clock.now - made.began == pytest.approx(4.0, abs=0.2)
    assert released(made)[P0] == pytest.approx(40, abs=2)

    made = bench(arrivals(0, 1, at=2.0), {P0: 2}, extent=Window(HOUR, timedelta(seconds=3))).run()
    assert made.clock.now - made.began == pytest.approx(5.0, abs=0.2)
    assert released(made) == {P0: 2}


def test_a_slot_whose_partitions_were_all_stopped_releases_its_claims_and_ends(bench: Any) -> None:
    made = bench([], {P0: 9}, positions={P0: commit_record(P0, 50)}).run()
    assert released(made) == {}
    assert "before position 50: its log was truncated" in made.memory.stopped[P0]
