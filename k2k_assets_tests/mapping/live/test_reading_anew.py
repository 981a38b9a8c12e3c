"""Reading the mapping topic from the start: in any order, with little memory, the same as one fold of all records."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control import mapping_records
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.mapping.algebra.in_memory_mapping import Records
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate
from k2k_assets.mapping.live import reading_anew
from k2k_assets.mapping.live.mapping_messages import MappingMessages
from k2k_assets.mapping.live.reading_anew import Owned, ReadingAnew, few_at_a_time
from k2k_assets_tests.support.memory.mapping_topic import (
    CLUSTERS,
    GROUP,
    FakeMessage,
    MappingTopic,
    folded_at_once,
    histories,
    in_generations,
    mapping_record,
)
from k2k_assets_tests.support.memory.offset_model import target
from k2k_assets_tests.support.memory.traced import in_a_fork
from k2k_assets_tests.support.suite.properties import examples

RUN_BYTES = 3 * 8


def messages_of(group: str = GROUP, policy: str = "fail") -> MappingMessages:
    errors = SimpleNamespace(on_control_message_deserialization_error=policy)
    pipeline: Any = SimpleNamespace(group=group, error_handling=errors)
    return MappingMessages(pipeline, CLUSTERS[0], others=True)


def read_anew(held: InMemoryMappings, topic: Sequence[Sequence[Any]], ends: dict[int, int], group: str = GROUP) -> int:
    """Reads until nothing more is out of order; how often that was."""
    out_of_order: set[Owned] = set()
    times = 0
    while True:
        times += 1
        held.begin_anew(ends)
        reading = ReadingAnew(held, messages_of(group), out_of_order)
        for batch in topic:
            reading.take(batch)
        found = reading.finish()
        assert not found & out_of_order
        if not found:
            return times
        out_of_order |= found


def at_once(held: InMemoryMappings, topic: Sequence[Sequence[Any]], ends: dict[int, int], group: str = GROUP) -> None:
    """The model: all records together."""
    everything: Records = defaultdict(list)
    for batch in topic:
        for records, _ in messages_of(group).read(batch):
            for key, placed in records.items():
                everything[key] += placed
    held.begin_anew(ends)
    held.take(everything)


@st.composite
def topics(draw: st.DrawFn) -> tuple[MappingTopic, list[list[FakeMessage]]]:
    """Records of several pipelines; each source partition in one partition of the topic, or anywhere; and batches.

    The pieces of one record lie behind each other.
    """
    topic = MappingTopic()
    groups = [GROUP, "another"]
    # What is missing was copied without mappings, and to the same place.
    records = [replace(record, group=group, forward_since=0) for group in groups for record in draw(histories())]
    kind = draw(st.sampled_from(["in order", "partitions were added", "anyhow"]))
    if kind == "anyhow":
        records = draw(st.permutations(records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapping_records, "MOST_RUNS", draw(st.sampled_from([1, 100])))
        for number, record in enumerate(records):
            added = draw(st.integers(0, 1)) if kind != "in order" and number > len(records) // 2 else 0
            topic.write(*record.pieces(), partition=(record.partition + added) % 2)
    rest = [list(messages) for messages in topic.partitions]
    batches: list[list[FakeMessage]] = []
    while any(rest):
        some = rest[draw(st.sampled_from([p for p in range(2) if rest[p]]))]
        size = draw(st.integers(1, len(some)))
        batches.append(some[:size])
        del some[:size]
    return topic, batches


@examples(150)
@given(topics(), st.sampled_from([1, 400, 10**6]), st.sampled_from([GROUP, ANY_GROUP]))
def test_it_is_what_all_records_say_at_once(
    written: tuple[MappingTopic, list[list[FakeMessage]]], most: int, group: str
) -> None:
    topic, batches = written
    ends = {p: 2 * len(messages) for p, messages in enumerate(topic.partitions)}
    wanted, found = (InMemoryMappings(group, mark_every=1) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_anew, "MOST_BYTES", most)
        at_once(wanted, batches, ends, group)
        read_anew(found, batches, ends, group)
    assert set(found.sources()) == set(wanted.sources())
    for source in wanted.sources():
        assert found.alone(source) == wanted.alone(source)
        assert found.held(source).newest == wanted.held(source).newest
        assert found.read_to(source) == wanted.read_to(source)
        assert found.others_of(source) == wanted.others_of(source)
    if group == GROUP:
        own = [r for m in topic.partitions for each in m if (r := MappingRecord.parse(each.key(), each.value()))]
        model = folded_at_once(record for record in own if record.group == GROUP)
        for source, known in model.items():
            covered, tables = found.alone(source)
            assert (covered, tables) == (known.covered, known.runs)


@examples(150)
@given(histories(partitions=1), st.booleans(), st.data())
def test_after_a_record_that_was_passed_over_it_answers_as_the_whole_or_not_at_all(
    records: list[MappingRecord], is_set_aside: bool, data: st.DataObject
) -> None:
    """Some records cannot be read, and are ignored; the next ones can."""
    records = in_generations(records)
    first = data.draw(st.integers(0, len(records)))
    after = data.draw(st.integers(first, len(records)))
    topic = MappingTopic()
    for number, record in enumerate(records):
        is_corrupt = first <= number < after
        key = None if is_corrupt and data.draw(st.booleans()) else record.key_bytes()
        topic.write_raw(key, b"{" if is_corrupt else record.value_bytes())
    if after == len(records):
        return  # nothing that was read tells of the loss
    held = InMemoryMappings(GROUP, mark_every=1)
    held.begin_anew({})
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    reading = ReadingAnew(held, messages_of(policy="ignore"), [(GROUP, source)] if is_set_aside else ())
    batch: list[Any] = topic.partitions[0]
    reading.take(batch)
    assert not reading.finish()
    whole = folded_at_once(records)[source]
    found = PartitionMap(source, 0, *held.alone(source)).reaching(records[-1].covered_to)
    wanted = replace(whole, began=0).reaching(records[-1].covered_to)
    for to in (target(partition) for partition in range(3)):
        right, answer = (translate(each, to, np.arange(40), 0) for each in (wanted, found))
        told = (answer.states <= TranslationState.AHEAD) & (right.states <= TranslationState.AHEAD)
        assert answer.offsets[told].tolist() == right.offsets[told].tolist()


def _record(number: int, start: int, partition: int = 0) -> MappingRecord:
    return mapping_record((1, number), (start, start + 10), [(start, 2 * start, 10)], partition)


def test_what_comes_in_order_is_read_once_and_what_does_not_twice() -> None:
    topic = MappingTopic()
    topic.write(*(_record(n, 10 * n) for n in range(3)))
    held = InMemoryMappings(GROUP, mark_every=1)
    assert read_anew(held, [[message] for message in topic.partitions[0]], {}) == 1
    backwards = [[message] for message in reversed(topic.partitions[0])]
    assert read_anew(held, backwards, {}) == 2
    [source] = held.sources()
    covered, tables = held.alone(source)
    assert ([tuple(c) for c in covered], [len(table) for table in tables.values()]) == ([(0, 30)], [3])


def test_of_what_is_not_in_order_only_that_is_set_aside() -> None:
    topic = MappingTopic()
    topic.write(_record(2, 20), _record(1, 10), _record(1, 0, partition=1))
    held = InMemoryMappings(GROUP, mark_every=1)
    held.begin_anew({})
    reading = ReadingAnew(held, messages_of(), ())
    messages: list[Any] = topic.partitions[0]
    for message in messages:
        reading.take([message])
    assert reading.finish() == {(GROUP, SourcePartition(CLUSTERS[0], "s", "sid", 0))}


def test_messages_are_taken_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_anew, "MOST_BYTES", 10)
    batch: list[Any] = [FakeMessage(("t", 0, n), (b"", b"x" * size)) for n, size in enumerate([4, 4, 4, 25, 1, 1])]
    batch.append(FakeMessage(("t", 0, 6), (b"", None)))
    assert [[m.offset() for m in some] for some in few_at_a_time(batch)] == [[0, 1, 2], [3], [4, 5, 6]]
    assert list(few_at_a_time([])) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ["in order", "late"])
def test_memory_stays_near_what_is_held_afterwards(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_anew, "MOST_BYTES", 50_000)
    records, runs = 1500, 50
    held = InMemoryMappings(GROUP, mark_every=1)
    topic = long_topic(records, runs, late=order == "late")

    def check() -> None:
        tracemalloc.start()  # what the topic itself takes is not counted
        read_anew(held, topic, {})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        kept = tracemalloc.get_traced_memory()[0]
        at_once(InMemoryMappings(GROUP, mark_every=1), topic, {})
        before = tracemalloc.get_traced_memory()[1] - kept
        assert kept >= records * runs * RUN_BYTES
        assert peak < 3 * kept + 3_000_000
        assert peak < before / 3

    in_a_fork(check)


def long_topic(records: int, runs: int, late: bool) -> list[list[FakeMessage]]:
    """A topic in batches of one message; late: each hundred records lie in it backwards."""
    hundreds = [range(number, number + 100) for number in range(0, records, 100)]
    return [[_long_message(n, runs)] for each in hundreds for n in (reversed(each) if late else each)]


def _long_message(number: int, runs: int) -> FakeMessage:
    first = number * runs * 10
    mapped = [(first + 10 * n, 2 * first + 20 * n, 5) for n in range(runs)]
    record = mapping_record((1, number), (first, first + 10 * runs), mapped)
    return FakeMessage(("mappings", 0, number), (record.key_bytes(), record.value_bytes()))
