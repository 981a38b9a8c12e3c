"""What a slot may fence without waiting."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.replication.assignment.holding import Holding
from k2k_assets.replication.assignment.records import Claim, Instance
from k2k_assets.replication.assignment.state import Assignments
from k2k_assets.replication.plan import transactional_id
from k2k_assets.replication.transactions import SlotMemory
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.plans import GENERATION, slot_plan


@pytest.mark.parametrize("newer", [False, True])
def test_what_it_left_itself_unless_somebody_newer_uses_the_id_by_now(tmp_path: Path, newer: bool) -> None:
    """It would fence that one, which has fenced what was left there already, and is about to say so."""
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"])
    left = Claim("s", 0, transactional_id(pipeline.name, pipeline.group, 0), "left", GENERATION, 0, "t")
    instances = {GENERATION + 1: Instance("i", pipeline.name, 1, "c", "host", 1, 1)} if newer else {}
    tail: Any = SimpleNamespace(state=Assignments(instances, claims={"left": left}))
    plan = slot_plan(pipeline, {TopicPartition("t", 0): 0})
    transactions: Any = None
    holding = Holding(plan, SlotMemory(started=0.0), transactions, tail, "k2k.another")
    assert holding._not_to_be_waited_for([left]) == ([] if newer else [left])
