"""Claims first, then positions, then copying."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_record import EVERYWHERE, CommitRecord, Kind, Overridden
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.errors import Refused, Superseded
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.stops.reasons.target_log import ForeignRecords
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.error_handling import Policy
from k2k_assets.replication.slot import session
from k2k_assets.replication.slot.commit import partition_state
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Position
from k2k_assets_tests.replication.slot.session.harness import P0, P1, U0, Harness, arrivals, pipeline_with
from k2k_assets_tests.support.memory.plans import GENERATION, commit_record, slot_plan


def test_claim_then_start_positions_then_copying(harness: Any) -> None:
    made = harness(arrivals(5, 6), {P0: 7, P1: 3}, starts={P0: 5, P1: 3}).run()
    claim, start, *rest = made.sink.transactions

    assert [json.loads(c.key)["kind"] for c in claim.controls] == ["claim", "claim"]
    assert not claim.chunks
    assert {r.source: (r.kind, r.position, r.sequence) for r in made.commits(start)} == {
        P0: ("start", 5, 1),
        P1: ("start", 3, 1),
    }
    assert not start.chunks
    assert made.mappings(start) == []
    assert made.sink.steps[0] == "open"
    assert [t.offsets for t in rest if t.chunks] == [{P0: [5, 6]}]


def test_a_known_position_is_not_started_again(harness: Any) -> None:
    made = harness(arrivals(4, 5, 6), {P0: 7}, positions={P0: commit_record(P0, 5)}).run()
    assert made.source.assigned == {P0: Position(5, 3)}
    assert not any(made.commits(t, "start") for t in made.sink.transactions)
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [5, 6]}]


def test_a_stop_that_was_put_right_goes_with_the_start(harness: Any) -> None:
    """Also where no record comes for long: by a permission, say, which is no command of ours."""
    stopped = replace(commit_record(P0, 5), reason=SourceDeleted("t"))
    made = harness([], {P0: 5}, positions={P0: stopped}).run()
    (start,) = (r for t in made.sink.transactions for r in made.commits(t, "start"))
    assert (start.position, start.reason) == (5, None)


def test_an_end_that_was_noted_before_others_fed_the_target_too_is_taken_back_at_once(harness: Any) -> None:
    """Even if nothing is copied meanwhile: alone again it would be expected, and others have written since."""
    made = harness([], {P0: 5}, positions={P0: commit_record(P0, 5)}, one_to_one=False).run()
    (start,) = (r for t in made.sink.transactions for r in made.commits(t, "start"))
    assert (start.position, start.target_end) == (5, None)


def test_what_was_stopped_is_left_out_and_released_with_its_reason_where_it_is(harness: Any) -> None:
    made = harness(
        arrivals(5, source=P1), {P0: 7, P1: 6}, positions={P0: commit_record(P0, 5), P1: commit_record(P1, 5)}
    )
    reason = SourceDeleted("t")
    made.memory.stopped.stop(P0, reason)
    made.run()
    released = [r for t in made.sink.transactions for r in made.commits(t) if r.source == P0]
    assert [(r.kind, r.position, r.reason) for r in released] == [("release", 5, reason)]
    assert set(made.source.assigned) == {P1}


def test_what_others_copy_already_is_left_to_them_and_no_id_is_claimed_away_from_them(harness: Any) -> None:
    made = harness(arrivals(1), {P0: 2}, newer_at=0.0).run()
    assert made.sink.steps == []
    assert set(made.memory.claims.superseded_by) == {P0}


def test_a_higher_claim_that_came_with_the_own_one_is_seen_before_a_position_is_read(harness: Any) -> None:
    made = harness(arrivals(1) + arrivals(5, source=P1), {P0: 2, P1: 6}, newer_at=0.5, newer_of=[P0])
    made.sink.open = lambda: made.clock.advance(0.4)
    catch_up = made.tail.catch_up
    made.tail.catch_up = lambda: (made.clock.advance(0.05), catch_up())[1]
    begin = made.sink.begin
    made.sink.begin = lambda: (made.clock.advance(0.1), begin())[1]
    made.run()
    assert set(made.memory.claims.superseded_by) == {P0}
    assert set(made.source.assigned) == {P1}
    claims, given_up = (t.to("claims") for t in made.sink.transactions[:2])
    assert len(claims) == 2
    assert [(c.key, c.value) for c in given_up] == [(claims[0].key, None)]


def test_a_claim_whose_commit_failed_is_known_as_an_own_one(harness: Any) -> None:
    """It may lie in the topic all the same: taken for that of another attempt, it would end the slot."""
    made = harness(arrivals(1), {P0: 2, P1: 0}, fail_at_commit=1)
    with pytest.raises(Restart):
        made.run()
    assert len(made.memory.claims.written) == 2


def test_an_instance_that_was_superseded_by_one_that_is_gone_already_copies_nothing(harness: Any) -> None:
    """Its commit records would count for nothing."""
    made = harness(arrivals(5), {P0: 6}, positions={P0: commit_record(P0, 5, generation=GENERATION + 1)})
    with pytest.raises(Superseded, match="t-0 was copied by the instance of generation 18 meanwhile; this one is"):
        made.run()
    assert made.copying == []
    assert_claims_released(made)


def test_a_slot_that_was_asked_to_stop_does_not_start(harness: Any) -> None:
    made = harness(arrivals(1), {P0: 2}, stop_at=0.0)
    assert made.session.start() is False
    assert made.sink.steps == []


def test_a_slot_that_was_asked_to_stop_stays_so_though_the_record_is_removed(harness: Any) -> None:
    """Somebody announces himself while this slot holds no claims, between two sessions."""
    made = harness(arrivals(1), {P0: 2}, stop_at=0.0)
    assert made.session.start() is False
    made.tail.stop_at = inf
    assert made.session.start() is False
    assert made.sink.steps == []


def test_a_slot_that_cannot_go_on_before_it_has_begun_releases_what_it_has_claimed(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = harness(arrivals(1), {P0: 2, P1: 0})

    def refuse(*_: object, **__: object) -> None:
        raise Refused("this cannot be read")

    monkeypatch.setattr(session, "read_commit_log", refuse)
    with pytest.raises(Refused, match="this cannot be read"):
        made.run()
    assert_claims_released(made)


def test_where_that_fails_too_the_reason_is_still_told(harness: Any) -> None:
    newer = commit_record(P0, 5, generation=GENERATION + 1)
    made = harness(arrivals(5), {P0: 6}, positions={P0: newer}, fail_at_commit=2)
    with pytest.raises(Superseded):
        made.run()


def assert_claims_released(made: Harness) -> None:
    claims, released = (t.to("claims") for t in made.sink.transactions)
    assert [(c.key, c.value) for c in released if b'"claim"' in c.key] == [(c.key, None) for c in claims]


@pytest.mark.parametrize(
    ("mode", "kind", "noted", "written"),
    [
        ("disabled", "release", True, ["start"]),
        ("disabled", "commit", True, []),
        ("disabled", "commit", False, ["start"]),
        ("enabled", "release", False, []),
        ("enabled", "commit", True, []),
    ],
)
def test_outside_transactions_the_newest_record_tells_that_somebody_copies(
    harness: Any, tmp_path: Path, mode: str, kind: str, noted: bool, written: list[str]
) -> None:
    """Else whoever comes after one that has sent, and has committed nothing yet, takes what comes late for a foe's.

    And a mapper takes all copies for mapped, where the partition was copied exactly once before.
    """
    known = {P0: commit_record(P0, 5, kind=kind, at_least_once=noted)}
    made = harness([], {P0: 5}, positions=known, pipeline=pipeline_with(tmp_path, exactlyOnce=mode)).run()
    of_start = [t for t in made.sink.transactions if made.commits(t)][:-1]
    assert [(r.kind, r.position) for t in of_start for r in made.commits(t)] == [(k, 5) for k in written]
    assert {r.at_least_once for t in made.sink.transactions for r in made.commits(t)} == {mode == "disabled"}


@pytest.mark.parametrize(
    ("mode", "noted", "below"),
    [
        ("enabled", {"at_least_once": True}, 5),
        ("enabled", {"at_least_once_below": 2}, 2),
        ("enabled", {"at_least_once_below": 0}, 0),
        ("enabled", {"at_least_once": True, "target_topic_id": "former"}, None),
        ("enabled", {"at_least_once_below": 2, "target_topic_id": "former"}, None),
        ("enabled", {}, None),
        ("disabled", {"at_least_once": True}, None),  # it is so still
        ("disabled", {"at_least_once_below": 2}, None),
    ],
)
def test_that_copies_were_made_at_least_once_stays_known(
    tmp_path: Path, mode: str, noted: dict[str, Any], below: int | None
) -> None:
    """Of a run that died, copies lie on the target that nobody maps, for good: before those from this position on."""
    slot = slot_plan(pipeline_with(tmp_path, exactlyOnce=mode), {P0: 9})
    newest = commit_record(P0, 5, **noted)
    for sequence in (1, 2):
        state = PartitionState.of(slot, slot.partitions[0], newest)
        state.next += 3
        newest = partition_state.commit_record(slot, state, "commit", sequence, 7)
        assert (newest.at_least_once, newest.at_least_once_below) == (mode == "disabled", below)
    assert newest.repeats_below == (EVERYWHERE if mode == "disabled" else below)
    stopped = partition_state.stopped_record(slot, newest, 3, 7, SourceDeleted("t"))
    assert stopped.repeats_below == newest.repeats_below


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize(
    ("noted", "stays"),
    [
        ({"kind": "commit"}, True),
        ({"kind": "commit", "at_least_once": True}, True),  # one that died has mapped no more than it committed
        ({"kind": "start", "generation": GENERATION}, True),
        ({"forward_since": None}, False),  # an older release did not note it
        ({"forward_since": GENERATION + 1}, False),
        ({"target_topic": "before", "target_topic_id": "t-before"}, False),
        ({"target_topic_id": "former"}, False),
        ({"spread": True}, False),
    ],
)
def test_since_which_generation_a_partition_was_copied_only_forwards_stays_known(
    tmp_path: Path, mode: str, noted: dict[str, Any], stays: bool
) -> None:
    """Also in the stop of one that has copied nothing, and in the mapping records."""
    slot = slot_plan(pipeline_with(tmp_path, exactlyOnce=mode), {P0: 9})
    newest = commit_record(P0, 5, **{"forward_since": 1, **noted})
    state = PartitionState.of(slot, slot.partitions[0], newest)
    since = 1 if stays else noted.get("forward_since") or GENERATION
    kinds: list[Kind] = ["start", "commit", "release"]
    for sequence, kind in enumerate(kinds):
        state.next += 3
        mapped = partition_state.mapping_record(slot, state, {}, sequence, 7, follows_on=True)
        assert MappingRecord.parse(mapped.key_bytes(), mapped.value_bytes()).only_forward_since == since
        written = partition_state.commit_record(slot, state, kind, sequence, 7)
        assert CommitRecord.parse(written.key_bytes(), written.value_bytes(), "here").forward_since == since
    stopped = partition_state.stopped_record(slot, newest, 3, 7, SourceDeleted("t"))
    state = PartitionState.of(slot, slot.partitions[0], stopped)
    assert partition_state.commit_record(slot, state, "start", 4, 7).forward_since == since


def test_a_partition_that_nobody_has_copied_is_copied_forwards_from_now_on(harness: Any) -> None:
    made = harness([], {P0: 0}).run()
    assert {r.forward_since for t in made.sink.transactions for r in made.commits(t)} == {GENERATION}


@pytest.mark.parametrize(
    ("policy", "alone", "below"), [(None, True, 2), ("fail", True, 2), ("ignore", True, 8), (None, False, 8)]
)
def test_where_records_of_others_are_ignored_copies_at_least_once_may_come_late(
    tmp_path: Path, policy: Policy | None, alone: bool, below: int
) -> None:
    """A writer that was frozen before the change may wake up after it: nothing tells what it sends from others'."""
    pipeline = pipeline_with(tmp_path)
    handling = pipeline.error_handling.model_copy(update={"on_foreign_writer": policy})
    slot = slot_plan(pipeline.model_copy(update={"error_handling": handling}), {P0: 9}, one_to_one=alone)
    state = PartitionState.of(slot, slot.partitions[0], commit_record(P0, 5, at_least_once_below=2))
    state.next += 3
    assert partition_state.commit_record(slot, state, "commit", 1, 7).at_least_once_below == below


@pytest.mark.parametrize(("source", "below", "noted"), [(P0, 2, 5), (P1, 2, 2), (P0, None, None)])
def test_what_others_wrote_may_be_late_copies_at_least_once(
    tmp_path: Path, source: TopicPartition, below: int | None, noted: int | None
) -> None:
    """Until somebody accepts it, groups that have read it may read it again."""
    slot = slot_plan(pipeline_with(tmp_path), {P0: 9})
    newest = commit_record(P0, 5, at_least_once_below=below)
    reason = ForeignRecords(source, TopicPartition("copy", 0), 3, 6, 9)
    assert partition_state.stopped_record(slot, newest, 3, 7, reason).at_least_once_below == noted


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_that_somebody_went_back_to_the_beginning_is_known_until_the_copy_goes_on(
    harness: Any, tmp_path: Path, mode: str
) -> None:
    """Else nothing tells any more that there are copies in the target topic, which may have another marker."""
    went_back = Overridden("anna", None, 90, "s-t", "t-t", None)
    known = {tp: commit_record(tp, 5, kind="override", began=5, overridden=went_back) for tp in (P0, P1, U0)}
    made = harness(
        arrivals(5, source=P1),
        {P0: 5, P1: 6, U0: 3},
        positions=known,
        pipeline=pipeline_with(tmp_path, exactlyOnce=mode),
    ).run()
    written: dict[TopicPartition, list[tuple[str, Overridden | None]]] = {P0: [], P1: [], U0: []}
    for record in (record for transaction in made.sink.transactions for record in made.commits(transaction)):
        written[record.source].append((record.kind, record.overridden))
    start = [("start", went_back)] if mode == "disabled" else []
    assert written == {
        P0: [*start, ("release", went_back)],
        P1: [*start, ("commit", None), ("release", None)],
        U0: [("release", went_back)],  # stopped
    }


def test_raised_epochs_are_committed_before_the_first_record_and_with_each_position(
    harness: Any, tmp_path: Path
) -> None:
    """Also after a crash, of a partition that nobody has released: its owner may have used the last epoch."""
    known = {P0: commit_record(P0, 5, producer=ProducerIdentity(7, 3)), P1: commit_record(P1, 5, kind="release")}
    made = harness(
        arrivals(5, 6) + arrivals(5, source=P1),
        {P0: 7, P1: 6},
        positions=known,
        pipeline=pipeline_with(tmp_path, exactlyOnce="disabled"),
        raises=True,
    ).run()
    _, start, *rest = made.sink.transactions
    raised = {P0: ProducerIdentity(7, 4), P1: ProducerIdentity(1, 0)}
    assert {r.source: (r.kind, r.position, r.producer) for r in made.commits(start)} == {
        tp: ("start", 5, producer) for tp, producer in raised.items()
    }
    assert not start.chunks
    later = [record for transaction in rest for record in made.commits(transaction)]
    assert {(record.source, record.producer) for record in later} == set(raised.items())


def test_a_producer_stays_known_while_others_write(harness: Any, tmp_path: Path) -> None:
    known = ProducerIdentity(7, 3)
    for mode in ("enabled", "disabled"):
        made = harness(
            arrivals(5), {P0: 6}, positions={P0: commit_record(P0, 5, producer=known)},
            pipeline=pipeline_with(tmp_path, exactlyOnce=mode),
        ).run()  # fmt: skip
        assert [record.producer for t in made.copying for record in made.commits(t)] == [known] * 2


@pytest.mark.parametrize(
    ("position", "unread", "since"),
    [
        (5, {}, 1),
        (5, {"is_whole": False}, GENERATION + 1),
        (5, {"passed_over": True}, GENERATION + 1),
        (5, {"incomplete": True}, 1),
        (None, {}, GENERATION),
        (None, {"is_whole": False}, GENERATION + 1),
        (None, {"incomplete": True}, GENERATION + 1),
    ],
)
def test_where_records_were_not_read_the_copy_may_have_gone_back(
    harness: Any, tmp_path: Path, position: int | None, unread: dict[str, bool], since: int
) -> None:
    """An earlier session of the same instance, too, may have copied farther."""
    positions = {} if position is None else {P0: commit_record(P0, position, forward_since=1)}
    made = harness(arrivals(5), {P0: 6}, positions=positions, pipeline=pipeline_with(tmp_path, exactlyOnce="disabled"))
    for name, value in unread.items():
        setattr(made.commit_log, name, value)
    made.run()
    found = {record.forward_since for transaction in made.sink.transactions for record in made.commits(transaction)}
    assert found == {since}


@pytest.mark.parametrize(("is_whole", "since"), [(True, 1), (False, GENERATION + 1)])
def test_a_stop_says_too_that_records_were_not_read(harness: Any, is_whole: bool, since: int) -> None:
    made = harness([], {P0: 5, P1: 5}, positions={P0: commit_record(P0, 5, forward_since=1)})
    made.commit_log.is_whole = is_whole
    made.memory.stopped.stop(P0, SourceDeleted("t"))
    made.run()
    found = [r for t in made.sink.transactions for r in made.commits(t) if r.source == P0]
    assert [(r.kind, r.forward_since) for r in found] == [("release", since)]


@pytest.mark.parametrize("unread", [{"is_whole": False}, {"passed_over": True}])
def test_no_epoch_is_raised_that_a_record_may_have_raised_that_was_not_read(
    harness: Any, tmp_path: Path, unread: dict[str, bool]
) -> None:
    """Two owners of one epoch would lose records."""
    made = harness(
        arrivals(5), {P0: 6}, positions={P0: commit_record(P0, 5, producer=ProducerIdentity(7, 3))},
        pipeline=pipeline_with(tmp_path, exactlyOnce="disabled"), raises=True,
    )  # fmt: skip
    for name, value in unread.items():
        setattr(made.commit_log, name, value)
    made.run()
    found = {record.producer for transaction in made.sink.transactions for record in made.commits(transaction)}
    assert found == {ProducerIdentity(0, 0)}


def test_a_slot_writes_heartbeats_while_the_source_does_not_answer(harness: Any) -> None:
    """Else two instances take over from each other for ever: neither gets as far as to copy within the grace window."""
    made = harness(arrivals(0), {P0: 1})
    made.source.silent_seconds = 30
    made.run()
    assert made.ended
    beats = [t.at for t in made.sink.transactions if not made.copying or t.at <= made.copying[0].at]
    assert max(later - before for before, later in pairwise(beats)) <= 15 / 3 + 1


def test_a_slot_that_is_asked_to_stop_while_the_source_does_not_answer_releases_what_it_has_claimed(
    harness: Any,
) -> None:
    made = harness(arrivals(0), {P0: 1}, positions={P0: commit_record(P0, 0)}, stop_at=10.0)
    made.source.silent_seconds = 30
    assert made.session.start() is False
    assert made.clock.now - made.began < 15
    assert b'"claim"' in made.sink.transactions[-1].controls[0].key
    assert made.sink.transactions[-1].controls[0].value is None
