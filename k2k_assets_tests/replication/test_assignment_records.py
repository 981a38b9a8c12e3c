"""What the assignment topic says: instances, stops, and nothing of other groups."""

from __future__ import annotations

import json

import pytest

from k2k_assets.replication.assignment_records import (
    Assignments,
    Instance,
    claim_key,
    claim_value,
    instance_key,
    instance_value,
    stop_key,
    stop_value,
)

FIRST = Instance("i1", "p", 3, "commit-id", "host-a", 11, 1_700_000_000_000)
SECOND = Instance("i2", "p", 5, "commit-id", "host-b", 12, 1_700_000_001_000)


def told(*records: tuple[int, bytes, bytes | None]) -> Assignments:
    state = Assignments()
    for offset, key, value in records:
        state.apply("k2k.g", offset, key, value)
    return state


def test_the_offset_is_the_generation_and_the_newest_is_the_highest() -> None:
    state = told(
        (4, instance_key("k2k.g", "i1"), instance_value(FIRST)),
        (9, instance_key("k2k.g", "i2"), instance_value(SECOND)),
    )
    assert state.instances == {4: FIRST, 9: SECOND}
    assert state.newest() == 9
    assert Assignments().newest() == -1


def test_a_tombstone_forgets_an_instance_that_was_fenced() -> None:
    state = told(
        (4, instance_key("k2k.g", "i1"), instance_value(FIRST)),
        (9, instance_key("k2k.g", "i2"), instance_value(SECOND)),
        (10, instance_key("k2k.g", "i1"), None),
        (11, instance_key("k2k.g", "never-seen"), None),
    )
    assert state.instances == {9: SECOND}


def test_stops_claims_and_other_groups() -> None:
    state = told(
        (0, stop_key("k2k.g", 9), stop_value(1)),
        (1, stop_key("k2k.g", 8), None),
        (2, stop_key("other", 7), stop_value(1)),
        (3, instance_key("other", "x"), b"not even JSON: it is not ours"),
        (4, claim_key("k2k.g", "s", 0, "k2k.p.k2k.g.0", "c"), claim_value(9, 0, "orders", 1)),
        (5, claim_key("k2k.g", "s", 0, "k2k.p.k2k.g.0", "c"), None),
        (6, json.dumps({"group": "k2k.g", "kind": "of a later release"}).encode(), b"?"),
    )
    assert state == Assignments({}, {9})


def test_each_claim_has_a_key_of_its_own() -> None:
    assert claim_key("g", "s", 0, "id", "c1") != claim_key("g", "s", 0, "id", "c2")


def test_fields_of_later_releases_are_passed_over_and_those_for_people_may_be_missing() -> None:
    body = {**json.loads(instance_value(FIRST)), "later": [1]}
    del body["host"], body["pid"], body["time"]
    (instance,) = told((4, instance_key("k2k.g", "i1"), json.dumps(body).encode())).instances.values()
    assert (instance.instance, instance.slots, instance.commit_topic_id) == ("i1", 3, "commit-id")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, instance_value(FIRST)),
        (b"\xff", instance_value(FIRST)),
        (instance_key("k2k.g", "i1"), b"{"),
        (instance_key("k2k.g", "i1"), b'{"version":2}'),
        (instance_key("k2k.g", "i1"), b'{"version":1,"pipeline":"p"}'),
        (instance_key("k2k.g", "i1"), b'{"version":1,"pipeline":"p","slots":"many","commitTopicId":"c"}'),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_offset(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ValueError, match="assignment record at offset 7"):
        told((7, key, value))  # type: ignore[arg-type]
