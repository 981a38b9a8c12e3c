"""Events in any order: every record is copied once, in order, and all reports are true."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.runs import runs_of
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot import session as module
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness, lone_writer, use_clock
from k2k_assets_tests.support.memory.fake_transport import BY_BATCH, BY_RECORD, Arrival
from k2k_assets_tests.support.memory.plans import GENERATION
from k2k_assets_tests.support.suite.properties import examples


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
    capabilities = data.draw(st.sampled_from([BY_RECORD, BY_BATCH]))
    made = Harness(
        pipeline, clock, records, ends, starts=first, poll_seconds=poll_seconds, chain=chain,
        foresees=chain is not None, capabilities=capabilities,
    )  # fmt: skip
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
        written: list[CommitRecord | MappingRecord] = [*commits.values(), *mappings.values()]
        assert {(r.generation, r.sequence) for r in written} == {(GENERATION, sequence)}
        assert set(transaction.offsets) <= set(commits)
        for source, record in commits.items():
            offsets = transaction.offsets.get(source, [])
            targets = list(range(next_target[source], next_target[source] + len(offsets)))
            next_target[source] += len(offsets) + bool(offsets)
            log[source] += zip(offsets, targets, strict=True)
            target_ends[source] = targets[-1] + 1 if targets else target_ends[source]
            counted[source][0] += len(offsets)
            counted[source][1] += sum(c.records.size() for c in transaction.chunks if c.source == source)
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
