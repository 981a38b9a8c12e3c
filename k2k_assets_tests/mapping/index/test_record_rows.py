"""Mapping records as Arrow rows agree with `MappingRecord`, in bulk or one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import DroppedBy, MappedPartition, MappingRecord, parse_key
from k2k_assets.core.runs import Run
from k2k_assets.mapping.index import record_rows as module
from k2k_assets.mapping.index.record_rows import ROWS, RecordReader
from k2k_assets_tests.support.memory.mapping_topic import GROUP, FakeMessage, mapping_record
from k2k_assets_tests.support.suite.properties import examples

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
offsets = st.integers(0, 2**63 - 1)
runs = st.lists(st.builds(Run, offsets, offsets, offsets), max_size=3).map(tuple)
targets = st.lists(st.builds(MappedPartition, text, text, st.integers(0, 2**31 - 1), runs), max_size=3).map(tuple)
bounds = st.tuples(offsets, offsets).map(lambda pair: (min(pair), max(pair)))
dropped = st.lists(st.builds(DroppedBy, text, st.lists(bounds, max_size=3).map(tuple)), max_size=2).map(tuple)
records = st.builds(
    MappingRecord,
    group=st.sampled_from([GROUP, GROUP, "another"]),
    topic=text,
    partition=st.integers(0, 2**31 - 1),
    pipeline=text,
    cluster=text,
    source_topic_id=text,
    generation=offsets,
    slot=st.integers(0, 9),
    sequence=offsets,
    time=offsets,
    covered_from=offsets,
    covered_to=offsets,
    targets=targets,
    dropped=dropped,
)

GOOD = mapping_record((1, 2), (0, 5), [(0, 10, 5)])


def _message(offset: int, key: bytes | None, value: bytes | None) -> FakeMessage:
    return FakeMessage(("mappings", 3, offset), (key, value))


def _of(record: MappingRecord, offset: int = 0) -> FakeMessage:
    return _message(offset, record.key_bytes(), record.value_bytes())


def _changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(GOOD.value_bytes()), **fields}).encode()


def _rows_of(record: MappingRecord, offset: int) -> list[tuple[Any, ...]]:
    of = (record.cluster, record.topic, record.source_topic_id, record.partition, record.generation, record.sequence)
    head = (*of, offset, record.time, record.covered_from, record.covered_to)
    mapped = [(t.topic, t.topic_id, t.partition, list(t.runs)) for t in record.targets]
    ranges = [("", d.rule, -1, [Run(start, start, end - start) for start, end in d.ranges]) for d in record.dropped]
    return [(*head, *target) for target in (mapped or [("", "", -1, [])]) + ranges]


def _read(messages: list[Any], ignore: bool = False) -> list[tuple[Any, ...]]:
    batch = RecordReader(GROUP, ignore).rows(messages)
    assert batch.schema == ROWS
    batch.validate(full=True)
    names = "cluster topic source_topic_id partition generation sequence offset time covered_from covered_to"
    target = "target_topic target_topic_id target_partition"
    return [
        (
            *(row[name] for name in f"{names} {target}".split()),
            [Run(*run) for run in np.frombuffer(row["runs"], "<i8").reshape(-1, 3).tolist()],
        )
        for row in batch.to_pylist()
    ]


@examples(50)
@given(st.lists(records, max_size=5), st.booleans())
def test_every_record_of_the_group_is_read(written: list[MappingRecord], one_by_one: bool) -> None:
    messages = [_of(record, 2 * n) for n, record in enumerate(written)]
    wanted = [row for n, r in enumerate(written) if r.group == GROUP for row in _rows_of(r, 2 * n)]
    with pytest.MonkeyPatch.context() as patch:
        if one_by_one:
            patch.setattr(module, "_parsed_at_once", lambda _: None)
        assert sorted(_read(messages), key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, GOOD.value_bytes()),
        (b"{}", GOOD.value_bytes()),
        (GOOD.key_bytes(), None),
        (GOOD.key_bytes(), b""),
        (GOOD.key_bytes(), b" "),
        (GOOD.key_bytes(), b"{" + GOOD.value_bytes()),
        (GOOD.key_bytes(), GOOD.value_bytes() + GOOD.value_bytes()),
        (GOOD.key_bytes(), _changed(version=2)),
        (GOOD.key_bytes(), _changed(version=0)),
        (GOOD.key_bytes(), _changed(sequence=None)),
        (GOOD.key_bytes(), _changed(sequence="1")),
        (GOOD.key_bytes(), _changed(time=2**70)),
        (GOOD.key_bytes(), _changed(slot={})),
        (GOOD.key_bytes(), b'{"version":1}'),
        (GOOD.key_bytes(), _changed(targets=[{"topic": "t", "id": "i", "partition": 0, "runs": [[1, 2]]}])),
        (GOOD.key_bytes(), _changed(targets=[{"topic": "t", "id": "i", "partition": 0, "runs": [[1, 2, None]]}])),
        (GOOD.key_bytes(), _changed(targets=[{"topic": "t", "id": "i", "runs": []}])),
        (GOOD.key_bytes(), _changed(targets=[None])),
        (GOOD.key_bytes(), _changed(dropped=[{"rule": "r", "ranges": [[1]]}])),
        (GOOD.key_bytes(), _changed(dropped=[{"rule": "r", "ranges": [[1, None]]}])),
        (GOOD.key_bytes(), _changed(dropped=[{"ranges": []}])),
    ],
)
def test_an_unreadable_record_is_named_or_left_out_alone(key: bytes | None, value: bytes | None) -> None:
    messages = [_of(GOOD, 0), _message(7, key, value), _of(GOOD, 9)]
    with pytest.raises(ValueError, match=r"mapping record at mappings-3@7"):
        _read(messages)
    assert _read(messages, ignore=True) == [*_rows_of(GOOD, 0), *_rows_of(GOOD, 9)]


_OTHER = mapping_record((1, 2), (0, 5), partition=7)


@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize(
    ("key", "stretches"),
    [
        (GOOD.key_bytes(), {0: 0, 5: 0, 6: 1, 7: 0, 9: 2}),
        (b"", {0: 0, 5: 1, 6: 1, 7: 1, 9: 2}),
        (mapping_record((1, 2), (0, 5), partition=3).key_bytes(), {0: 0, 5: 0, 6: 0, 7: 0, 9: 0}),
    ],
)
def test_behind_what_was_passed_over_another_stretch_begins(
    key: bytes, stretches: dict[int, int], in_chunks: bool
) -> None:
    """So that a fold does not join what lies on both sides."""
    bad = [_message(offset, key, value) for offset, value in ((1, b"{"), (2, None), (8, b"{"), (10, b"{"))]
    good: list[Any] = [_of(GOOD, 0), _of(_OTHER, 5), _of(GOOD, 6), _of(_OTHER, 7), _of(GOOD, 9)]
    messages = sorted([*bad, *good], key=lambda message: message.offset())
    reader = RecordReader(GROUP, ignore_unreadable=True)
    read: dict[int, int] = {}
    for chunk in [[message] for message in messages] if in_chunks else [messages]:
        rows = reader.rows(chunk)
        read |= dict(zip(rows["offset"].to_pylist(), rows["stretch"].to_pylist(), strict=True))
    assert read == stretches
    assert reader.passed_over == {parse_key(key) if key else None}


@pytest.mark.parametrize("behind", [GOOD, _OTHER, None])
def test_what_was_passed_over_concerns_those_that_were_not_read_behind_it(behind: MappingRecord | None) -> None:
    reader = RecordReader(GROUP, ignore_unreadable=True)
    messages: list[Any] = [_of(GOOD, 0), _of(_OTHER, 1), _message(2, b"", b"{")]
    messages += [_of(behind, 3)] if behind else []
    reader.rows(messages)
    assert reader.passed_over == {None}
    assert reader.read_behind == ({parse_key(behind.key_bytes())} if behind else set())
    again: list[Any] = [_message(4, b"", b"{")]
    reader.rows(again)
    assert not reader.read_behind


def test_an_unreadable_record_of_another_group_is_none_of_our_business() -> None:
    other = mapping_record((1, 2), (0, 5), group="another")
    assert _read([_message(1, other.key_bytes(), b"not json"), _of(GOOD, 3)]) == _rows_of(GOOD, 3)


def test_fields_of_later_releases_and_odd_white_space_are_passed_over() -> None:
    targets = [{**target, "later": [1]} for target in json.loads(GOOD.value_bytes())["targets"]]
    spaced = json.dumps({**json.loads(GOOD.value_bytes()), "later": {"a": 1}, "targets": targets}, indent=1).encode()
    assert _read([_of(GOOD, 0), _message(2, GOOD.key_bytes(), spaced)]) == [*_rows_of(GOOD, 0), *_rows_of(GOOD, 2)]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_range_that_was_skipped_by_hand_is_marked(one_by_one: bool) -> None:
    plain, skipped = (
        MappingRecord(GROUP, "s", 0, "p", "c", "sid", 1, 0, n, 0, 10 * n, 10 * n + 10, (), override)
        for n, override in enumerate((None, "by me: it is broken"))
    )
    messages: list[Any] = [_of(plain), _of(skipped, 1)]
    if one_by_one:
        messages.append(_message(2, plain.key_bytes(), b"{"))
    rows = RecordReader(GROUP, ignore_unreadable=True).rows(messages)
    assert rows["override"].to_pylist() == [False, True]
