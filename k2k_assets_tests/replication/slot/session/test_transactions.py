"""When a transaction commits, and what it contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control import mapping_records
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.replication.slot import session as module
from k2k_assets.replication.slot.commit import committer
from k2k_assets.replication.slot.commit.target_chain import ForeignWriter, TargetChain
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.replication.slot.session.harness import P0, U0, arrivals, lone_writer, pipeline_with
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_transport import BY_BATCH, BY_RECORD, Arrival
from k2k_assets_tests.support.memory.plans import commit_record


def test_a_lone_record_is_committed_at_once(harness: Any) -> None:
    made = harness(arrivals(0, at=5.0), {P0: 1}).run()
    (at,) = made.times()
    assert at == pytest.approx(5.0, abs=0.003)


@pytest.mark.parametrize("pause", [0.005, 0.001])
def test_a_trickle_shares_transactions(harness: Any, tmp_path: Path, pause: float) -> None:
    """No more than one commit in 50 ms, and no record waits longer: a steady stream is never silent for 2 ms."""
    records = [Arrival(1 + i * pause, P0, i) for i in range(int(1 / pause))]
    made = harness(records, {P0: len(records)}, poll_seconds=0.0001, pipeline=pipeline_with(tmp_path, 100_000)).run()
    times = made.times()
    waited = [t.at - made.began - (1 + o * pause) for t in made.copying for o in t.offsets.get(P0, [])]
    assert 15 <= len(times) <= 22
    assert all(b - a > 0.049 for a, b in pairwise(times))
    assert max(waited) < 0.06


def test_batches_are_full_but_never_larger(harness: Any) -> None:
    made = harness(arrivals(*range(35)), {P0: 35}).run()
    assert [len(t.offsets[P0]) for t in made.copying if t.chunks] == [10, 10, 10, 5]
    assert max(made.source.limits) <= 10


def test_a_source_that_never_runs_dry_is_committed_after_the_batch_time(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 5)
    pipeline = pipeline_with(tmp_path, 100_000)
    made = harness(arrivals(*range(5000)), {P0: 5000}, poll_seconds=0.01, pipeline=pipeline).run()
    assert made.times()[:2] == pytest.approx([2.0, 4.0], abs=0.05)


def test_possible_runs_are_limited_so_that_a_mapping_record_stays_small(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "MOST_RUNS", 100)
    monkeypatch.setattr(module, "_CHUNK", 50)
    with_gaps, whole = range(0, 1000, 2), range(1000, 1500)
    made = harness(arrivals(*with_gaps, *whole), {P0: 1500}, pipeline=pipeline_with(tmp_path, 100_000)).run()
    runs = [sum(len(m.targets[0].runs) for m in made.mappings(t) if m.targets) for t in made.copying]
    assert max(runs) <= 100
    assert sum(runs) == 501


def test_a_chunk_of_too_many_runs_is_mapped_by_several_records_of_its_transaction(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source batch comes whole: it may have more runs than a mapping record may hold."""
    monkeypatch.setattr(mapping_records, "MOST_RUNS", 100)
    made = harness(arrivals(*range(0, 500, 2)), {P0: 500}, pipeline=pipeline_with(tmp_path, 100_000)).run()
    (transaction,) = [t for t in made.copying if t.chunks]
    mappings = made.mappings(transaction)
    assert [(m.covered_from, m.covered_to) for m in mappings] == [(0, 200), (200, 400), (400, mappings[-1].covered_to)]
    assert [len(m.targets[0].runs) for m in mappings] == [100, 100, 50]
    (committed,) = made.commits(transaction)
    assert {m.sequence for m in mappings} == {committed.sequence}
    assert mappings[-1].covered_to == committed.position


def test_markers_at_the_end_are_committed_without_a_record(harness: Any) -> None:
    """Otherwise a partition that ends in a marker has a lag of one for ever."""
    made = harness([], {P0: 4}, positions={P0: commit_record(P0, 2, target_end=77)}).run()
    progress = [r for t in made.copying for r in made.commits(t, "commit")]
    assert [(r.position, r.target_end) for r in progress] == [(4, 77)]
    (mapping,) = [m for t in made.copying for m in made.mappings(t)]
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (2, 4, ())
    assert made.memory.stopped.reasons == {}


def test_steps_come_in_order_flush_then_control_records_then_commit(harness: Any) -> None:
    made = harness(arrivals(0, 1), {P0: 2}, positions={P0: commit_record(P0, 0)}).run()
    first_data = made.sink.steps.index("write")
    assert made.sink.steps[first_data - 1 : first_data + 5] == [
        "begin", "write", "settle", "write_control", "write_control", "commit",
    ]  # fmt: skip


@pytest.mark.parametrize("capabilities", [BY_RECORD, BY_BATCH], ids=["records", "batches"])
def test_who_listens_hears_how_long_each_commit_took_and_how_old_its_records_were(
    harness: Any, clock: FakeClock, capabilities: Capabilities
) -> None:
    """The timestamps of records are their offsets, from the time of day on at which the clock begins."""
    heard: list[tuple[float, Mapping[str, float]]] = []
    arriving = [*arrivals(0, 1, at=5.0), Arrival(5.0, U0, 7), Arrival(9.0, P0, 500)]
    made = harness(arriving, {P0: 501, U0: 8}, capabilities=capabilities, listener=lambda *told: heard.append(told))
    commit = made.sink.commit

    def slow_commit() -> None:
        clock.advance(0.25)
        commit()

    made.sink.commit = slow_commit
    made.run()
    assert [seconds for seconds, _ in heard] == pytest.approx([0.25] * len(heard))
    assert [ages for _, ages in heard if ages] == [
        {"t": pytest.approx(5.25, abs=0.01), "u": pytest.approx(5.243, abs=0.01)},
        {"t": pytest.approx(9.25 - 0.5, abs=0.01)},
    ]


def test_where_records_will_go_is_told_before_they_are_there_once_a_transaction_has_shown_it(harness: Any) -> None:
    made = harness(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=lone_writer(), foresees=True).run()
    first, second = (i for i, step in enumerate(made.sink.steps) if step == "write")
    assert made.sink.steps[first : first + 5] == ["write", "settle", "write_control", "write_control", "commit"]
    assert made.sink.steps[second : second + 5] == ["write", "write_control", "write_control", "settle", "commit"]
    told = [m.targets[0].runs[0] for t in made.copying for m in made.mappings(t) if m.targets]
    assert told == [(0, 0, 1), (1, 2, 1)]


def test_where_records_do_not_go_as_foreseen_nothing_is_committed(harness: Any) -> None:
    made = harness(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=lone_writer(), foresees=True)
    write = made.sink.write

    def beside(chunk: Any) -> Any:
        if chunk.records.first_offset == 1:
            made.sink.log_ends["t", 0] += 1  # a marker of somebody else's empty transaction
        return write(chunk)

    made.sink.write = beside
    with pytest.raises(Restart, match="did not go where it was foreseen"):
        made.run()
    assert [r.position for t in made.copying for r in made.commits(t, "commit")] == [1]


@pytest.mark.parametrize(("still_ours", "error"), [(True, ForeignWriter), (False, Restart)])
def test_records_between_ours_are_a_strangers_only_while_the_partition_is_ours(
    harness: Any, still_ours: bool, error: type[Exception]
) -> None:
    """At least once nobody keeps a slot that has slept from writing behind its successor, and seeing its records."""
    chain = TargetChain(fail=True, markers=0, read_back=lambda *_: 3, ends_of_committed=dict)
    made = harness(arrivals(0) + arrivals(1, at=0.2), {P0: 2}, chain=chain)
    write = made.sink.write

    def beside(chunk: Any) -> Any:
        if chunk.records.first_offset == 1:
            made.sink.log_ends["t", 0] += 3
            own = {tp: claim for tp, claim in made.session._slot_claims._claims.items() if still_ours}
            made.tail.refresh = lambda timeout=0.0: Assignments(claims={str(tp): own[tp] for tp in own})
        return write(chunk)

    made.sink.write = beside
    with pytest.raises(error):
        made.run()
    assert [r.position for t in made.copying for r in made.commits(t, "commit")] == [1]


def test_without_offset_mapping_there_are_only_commit_records(harness: Any, tmp_path: Path) -> None:
    made = harness(arrivals(0, 1), {P0: 2}, pipeline=pipeline_with(tmp_path, offsetMapping="disabled"))
    made.session._transactions._plan = replace(made.plan, control=replace(made.plan.control, mapping=0))
    made.run()
    assert {c.topic for t in made.sink.transactions for c in t.controls} == {"commits", "claims"}


@pytest.mark.parametrize(
    ("known", "alone"),
    [({"target_end": 5}, [True, True]), ({"target_end": None}, [False, True]), (None, [True, True])],
    ids=["where it ended is known", "nobody knows", "nothing was copied"],
)
def test_a_copy_is_alone_only_from_where_the_former_one_is_known_to_end(
    harness: Any, known: dict[str, Any] | None, alone: list[bool]
) -> None:
    """A run at least once into a target that others feed notes no end: one that died may have left anything there."""
    positions = None if known is None else {P0: commit_record(P0, 3, began=0, **known)}
    first = 0 if known is None else 3
    made = harness(arrivals(*range(first, first + 20)), {P0: first + 20}, positions=positions).run()
    settings = CopySettings.of(made.plan.pipeline)
    wanted = [settings.fingerprint if each else settings.shared_target.fingerprint for each in alone]
    assert [m.settings for t in made.copying for m in made.mappings(t)] == wanted
