"""Errors that end a session early, and its signs of life."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.replication.extent import Continuous, Window
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, P1, TOPICS, arrivals, pipeline_with
from k2k_assets_tests.support.memory.fake_transport import Arrival
from k2k_assets_tests.support.memory.plans import commit_record

COMMITS = {name: found for name, found in TOPICS["t"].items() if name == "commits"}


def test_an_offset_below_the_expected_one_is_never_copied(harness: Any) -> None:
    made = harness(arrivals(5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)}, extent=Continuous())
    made.session.start()
    made.source._waiting.append(Arrival(made.began + 1, P0, 6))
    with pytest.raises(SourceStopped, match="truncated at 6, below position 7"):
        made.session.copy()
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [5, 6]}]


def test_a_failed_commit_leaves_the_session_and_nothing_is_taken_from_its_memory(harness: Any) -> None:
    made = harness(arrivals(*range(25)), {P0: 25}, fail_at_commit=4)  # claim, start, ten records, ten records
    with pytest.raises(Restart):
        made.run()
    assert [t.offsets for t in made.copying] == [{P0: list(range(10))}]
    assert made.sink.steps[-1] == "commit"


@pytest.mark.parametrize(
    ("side", "topics", "words"),
    [
        (0, {"t": ("s-new", 2)}, r"the source topic t was deleted and created anew .*\(topic id s-t is now s-new\)"),
        (0, {}, "the source topic t was deleted while it was copied"),
        (
            1,
            COMMITS | {"t": ("t-new", 2)},
            r"the target topic t was deleted and created anew .*\(topic id t-t is now t-new\)",
        ),
        (1, COMMITS, "the target topic t was deleted while it was copied"),
    ],
)
def test_topic_ids_are_asked_in_each_transaction_and_a_changed_one_is_not_committed(
    harness: Any, side: int, topics: dict[str, tuple[str, int]], words: str
) -> None:
    made = harness(arrivals(5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)})
    made.session.start()
    made.clusters[side].topics = topics
    with pytest.raises(SourceStopped, match=words):
        made.session.copy()
    assert made.copying == []


@pytest.mark.parametrize(
    ("commit_topic", "words"),
    [
        (
            {"commits": ("another", 1)},
            r"was deleted and created anew since .* \(topic id commit-topic is now another\)",
        ),
        ({}, r"was deleted while group k2k.g used it \(topic id commit-topic\)"),
    ],
)
@pytest.mark.parametrize("idle", [False, True])
def test_a_commit_topic_that_is_lost_ends_the_slot(
    harness: Any, idle: bool, commit_topic: dict[str, tuple[str, int]], words: str
) -> None:
    """The positions of what has nothing to commit were lost with it, and would be copied from the start again."""
    made = harness([] if idle else arrivals(5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)}, extent=Continuous())
    made.session.start()
    made.clusters[1].topics = {"t": ("t-t", 2), **commit_topic}
    with pytest.raises(Refused, match=words):
        made.session.copy()
    assert made.copying == []


def test_a_higher_claim_ends_it_within_a_look_with_all_that_is_in_hand_committed(harness: Any) -> None:
    records = [Arrival(i / 10, P0, i) for i in range(100)]
    made = harness(records, {P0: 100, P1: 0}, newer_at=3.0, newer_of=[P0], extent=Continuous()).run()
    assert made.ended is False
    assert 3.0 <= made.clock.now - made.began < 3.5
    last, given_up = made.sink.transactions[-2:]
    assert [(r.source, r.kind, r.position) for r in made.commits(last)] == [(P0, "release", len(made.times()))]
    claims = {json.loads(c.key)["partition"]: c.key for c in made.sink.transactions[0].to("claims")}
    assert [(c.key, c.value) for c in given_up.to("claims")] == [(claims[0], None)]
    assert set(made.memory.claims.superseded_by) == {P0}


def test_an_idle_slot_shows_that_it_is_alive_three_times_in_a_grace_window(harness: Any) -> None:
    made = harness([], {P0: 0}, extent=Window(HOUR, timedelta(seconds=31))).run()
    heartbeats = [t.at - made.began for t in made.sink.transactions if t.controls and b'"beat"' in t.controls[0].key]
    assert heartbeats == pytest.approx([5.0, 10.0, 15.0, 20.0, 25.0, 30.0], abs=1.0)


def test_a_heartbeat_waits_for_no_open_transaction(harness: Any, tmp_path: Path) -> None:
    """One that stays open for longer is closed for it: a heartbeat is visible at once, and holds no reader up."""
    records = [Arrival(i / 100, P0, i) for i in range(900)]
    slow = pipeline_with(tmp_path, 100_000, seconds=14)
    made = harness(records, {P0: 900}, poll_seconds=0.005, pipeline=slow)
    made.session._committer._pace.due = lambda _: math.inf
    made.run()
    first = made.sink.transactions[2]
    assert first.chunks
    assert first.at - made.began == pytest.approx(5.0, abs=0.3)
    assert b'"beat"' in made.sink.transactions[3].controls[0].key
