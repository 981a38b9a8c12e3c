"""What a driver sees of its peers, also of peers that come and go between two refreshes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.assignment_records import (
    Claim,
    InstanceRecord,
    heartbeat_key,
    instance_key,
    instance_value,
    stop_key,
    stop_value,
)
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination import peers as module
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.coordination.peers import Peers
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.copies.pipelines import make_pipeline

OURS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPIC_IDS = {OURS: "s", OTHER: "s"}
# A fake answer of `announce`.
ANYBODY: Any = None


@pytest.fixture
def tail() -> Any:
    return SimpleNamespace(state=Assignments(), is_alive=lambda owner: True)


@pytest.fixture
def peers(tail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peers:
    """Those of a run whose next generations are 5 and 9. Who is alive the tail says, for the test."""
    generations = iter((5, 9))
    monkeypatch.setattr(module, "announce", lambda *_: next(generations))
    played = SimpleNamespace(is_alive=lambda owner: tail.is_alive(owner), note=lambda: None)
    monkeypatch.setattr(module, "Liveness", lambda *_: played)
    return Peers(make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["orders"]), tail)


def claimed(tail: Any, tp: TopicPartition, generation: int, released: bool) -> None:
    claim = Claim("s", tp.partition, "id", f"claim-{generation}", generation, 0, tp.topic)
    key = claim.key_bytes("k2k.g")
    tail.state.apply("k2k.g", generation * 10, key, claim.value_bytes(1))
    if released:
        tail.state.apply("k2k.g", generation * 10 + 1, key, None)
        tail.state.apply("k2k.g", generation * 10 + 2, heartbeat_key("k2k.g", generation, 0), None)


def test_a_claim_that_has_gone_again_is_known_until_the_next_own_generation(tail: Any, peers: Peers) -> None:
    peers.draw_generation(ANYBODY)
    claimed(tail, OTHER, 4, released=True)
    assert peers.claimed_since(TOPIC_IDS) == set(), "before the own generation"
    claimed(tail, OURS, 7, released=True)
    assert peers.elsewhere(TOPIC_IDS) == {}
    assert peers.claimed_since(TOPIC_IDS) == {OURS}
    peers.draw_generation(ANYBODY)
    assert peers.claimed_since(TOPIC_IDS) == set()


def test_what_newer_ones_copy_is_elsewhere(tail: Any, peers: Peers) -> None:
    peers.draw_generation(ANYBODY)
    claimed(tail, OURS, 7, released=False)
    claimed(tail, OTHER, 3, released=False)
    assert peers.elsewhere(TOPIC_IDS) == {OURS: "the instance of generation 7"}
    tail.is_alive = lambda owner: False
    assert peers.elsewhere(TOPIC_IDS) == {}, "a silent one counts no more"


def test_what_a_slot_that_lives_has_lost_it_will_claim_again(tail: Any, peers: Peers) -> None:
    """Who has claimed its transactional id removes its claims, and may copy other partitions."""
    peers.draw_generation(ANYBODY)
    claim = Claim("s", OURS.partition, "id", "claim", 7, 0, OURS.topic)
    tail.state.apply("k2k.g", 70, claim.key_bytes("k2k.g"), claim.value_bytes(1))
    tail.state.apply("k2k.g", 71, claim.key_bytes("k2k.g"), None)
    assert peers.elsewhere(TOPIC_IDS) == {OURS: "the instance of generation 7"}
    tail.is_alive = lambda owner: False
    assert peers.elsewhere(TOPIC_IDS) == {}, "it is dead"
    tail.is_alive = lambda owner: True
    tail.state.apply("k2k.g", 90, stop_key("k2k.g", 7), stop_value(1, again=False))
    assert peers.elsewhere(TOPIC_IDS) == {}, "it was told to end"


def test_what_the_newest_own_generation_takes_over_is_not_waited_for(tail: Any, peers: Peers) -> None:
    """A lower claim gives way to it, and has not let the partition go for others when it does."""
    peers.draw_generation(ANYBODY)
    peers.draw_generation(ANYBODY)
    claimed(tail, OURS, 7, released=False)
    claimed(tail, OTHER, 8, released=False)
    assert set(peers.elsewhere(TOPIC_IDS, mine={OURS})) == {OTHER}, "the other one was left to that instance"
    claimed(tail, OURS, 11, released=False)
    assert peers.elsewhere(TOPIC_IDS, mine={OURS})[OURS] == "the instance of generation 11"


def test_who_is_leaving(tail: Any, peers: Peers) -> None:
    """Asked to end, and not done with it: neither who was not asked, nor who has released all, nor who is silent."""
    peers.draw_generation(ANYBODY)
    for partition in (OURS, OTHER):
        claimed(tail, partition, 7 + partition.partition, released=False)
    assert not peers.changing
    tail.state.apply("k2k.g", 90, stop_key("k2k.g", 7), stop_value(1, again=False))
    assert peers.changing
    tail.is_alive = lambda owner: False
    assert not peers.changing
    tail.is_alive = lambda owner: True
    claimed(tail, OURS, 7, released=True)
    assert not peers.changing


def test_who_has_a_slot_that_has_released_all_is_leaving(tail: Any, peers: Peers) -> None:
    """A run that has caught up is asked by nobody to end: its slots do, one after the other."""
    peers.draw_generation(ANYBODY)
    of_slots = [Claim("s", n, f"id-{n}", f"claim-{n}", 7, n, "orders") for n in range(2)]
    for claim in of_slots:
        tail.state.apply("k2k.g", 70 + claim.slot, claim.key_bytes("k2k.g"), claim.value_bytes(1))
    assert not peers.changing
    tail.state.apply("k2k.g", 80, of_slots[0].key_bytes("k2k.g"), None)
    assert not peers.changing, "it may have given it up to somebody else"
    tail.state.apply("k2k.g", 81, heartbeat_key("k2k.g", 7, 0), None)
    assert peers.changing
    tail.state.apply("k2k.g", 82, of_slots[1].key_bytes("k2k.g"), None)
    assert not peers.changing, "all are released"


def test_what_may_be_fenced_beforehand(tail: Any, peers: Peers) -> None:
    of = peers._pipeline
    own = [transactional_id(of.name, of.group, number) for number in range(3)]

    def held(number: int, generation: int) -> None:
        claim = Claim("s", 0, own[number], f"claim-{generation}", generation, 0, "orders")
        tail.state.apply(of.group, generation, claim.key_bytes(of.group), claim.value_bytes(1))

    peers.draw_generation(ANYBODY)
    held(2, 4)
    assert peers.left_behind(1) == {own[0]}, "what another one holds that lives"
    tail.is_alive = lambda owner: False
    assert peers.left_behind(1) == {own[0], own[2]}
    held(1, 5)
    assert peers.left_behind(1) == {own[0], own[2]}, "the generation is its own newest one"
    assert peers.dead() == {(4, 0)}
    peers.draw_generation(ANYBODY)
    assert peers.left_behind(1) == {own[0], own[1], own[2]}
    assert peers.dead() == {(4, 0), (5, 0)}
    tail.is_alive = lambda owner: True
    assert peers.left_behind(2) == {own[0], own[1]}
    assert peers.dead() == {(5, 0)}, "what an earlier own generation left, nobody else will release"
    held(0, 10)
    assert peers.left_behind(1) == {own[1]}, "somebody newer uses the first"


def test_newer_continuous_instances_have_taken_over_what_they_have_claimed(tail: Any, peers: Peers) -> None:
    """Also what they have released since, because it is stopped; a run with an end, or an override, is gone soon."""
    peers.draw_generation(ANYBODY)
    for generation, continuous in ((4, True), (7, False), (8, True)):
        record = InstanceRecord(f"i{generation}", "p", 1, "cid", "host", 1, 0, continuous)
        key = instance_key("k2k.g", record.instance)
        tail.state.apply("k2k.g", generation, key, instance_value(record))
    claimed(tail, OURS, 4, released=True)
    claimed(tail, OTHER, 7, released=False)
    assert peers.taken_over(TOPIC_IDS) == {}
    claimed(tail, OURS, 8, released=True)
    assert peers.taken_over(TOPIC_IDS) == {OURS: "pipeline p on host, process 1 (generation 8)"}
    peers.draw_generation(ANYBODY)
    assert peers.taken_over(TOPIC_IDS) == {}
