"""What a slot may fence without waiting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.slot_memory import ClaimHistory
from k2k_assets.replication.slot.start.slot_claims import SlotClaims
from k2k_assets.transport.errors import Fenced
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import GENERATION, slot_plan


@pytest.mark.parametrize("newer", [False, True])
def test_what_it_left_itself_unless_somebody_newer_uses_the_id_by_now(tmp_path: Path, newer: bool) -> None:
    """It would fence that one, which has fenced what was left there already, and is about to say so."""
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"])
    left = Claim("s", 0, transactional_id(pipeline.name, pipeline.group, 0), "left", GENERATION, 0, "t")
    instances = {GENERATION + 1: InstanceRecord("i", pipeline.name, 1, "c", "host", 1, 1)} if newer else {}
    tail: Any = SimpleNamespace(state=Assignments(instances=instances, claims={"left": left}))
    plan = slot_plan(pipeline, {TopicPartition("t", 0): 0})
    transactions: Any = None
    claims = SlotClaims(plan, ClaimHistory(), transactions, tail, "k2k.another")
    assert claims._not_to_be_waited_for([left]) == ([] if newer else [left])


def test_what_the_dead_left_but_not_under_an_id_that_another_slot_of_this_instance_is_about_to_claim(
    tmp_path: Path,
) -> None:
    """Two slots of one instance would fence each other at their start."""
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"])
    ids = [transactional_id(pipeline.name, pipeline.group, number) for number in range(4)]
    left = [Claim("s", 0, id_, f"left-{id_}", 3, 7, "t") for id_ in ids]
    tail: Any = SimpleNamespace(state=Assignments(claims={claim.claim: claim for claim in left}))
    plan = replace(slot_plan(pipeline, {TopicPartition("t", 0): 0}), slot=1, slots=3, dead=frozenset({(3, 7)}))
    transactions: Any = None
    claims = SlotClaims(plan, ClaimHistory(), transactions, tail, ids[1])
    assert [claim.transactional_id for claim in claims._not_to_be_waited_for(left)] == [ids[1], ids[3]]


def test_who_waits_for_a_release_begins_anew_once_its_own_claim_is_gone(tmp_path: Path) -> None:
    """It was fenced meanwhile: what it waits for may never come, because nobody sees that it claims anything."""
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"])
    tp = TopicPartition("t", 0)
    own = Claim("s", 0, "own", "own", GENERATION, 0, "t", offset=2)
    lower = Claim("s", 0, "other", "lower", GENERATION - 1, 0, "t", offset=1)
    state = Assignments(claims={"own": own, "lower": lower})
    tail: Any = SimpleNamespace(state=state, refresh=lambda seconds: state.claims.pop("own"))
    transactions: Any = None
    claims = SlotClaims(slot_plan(pipeline, {tp: 0}), ClaimHistory(), transactions, tail, "own")
    claims._claims = {tp: own}
    with pytest.raises(Fenced, match="the claims of t-0 are gone"):
        claims.settle(lambda: None)
