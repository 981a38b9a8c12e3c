"""Commit records: this release and later ones can read what this one writes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import CommitRecord, Overridden, key_bytes, parse_key
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.document import document_of
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets_tests.support.memory.plans import commit_record

REASONS = [kind.example() for kind in ALL.values()]
numbers = st.integers(0, 2**63 - 1)
records = st.builds(
    commit_record,
    st.builds(TopicPartition, st.text(), st.integers(0, 2**31)),
    numbers,
    group=st.text(),
    cluster=st.text(),
    kind=st.sampled_from(["start", "commit", "release", "override"]),
    leader_epoch=st.none() | st.integers(0, 2**31),
    target_end=st.none() | numbers,
    generation=numbers,
    sequence=numbers,
    reason=st.none() | st.sampled_from(REASONS) | st.builds(Unclassified, st.text()),
    began=st.none() | numbers,
    producer=st.none() | st.builds(ProducerIdentity, numbers, st.integers(0, 2**15 - 1)),
)
RECORD = commit_record(TopicPartition("orders", 0), 1234, leader_epoch=None, target_end=1301, began=7)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(RECORD.value_bytes()), **fields}).encode()


NEW = Marker("m", "cluster")


@pytest.mark.parametrize(
    ("said", "always", "others"),
    [
        ({"marker": NEW}, False, False),
        ({}, False, True),
        ({}, True, False),
        ({"marker": Marker("former", "cluster")}, True, True),
        ({"position": 7}, False, False),
        ({"marker": NEW, "marker_changed": True}, True, True),
        # Somebody has gone back to where it began, in the same target topic, or in another one.
        ({"position": 7, "overridden": Overridden("me", None, 1234, "s-orders", "t-orders", None)}, False, True),
        ({"position": 7, "overridden": Overridden("me", None, 1234, "s-orders", "former", None)}, False, False),
        ({"position": 7, "overridden": Overridden("me", None, None, None, None, None)}, False, False),
    ],
)
def test_copies_that_may_have_another_marker(said: dict[str, Any], always: bool, others: bool) -> None:
    assert replace(RECORD, **said).has_others_than(NEW, always) == others


@given(records)
def test_what_is_written_is_read(record: CommitRecord) -> None:
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "there") == record


def test_the_format_on_the_topic_is_the_documented_one() -> None:
    assert json.loads(RECORD.key_bytes()) == {
        "group": "k2k.g", "cluster": "source-cluster", "topic": "orders", "partition": 0,
    }  # fmt: skip
    assert json.loads(RECORD.value_bytes()) == {
        "version": 1,
        "kind": "commit",
        "pipeline": "p",
        "position": 1234,
        "leaderEpoch": None,
        "sourceTopicId": "s-orders",
        "target": {"topic": "orders", "id": "t-orders"},
        "targetEnd": 1301,
        "generation": 16,
        "slot": 0,
        "sequence": 5,
        "time": 1_700_000_000_000,
        "records": 11,
        "bytes": 22,
        "runs": 3,
        "reason": None,
        "began": 7,
    }


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_a_reason_is_written_as_text_for_older_releases_and_with_its_code_for_newer_ones(reason: StopReason) -> None:
    record = replace(RECORD, kind="release", reason=reason)
    body = json.loads(record.value_bytes())
    assert (body["reason"], body["stop"]["code"]) == (render(reason, with_code=False), reason.code)
    # An older release ignores unknown fields.
    assert {name: value for name, value in body.items() if name not in ("reason", "stop", "kind")} == {
        name: value for name, value in json.loads(RECORD.value_bytes()).items() if name not in ("reason", "kind")
    }
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "there") == record


def test_the_reason_of_an_older_release_and_of_a_newer_one_is_its_text() -> None:
    older, newer = changed(reason="it is gone"), changed(reason="it is gone", stop={"code": "new", "facts": {"a": 1}})
    read = [CommitRecord.parse(RECORD.key_bytes(), value, "there").reason for value in (older, newer)]
    assert [reason and render(reason) for reason in read] == ["[unclassified] it is gone", "[new] it is gone"]


def test_what_an_override_put_aside_has_its_code_too_where_it_was_noted() -> None:
    stopped = RecordsDeleted(RECORD.source, 3, 8)
    record = replace(RECORD, kind="override", overridden=Overridden("anna", None, 3, "s", "t", stopped))
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "there") == record
    body = json.loads(record.value_bytes())
    assert body["overridden"]["stopped"] == render(stopped, with_code=False)
    assert body["overridden"].pop("stop") == document_of(stopped)
    older = CommitRecord.parse(record.key_bytes(), json.dumps(body).encode(), "there").overridden
    assert older == Overridden("anna", None, 3, "s", "t", Unclassified(render(stopped, with_code=False)))


def test_a_key_names_group_cluster_and_partition_and_is_the_same_for_ever() -> None:
    """Compaction keeps one record a key: a key that changed its bytes would leave the old position lying."""
    key = key_bytes("k2k.g", "c", TopicPartition("orders", 7))
    assert key == b'{"group":"k2k.g","cluster":"c","topic":"orders","partition":7}'
    assert parse_key(key, "there") == ("k2k.g", "c", TopicPartition("orders", 7))


def test_the_newest_is_the_highest_generation_then_sequence() -> None:
    orders = [(1, 9), (2, 1), (2, 2), (10, 0)]
    made = [commit_record(RECORD.source, 0, generation=g, sequence=s) for g, s in reversed(orders)]
    assert [record.order for record in sorted(made, key=lambda r: r.order)] == orders


def test_fields_of_later_releases_are_passed_over_and_counters_may_be_missing() -> None:
    body = {**json.loads(RECORD.value_bytes()), "later": 1}
    for counter in ("records", "bytes", "runs", "reason", "began"):
        del body[counter]
    read = CommitRecord.parse(RECORD.key_bytes(), json.dumps(body).encode(), "there")
    assert (read.position, read.records, read.bytes_, read.runs, read.reason, read.began) == (1234, 0, 0, 0, None, None)


def test_a_producer_is_one_more_field_that_older_releases_pass_over() -> None:
    record = replace(RECORD, producer=ProducerIdentity(4001, 7))
    body = json.loads(record.value_bytes())
    assert body.pop("producer") == {"id": 4001, "epoch": 7}
    assert body == json.loads(RECORD.value_bytes())


def test_a_kind_of_a_newer_release_is_read_as_its_text() -> None:
    kind: str = CommitRecord.parse(RECORD.key_bytes(), changed(kind="pause"), "there").kind
    assert kind == "pause"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, RECORD.value_bytes()),
        (b"[]", RECORD.value_bytes()),
        (b'{"group":"g"}', RECORD.value_bytes()),
        (RECORD.key_bytes(), None),
        (RECORD.key_bytes(), b"\x00\x01"),
        (RECORD.key_bytes(), changed(version=2)),
        (RECORD.key_bytes(), changed(position=None)),
        (RECORD.key_bytes(), changed(position="far")),
        (RECORD.key_bytes(), changed(target="orders")),
    ],
)
def test_garbage_is_refused_with_its_place(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^commits-0@9"):
        CommitRecord.parse(key, value, "commits-0@9")
