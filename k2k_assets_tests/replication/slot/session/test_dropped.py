"""Records that a stage leaves out: the position goes on past them, and the mapping record says by which rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import DroppedBy, MappingRecord
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Continuous
from k2k_assets.replication.slot import session as module
from k2k_assets.replication.slot.commit import committer
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.stages import Stage
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import SourceStopped
from k2k_assets_tests.replication.slot.session.harness import P0, Harness, arrivals, pipeline_with, use_clock
from k2k_assets_tests.support.memory.fake_transport import BY_BATCH, BY_RECORD, Arrival
from k2k_assets_tests.support.memory.plans import GENERATION, commit_record
from k2k_assets_tests.support.suite.properties import examples


def dropping(rule: str, is_dropped: Callable[[int], bool]) -> Stage:
    def stage(chunk: Chunk) -> Chunk:
        chunk.drop([not is_dropped(offset) for offset in chunk.records.offsets()], rule)
        return chunk

    return stage


EVERY = dropping("all", lambda _: True)


def mappings(made: Harness) -> list[MappingRecord]:
    return [record for t in made.copying for record in made.mappings(t)]


def commits(made: Harness) -> list[CommitRecord]:
    return [record for t in made.copying for record in made.commits(t, "commit")]


def test_a_mapping_record_names_what_was_dropped_and_its_rule(harness: Any) -> None:
    odd = dropping("odd", lambda offset: offset % 2 == 1 and offset < 6)
    made = harness(arrivals(0, 1, 2, 3, 4, 6, 7, 8), {P0: 9}, first_stages=[odd]).run()
    (mapping,) = mappings(made)
    assert (mapping.covered_from, mapping.covered_to) == (0, 9)
    assert mapping.dropped == (DroppedBy("odd", ((1, 2), (3, 4))),)
    assert [run.source_start for run in mapping.targets[0].runs] == [0, 2, 4, 6]
    assert [(c.position, c.records, c.dropped) for c in commits(made)] == [(9, 6, 2)]


def test_where_all_is_dropped_only_bookkeeping_is_written_at_the_usual_pace(harness: Any) -> None:
    made = harness(arrivals(*range(35)), {P0: 40}, first_stages=[EVERY]).run()
    assert all(not transaction.chunks for transaction in made.copying)
    assert [c.position for c in commits(made)] == [10, 20, 30, 40]
    assert [(m.covered_from, m.covered_to, m.targets) for m in mappings(made)] == [
        (0, 10, ()),
        (10, 20, ()),
        (20, 30, ()),
        (30, 40, ()),
    ]
    assert [m.dropped for m in mappings(made)][-1] == (DroppedBy("all", ((30, 35),)),)
    assert commits(made)[-1].dropped == 35
    assert made.ended is True


def test_a_lone_dropped_record_is_committed_at_once(harness: Any) -> None:
    made = harness(arrivals(0, at=5.0), {P0: 1}, first_stages=[EVERY]).run()
    (transaction,) = [t for t in made.copying if made.commits(t, "commit")]
    assert transaction.at - made.began == pytest.approx(5.0, abs=0.003)


def test_a_stream_of_dropped_records_is_committed_after_the_batch_time(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 5)
    pipeline = pipeline_with(tmp_path, 100_000)
    arrive = arrivals(*range(2500))
    made = harness(arrive, {P0: 2500}, poll_seconds=0.01, pipeline=pipeline, first_stages=[EVERY]).run()
    times = [t.at - made.began for t in made.copying if made.commits(t, "commit")]
    assert times[:2] == pytest.approx([2.0, 4.0], abs=0.05)


def test_ranges_of_neighbouring_chunks_are_one_also_over_markers(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    below = dropping("below", lambda offset: 1 <= offset < 7 or offset == 11)
    pipeline = pipeline_with(tmp_path, 1000)
    made = harness(arrivals(0, 1, 2, 5, 6, 9, 10, 11), {P0: 12}, pipeline=pipeline, first_stages=[below]).run()
    assert [d for m in mappings(made) for d in m.dropped] == [DroppedBy("below", ((1, 7), (11, 12)))]


def test_an_idle_end_behind_dropped_records_keeps_the_epoch_of_the_last_record(harness: Any) -> None:
    above = dropping("above", lambda offset: offset > 0)
    made = harness(arrivals(0, 1, 2), {P0: 5}, first_stages=[above]).run()
    (last,) = commits(made)
    assert (last.position, last.epoch_end, last.leader_epoch) == (5, 3, 0)


def test_what_was_dropped_before_a_record_that_cannot_be_read_is_committed(harness: Any, tmp_path: Path) -> None:
    pipeline = pipeline_with(tmp_path, headerReplication="enabled")
    some = dropping("some", lambda offset: offset in (3, 4, 6))
    given_ = {"pipeline": pipeline, "extent": Continuous(), "stop_at": 60.0, "first_stages": [some]}
    made = harness(arrivals(1, 2, 3, 4, 5, 6), {P0: 9}, **given_)
    made.source.unreadable[P0] = 5
    assert made.session.start()
    with pytest.raises(SourceStopped):
        made.session.copy()
    (mapping,) = mappings(made)
    assert (mapping.covered_to, mapping.dropped) == (5, (DroppedBy("some", ((3, 5),)),))
    (last,) = commits(made)
    assert (last.position, last.epoch_end, last.leader_epoch, last.dropped) == (5, None, 0, 2)


@pytest.mark.parametrize("first_epoch", [0, 4], ids=["one epoch", "two epochs"])
def test_the_next_session_goes_on_behind_what_was_dropped_before_a_cut(
    harness: Any, tmp_path: Path, first_epoch: int
) -> None:
    """What was left out is not read again: it would look as if the log had been cut off, and had grown again."""
    pipeline = pipeline_with(tmp_path, headerReplication="enabled")
    some = dropping("some", lambda offset: offset in (3, 4))
    made = harness(arrivals(1, 2, 3, 4, 5, 6), {P0: 9}, pipeline=pipeline, first_stages=[some])
    made.source.unreadable[P0], made.source.first_epoch = 5, first_epoch
    assert made.session.start()
    with pytest.raises(SourceStopped):
        made.session.copy()
    (last,) = commits(made)
    assert PartitionState.of(made.plan, made.plan.partitions[0], last).reading_from.offset == 5


def test_an_unreadable_record_that_is_dropped_stops_nothing(harness: Any, tmp_path: Path) -> None:
    """It was dropped for something else than its headers, so nobody has to read them."""
    pipeline = pipeline_with(tmp_path, headerReplication="enabled")
    made = harness(arrivals(4, 5, 6), {P0: 7}, pipeline=pipeline, first_stages=[dropping("5", lambda at: at == 5)])
    made.source.unreadable[P0] = 5
    made.run()
    assert [c.position for c in commits(made)] == [7]


def test_dropped_ranges_are_limited_so_that_a_mapping_record_stays_small(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "MOST_RUNS", 100)
    monkeypatch.setattr(module, "_CHUNK", 50)
    odd = dropping("odd", lambda offset: offset % 2 == 1)
    pipeline = pipeline_with(tmp_path, 100_000)
    made = harness(arrivals(*range(1000)), {P0: 1000}, pipeline=pipeline, first_stages=[odd]).run()
    sizes = [sum(len(t.runs) for t in m.targets) + sum(len(d.ranges) for d in m.dropped) for m in mappings(made)]
    assert max(sizes) <= 100
    assert sum(sizes) == 1000


def test_a_position_goes_on_counting_what_its_generation_has_dropped(harness: Any) -> None:
    before = commit_record(P0, 3, generation=GENERATION, dropped=3, records=0, target_end=None)
    made = harness(arrivals(3, 4), {P0: 5}, positions={P0: before}, first_stages=[EVERY]).run()
    assert [c.dropped for c in commits(made)] == [5]


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_model_every_record_is_copied_or_in_one_range_of_its_rule(
    monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, data: st.DataObject
) -> None:
    clock = use_clock(monkeypatch)
    monkeypatch.setattr(module, "_CHUNK", data.draw(st.sampled_from([1, 3, 1000])))
    offset, at, records, rules = 0, 0.0, [], {}
    steps = st.tuples(st.sampled_from([0, 0, 1, 4]), st.sampled_from([0.0, 0.0, 0.03, 0.4]), st.sampled_from(" ab"))
    for gap, pause, rule in data.draw(st.lists(steps, max_size=40)):
        offset, at = offset + gap, at + pause
        records.append(Arrival(at, P0, offset))
        rules[offset] = rule
        offset += 1
    end = offset + data.draw(st.integers(0, 2))
    stages = [dropping(rule, lambda at, rule=rule: rules[at] == rule) for rule in "ab"]  # type: ignore[misc]
    capabilities = data.draw(st.sampled_from([BY_RECORD, BY_BATCH]))
    one_to_one = data.draw(st.booleans())
    made = Harness(
        pipeline, clock, records, {P0: end}, starts={P0: 0}, capabilities=capabilities, one_to_one=one_to_one,
        first_stages=stages,
    )  # fmt: skip
    monkeypatch.setattr(module, "read_commit_log", lambda *_, **__: made.commit_log)
    made.run()

    copied = [offset for t in made.copying for offset in t.offsets.get(P0, [])]
    assert copied == [offset for offset, rule in rules.items() if rule == " "]
    position = 0
    told: dict[int, str] = {}
    for mapping in mappings(made):
        assert mapping.covered_from == position
        position = mapping.covered_to
        for each in mapping.dropped:
            for start, after in each.ranges:
                assert mapping.covered_from <= start < after <= mapping.covered_to
                assert {start, after - 1} <= rules.keys()
                told |= {offset: each.rule for offset in rules if start <= offset < after}
    assert position == end
    assert told == {offset: rule for offset, rule in rules.items() if rule != " "}
    if rules:
        assert commits(made)[-1].dropped == len(told)
