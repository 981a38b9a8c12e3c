"""Mapping records: this release and later ones can read what this one writes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control import mapping_records
from k2k_assets.control.mapping_records import MOST_RUNS, DroppedBy, MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import PartitionMapping, fold

offsets = st.integers(0, 2**63 - 1)
runs = st.builds(Run, offsets, offsets, st.integers(1, 2**31))
mapped = st.builds(MappedPartition, st.text(), st.text(), st.integers(0, 2**31), st.lists(runs, max_size=3).map(tuple))
records = st.builds(
    MappingRecord,
    group=st.text(),
    topic=st.text(),
    partition=st.integers(0, 2**31),
    pipeline=st.text(),
    cluster=st.text(),
    source_topic_id=st.text(),
    generation=offsets,
    slot=st.integers(0, 100),
    sequence=offsets,
    time=offsets,
    covered_from=offsets,
    covered_to=offsets,
    targets=st.lists(mapped, max_size=3).map(tuple),
)
RECORD = MappingRecord(
    group="k2k.g",
    topic="orders",
    partition=3,
    pipeline="p",
    cluster="c",
    source_topic_id="s",
    generation=17,
    slot=1,
    sequence=42,
    time=1_700_000_000_000,
    covered_from=1000,
    covered_to=1012,
    targets=(MappedPartition("orders", "t", 3, (Run(1000, 2000, 5), Run(1006, 2006, 5))),),
)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(RECORD.value_bytes()), **fields}).encode()


@given(records)
def test_what_is_written_is_read(record: MappingRecord) -> None:
    assert MappingRecord.parse(record.key_bytes(), record.value_bytes()) == record


def test_the_format_on_the_topic_is_the_documented_one() -> None:
    assert json.loads(RECORD.key_bytes()) == {"group": "k2k.g", "topic": "orders", "partition": 3}
    assert json.loads(RECORD.value_bytes()) == {
        "version": 1,
        "pipeline": "p",
        "cluster": "c",
        "sourceTopicId": "s",
        "generation": 17,
        "slot": 1,
        "sequence": 42,
        "time": 1_700_000_000_000,
        "from": 1000,
        "to": 1012,
        "targets": [{"topic": "orders", "id": "t", "partition": 3, "runs": [[1000, 2000, 5], [1006, 2006, 5]]}],
    }


def test_fields_of_later_releases_are_passed_over() -> None:
    key = json.dumps({**json.loads(RECORD.key_bytes()), "later": 1}).encode()
    targets = [{**target, "later": 1} for target in json.loads(RECORD.value_bytes())["targets"]]
    assert MappingRecord.parse(key, changed(later={"a": 1}, targets=targets)) == RECORD


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.5])
def test_an_unknown_version_is_refused_by_name_and_place(version: object) -> None:
    with pytest.raises(ValueError, match=r"at t-0@9: version .* is unknown here .*upgrade"):
        MappingRecord.parse(RECORD.key_bytes(), changed(version=version), "at t-0@9")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, RECORD.value_bytes()),
        (RECORD.key_bytes(), None),
        (b"\xff\xfe", RECORD.value_bytes()),
        (RECORD.key_bytes(), b"{"),
        (RECORD.key_bytes(), b"[1]"),
        (RECORD.key_bytes(), b'{"version":1}'),
        (b"{}", RECORD.value_bytes()),
        (RECORD.key_bytes(), changed(targets=7)),
        (RECORD.key_bytes(), changed(targets=[{"topic": "t"}])),
        (RECORD.key_bytes(), changed(targets=[{"topic": "t", "id": "i", "partition": 0, "runs": [[1, 2]]}])),
    ],
)
def test_garbage_is_refused_with_its_place(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^at t-0@9"):
        MappingRecord.parse(key, value, "at t-0@9")


@st.composite
def _of_one_transaction(draw: st.DrawFn) -> MappingRecord:
    """A record with runs into two partitions, and ranges that two rules left out."""
    offset, ends = 1000, {0: 50, 1: 70}
    runs: dict[int, list[Run]] = {0: [], 1: []}
    ranges: dict[str, list[tuple[int, int]]] = {"even": [], "odd": []}
    for into, length in draw(st.lists(st.tuples(st.sampled_from([0, 1, "even", "odd", None]), st.integers(1, 3)))):
        if isinstance(into, int):
            runs[into].append(Run(offset, ends[into], length))
            ends[into] += length + 1
        elif into:
            ranges[into].append((offset, offset + length))
        offset += length
    targets = tuple(MappedPartition("orders", "t", p, tuple(some)) for p, some in runs.items() if some)
    dropped = tuple(DroppedBy(rule, tuple(some)) for rule, some in ranges.items() if some)
    return replace(RECORD, covered_to=offset, targets=targets, dropped=dropped)


def _stretches(record: MappingRecord) -> int:
    return sum(len(t.runs) for t in record.targets) + sum(len(d.ranges) for d in record.dropped)


@given(_of_one_transaction(), st.integers(1, 5))
def test_the_pieces_of_a_record_say_the_same(record: MappingRecord, most: int) -> None:
    """To whoever folds them all at once, one after the other, or one more than before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapping_records, "MOST_RUNS", most)
        pieces = list(record.pieces())
    bounds = [record.covered_from, *(piece.covered_to for piece in pieces)]
    assert [(piece.covered_from, piece.covered_to) for piece in pieces] == list(pairwise(bounds))
    assert bounds[-1] == record.covered_to
    assert len(pieces) == max(1, -(-_stretches(record) // most))
    assert max(map(_stretches, pieces)) <= most
    one_by_one = PartitionMapping()
    for piece in pieces:
        fold(one_by_one, [piece], with_dropped=True)
    whole = fold(PartitionMapping(), [record], with_dropped=True)
    assert fold(PartitionMapping(), pieces, with_dropped=True) == one_by_one == whole


def test_a_piece_is_shorter_than_what_a_topic_takes_by_default() -> None:
    """At offsets that a partition gets to in thirty years of a million records a second."""
    far = 10**15
    runs = tuple(Run(far + 2 * i, far + i, 1) for i in range(3 * MOST_RUNS))
    record = replace(
        RECORD, covered_from=far, covered_to=far + 6 * MOST_RUNS, targets=(MappedPartition("orders", "t", 3, runs),)
    )
    sizes = [len(piece.value_bytes()) for piece in record.pieces()]
    assert len(sizes) == 3
    assert max(sizes) < 1_000_000 < len(record.value_bytes())
