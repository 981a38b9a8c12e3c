"""The state of the assignment topic: instances, stops, claims, heartbeats, without those of other groups."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.assignment_records import (
    Claim,
    InstanceRecord,
    heartbeat_key,
    instance_key,
    instance_value,
    start_key,
    start_value,
    stop_key,
    stop_value,
    time_value,
)
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination.liveness import Presence, continuous_instances

FIRST = InstanceRecord("i1", "p", 3, "commit-id", "host-a", 11, 1_700_000_000_000)
SECOND = InstanceRecord("i2", "p", 5, "commit-id", "host-b", 12, 1_700_000_001_000, continuous=True, run="r2")
CLAIM = Claim("s", 2, "k2k.p.k2k.g.0", "c1", 9, 0, "orders", 4)
KEY, VALUE = CLAIM.key_bytes("k2k.g"), CLAIM.value_bytes(1)


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
    assert state.describe(9) == "pipeline p on host-b, process 12, Dagster run r2 (generation 9)"
    assert state.describe(5) == "the instance of generation 5"


def test_an_instance_that_draws_again_has_one_generation_and_a_tombstone_forgets_it() -> None:
    again = (
        (4, instance_key("k2k.g", "i1"), instance_value(FIRST)),
        (9, instance_key("k2k.g", "i1"), instance_value(FIRST)),
    )
    assert told(*again).instances == {9: FIRST}
    assert told(*again, (10, instance_key("k2k.g", "i1"), None), (11, instance_key("k2k.g", "x"), None)).instances == {}


def test_a_claim_lives_until_the_tombstone_of_its_very_own_key() -> None:
    other = Claim("s", 2, "k2k.p.k2k.g.0", "c2", 9, 0, "orders")
    assert told((4, KEY, VALUE)).claims == {"c1": CLAIM}
    assert set(told((4, KEY, VALUE), (5, other.key_bytes("k2k.g"), other.value_bytes(1))).claims) == {"c1", "c2"}
    late_mark = (6, KEY, None)
    state = told((4, KEY, VALUE), (5, other.key_bytes("k2k.g"), other.value_bytes(1)), late_mark)
    assert set(state.claims) == {"c2"}
    assert state.by_partition() == {("s", 2): list(state.claims.values())}


def test_claims_and_heartbeats_are_signs_of_life() -> None:
    heartbeat = heartbeat_key("k2k.g", 9, 0)
    assert told((4, KEY, VALUE)).signs == {(9, 0): 4}
    assert told((4, KEY, VALUE), (7, heartbeat, time_value(1)), (8, KEY, None)).signs == {(9, 0): 7}
    assert told((4, KEY, VALUE), (7, heartbeat, time_value(1)), (9, heartbeat, None)).signs == {}


def test_continuous_instances_that_a_run_would_take_partitions_from() -> None:
    bounded = (4, instance_key("k2k.g", "i1"), instance_value(FIRST))
    goes_on = (9, instance_key("k2k.g", "i2"), instance_value(SECOND))
    who = "pipeline p on host-b, process 12, Dagster run r2 (generation 9)"
    assert continuous_instances(told(bounded), "p", {"orders"}) == {}
    begun = told(bounded, goes_on)
    assert continuous_instances(begun, "p", {"orders"}) == {"i2": Presence(sign=9, who=who, run="r2")}
    assert continuous_instances(begun, "another", {"orders"}) == {}, "it copies nothing of that pipeline"
    claimed = (10, KEY, VALUE), (12, heartbeat_key("k2k.g", 9, 0), time_value(1))
    copies = told(bounded, goes_on, *claimed)
    for pipeline in ("p", "another"):
        assert continuous_instances(copies, pipeline, {"orders"}) == {"i2": Presence(sign=12, who=who, run="r2")}
    assert continuous_instances(copies, "another", {"users"}) == {}


def test_stops_and_other_groups() -> None:
    state = told(
        (0, stop_key("k2k.g", 9), stop_value(1, again=True)),
        (1, stop_key("k2k.g", 8), stop_value(1, again=True)),
        (2, stop_key("k2k.g", 8), None),
        (2, stop_key("k2k.g", 6), stop_value(1, again=True)),
        (2, stop_key("k2k.g", 6), time_value(1)),
        (3, stop_key("other", 7), time_value(1)),
        (4, instance_key("other", "x"), b"not even JSON: it is not ours"),
        (6, json.dumps({"group": "k2k.g", "kind": "of a later release"}).encode(), b"?"),
    )
    assert state == Assignments(stops={9, 6}, again={9})


def test_fields_of_later_releases_are_passed_over_and_those_for_people_may_be_missing() -> None:
    body = {**json.loads(instance_value(FIRST)), "later": [1]}
    del body["host"], body["pid"], body["time"], body["continuous"]
    assert "run" not in body, "nothing that older releases do not know, where it says nothing"
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
        (KEY, b'{"version":2}'),
        (KEY, b'{"version":1,"generation":1}'),
        (b'{"kind":"claim","group":"k2k.g"}', VALUE),
        (b'{"kind":"beat","group":"k2k.g"}', time_value(1)),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_offset(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ValueError, match="assignment record at offset 7"):
        told((7, key, value))  # type: ignore[arg-type]


def _written() -> list[tuple[bytes, bytes | None]]:
    """Records of which some have the same key, each of which has its tombstone too."""
    of_claims = [replace(CLAIM, claim=f"c{n}", generation=n, slot=n) for n in range(3)]
    values = [
        *((instance_key("k2k.g", i.instance), instance_value(i)) for i in (FIRST, SECOND)),
        *((claim.key_bytes("k2k.g"), claim.value_bytes(1)) for claim in of_claims),
        *((stop_key("k2k.g", n), stop_value(1, again=n == 1)) for n in range(2)),
        *((start_key("k2k.g", n), start_value("orders", (1, 2))) for n in "ab"),
    ]
    return [*values, *((key, None) for key, _ in values)]


@given(st.lists(st.sampled_from(_written()), max_size=14), st.data())
def test_a_log_that_was_compacted_says_the_same(records: list[tuple[bytes, bytes | None]], data: st.DataObject) -> None:
    """The cleaner may take any record away that has a later one of its key."""
    log = [(offset, key, value) for offset, (key, value) in enumerate(records)]
    last = {key: offset for offset, key, _ in log}
    compacted = [record for record in log if record[0] == last[record[1]] or data.draw(st.booleans())]

    def said(state: Assignments) -> list[object]:
        return [state.instances, state.claims, state.stops, state.again, state.starts]

    assert said(told(*compacted)) == said(told(*log))
