"""Mapping records: this release and later ones can read what this one writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run

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
