"""A stopped partition is released once its stop is committed, while its slot goes on with others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.stop_notes import StopNote
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.extent import Continuous
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness, arrivals
from k2k_assets_tests.support.memory.plans import CLUSTER, GENERATION, commit_record

WHY = TransformFailed(P0, 4, "transform[0]", "it is no JSON")
ENDS = {P0: 9, P1: 2}


def stopped(harness: Any, *which: TopicPartition, **rest: Any) -> Harness:
    """A slot that has stopped some partitions, and begins its next session."""
    positions = {P0: commit_record(P0, 4), P1: commit_record(P1, 0)}
    made: Harness = harness(
        arrivals(0, 1, source=P1), ENDS, positions=positions, extent=Continuous(), stop_at=60.0, **rest
    )
    for tp in which:
        made.memory.stopped.stop(tp, WHY)
    return made


def steps(made: Harness) -> list[str]:
    """What each transaction said of P0."""
    found = []
    for transaction in made.sink.transactions:
        found += [f"{r.kind} {r.position}: {r.reason and r.reason.code}" for r in told(made, transaction)]
        for control in transaction.to("claims"):
            key = json.loads(control.key)
            if (key["kind"], key.get("partition")) == ("claim", P0.partition):
                found.append("claim" if control.value is not None else "tombstone")
    return found


def told(made: Harness, transaction: Any) -> list[CommitRecord]:
    return [record for record in made.commits(transaction) if record.source == P0]


def test_it_is_released_behind_its_stop_and_the_other_one_is_copied_on(harness: Any) -> None:
    made = stopped(harness, P0).run()
    assert steps(made) == ["claim", "release 4: transform-failed", "tombstone"]
    released = next(t.at for t in made.sink.transactions if any(c.value is None for c in t.to("claims")))
    assert released - made.began < 10, "long before the slot ends"
    assert made.memory.stopped.released == {P0}
    assert [t.offsets for t in made.copying if t.chunks] == [{P1: [0, 1]}]


def test_the_next_session_does_not_claim_it_again(harness: Any) -> None:
    made = stopped(harness, P0)
    made.memory.stopped.released.add(P0)
    assert steps(made.run()) == []
    assert [t.offsets for t in made.copying if t.chunks] == [{P1: [0, 1]}]


def test_without_a_position_the_stop_is_noted_and_no_position_is_made_up(harness: Any) -> None:
    made: Harness = harness(
        arrivals(0, 1, source=P1), ENDS, positions={P1: commit_record(P1, 0)}, extent=Continuous(), stop_at=60.0
    )
    made.memory.stopped.stop(P0, WHY)
    made.run()
    assert steps(made) == ["claim", "tombstone"]
    (note,) = [note for t in made.sink.transactions for note in made.notes(t).values()]
    assert note is not None
    assert (note.source, note.reason, note.generation) == (P0, WHY, made.plan.generation)
    noted = next(t.at for t in made.sink.transactions if made.notes(t))
    released = next(t.at for t in made.sink.transactions if any(c.value is None for c in t.to("claims")))
    assert noted <= released
    assert made.memory.stopped.released == {P0}
    assert [t.offsets for t in made.copying if t.chunks] == [{P1: [0, 1]}]


def test_the_note_goes_with_the_start_position(harness: Any) -> None:
    made: Harness = harness(arrivals(0, 1), {P0: 2, P1: 0}, positions={P1: commit_record(P1, 0)})
    made.commit_log.noted = {P0: StopNote("k2k.g", CLUSTER, P0, "p", GENERATION - 1, 0, 0, WHY)}
    made.run()
    (start,) = [t for t in made.sink.transactions if made.notes(t)]
    assert made.notes(start) == {P0: None}
    assert [(r.source, r.position) for r in made.commits(start, "start")] == [(P0, 0)]
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [0, 1]}]


def test_nothing_is_noted_of_a_topic_that_was_gone_before_anything_was_copied(harness: Any) -> None:
    """Nobody could put that right, and it would be told for ever."""
    made: Harness = harness(
        arrivals(0, 1, source=P1), ENDS, positions={P1: commit_record(P1, 0)}, extent=Continuous(), stop_at=60.0
    )
    made.memory.stopped.stop(P0, SourceDeleted("t"))
    made.run()
    assert steps(made) == ["claim", "tombstone"]
    assert not any(made.notes(t) for t in made.sink.transactions)


def test_a_slot_with_nothing_else_ends_and_releases_it_then(harness: Any) -> None:
    made = stopped(harness, P0, P1).run()
    assert made.ended is True
    assert steps(made) == ["claim", "release 4: transform-failed", "tombstone"]
    assert made.memory.stopped.released == set()


def test_where_the_release_fails_it_counts_as_claimed_still(harness: Any) -> None:
    made = stopped(harness, P0, fail_at_commit=3)  # claims, stop, release
    with pytest.raises(Restart):
        made.run()
    assert steps(made) == ["claim", "release 4: transform-failed"]
    assert made.memory.stopped.released == set()
