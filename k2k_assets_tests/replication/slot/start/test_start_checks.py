"""Where each partition starts, and when it must not: the commit log against the present source."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.errors import Refused, Superseded
from k2k_assets.core.stops.reason import render
from k2k_assets.core.stops.reasons.source_log import StartOutsideLog
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.stops.reasons.target_topic import TargetRecreated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.start import truncated_targets
from k2k_assets.replication.slot.start.start_checks import Starts, resolve_starts
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.plans import COMMIT_TOPIC_ID, GENERATION, commit_record, slot_plan

NOON = 1_700_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OTHER = TopicPartition("u", 0)


def slot(
    tmp_path: Path,
    *partitions: TopicPartition,
    reset: str | None = None,
    start: object = None,
    mode: str = "disabled",
) -> SlotPlan:
    consumer = {"group.id": "k2k.g", **({"auto.offset.reset": reset} if reset else {})}
    stages = [{"source": {"topic": ["t", "u"], "start": start}}, {"sink": {"topic": "source", "partition": "source"}}]
    features = {"exactlyOnce": mode}
    pipeline = make_pipeline(
        tmp_path, "a:1", "b:1", ["t", "u"], features=features, consumer=consumer, replication=stages
    )
    return slot_plan(pipeline, dict.fromkeys(partitions, 0))


def not_noted(plan: SlotPlan, begins_at: int | None = END_UNKNOWN) -> SlotPlan:
    """A plan whose partitions had no leader when their start was to be noted."""
    return replace(plan, partitions=tuple(replace(each, begins_at=begins_at) for each in plan.partitions))


def resolve(
    plan: SlotPlan,
    log: CommitLog | None = None,
    leave_out: Any = (),
    target_topics: Any = None,
    source_offline: Any = (),
    target_offline: Any = (),
    at_times: dict[tuple[TopicPartition, int], int] | None = None,
    target_ends: dict[TopicPartition, int] | None = None,
    **cluster: Any,
) -> Starts:
    source = FakeCluster(
        **{
            "topics": {"t": ("s-t", 2), "u": ("s-u", 1)},
            "starts": {P0: 40, P1: 50, OTHER: 60},
            "ends": {P0: 140, P1: 150, OTHER: 160},
            "stable": {P0: 130, P1: 150, OTHER: 160},
            **cluster,
        }
    )
    topics = {"t": ("t-t", 2), "u": ("t-u", 1)} if target_topics is None else target_topics
    topics = {plan.pipeline.coordination.commit.topic: (COMMIT_TOPIC_ID, 1), **topics}
    target = FakeCluster(topics, dict.fromkeys(target_ends or (), 0), target_ends, end=10**6)
    source.offline_partitions.update(source_offline)
    source.at_times.update(at_times or {})
    target.offline_partitions.update(target_offline)
    return resolve_starts(plan, leave_out, log or CommitLog(), source, target)  # type: ignore[arg-type]


def offline_partitions(role: str, *partitions: TopicPartition) -> dict[str, Any]:
    return {f"{role}_offline": set(partitions)}


def positions(starts: Starts) -> dict[TopicPartition, int]:
    return {tp: state.committed for tp, state in starts.states.items()}


@pytest.mark.parametrize(("begins_at", "expected"), [(None, 40), (130, 130)])
def test_without_a_trace_as_planned(tmp_path: Path, begins_at: int | None, expected: int) -> None:
    plan = slot(tmp_path, P0)
    partitions = tuple(replace(of_plan, begins_at=begins_at) for of_plan in plan.partitions)
    starts = resolve(replace(plan, partitions=partitions))
    assert positions(starts) == {P0: expected}
    assert starts.fresh == [starts.states[P0]]
    assert not starts.states[P0].moved


def test_given_offsets_count_where_there_is_no_position_alone(tmp_path: Path) -> None:
    plan = slot(tmp_path, P0, P1, OTHER, start={"t": {"0": 77, "1": 60}})
    starts = resolve(plan, CommitLog({P1: commit_record(P1, 55)}))
    assert positions(starts) == {P0: 77, P1: 55, OTHER: 60}
    assert [(state.plan.source, state.began, state.log_start) for state in starts.fresh] == [
        (P0, 77, 40),
        (OTHER, 60, 60),
    ]


def test_given_offsets_count_also_for_a_partition_of_a_topic_that_is_known(tmp_path: Path) -> None:
    """As after a driver that died before all partitions had their start: no position is no position."""
    starts = resolve(slot(tmp_path, P1, start={"t": {"1": 99}}), CommitLog({P0: commit_record(P0, 55)}))
    assert positions(starts) == {P1: 99}


def test_a_given_time_is_asked_of_the_source(tmp_path: Path) -> None:
    plan = not_noted(slot(tmp_path, P0, P1, start="1970-01-01T00:00:01Z"))
    starts = resolve(plan, at_times={(P0, 1000): 88})
    assert positions(starts) == {P0: 88, P1: 150}, "nothing of P1 is as young: it begins where it can be read to"
    assert {state.log_start for state in starts.fresh} == {40, 50}


@pytest.mark.parametrize(("noted", "expected"), [(88, 88), (39, 40), (None, 40)])
def test_a_time_that_the_driver_has_noted_counts_and_not_what_is_there_by_now(
    tmp_path: Path, noted: int | None, expected: int
) -> None:
    """Without a note the partition was added since: its first records may be older than the time."""
    plan = not_noted(slot(tmp_path, P0, start=NOON), noted)
    starts = resolve(plan, at_times={(P0, NOON): 99})
    assert positions(starts) == {P0: expected}
    assert not starts.stopped


@pytest.mark.parametrize("log", [CommitLog(passed_over=True), CommitLog(is_whole=False)], ids=["unreadable", "in part"])
def test_what_may_have_a_position_that_was_not_read_does_not_begin_at_a_time(tmp_path: Path, log: CommitLog) -> None:
    assert positions(resolve(not_noted(slot(tmp_path, P0, start=NOON)), log, at_times={(P0, NOON): 99})) == {P0: 40}


@pytest.mark.parametrize("offset", [39, 141])
def test_a_given_offset_that_the_log_does_not_have_stops_the_topic(tmp_path: Path, offset: int) -> None:
    starts = resolve(slot(tmp_path, P0, OTHER, start={"t": {"0": offset}}))
    assert starts.stopped[P0] == StartOutsideLog(P0, offset, 40, 140)
    assert positions(starts) == {OTHER: 60}
    again = resolve(slot(tmp_path, P0, start={"t": {"0": 40}}))
    assert positions(again) == {P0: 40}


def test_a_partition_without_a_leader_waits_for_its_given_time(tmp_path: Path) -> None:
    plan = not_noted(slot(tmp_path, P0, P1, start=NOON))
    starts = resolve(plan, at_times={(P0, NOON): 44}, source_offline={P1})
    assert positions(starts) == {P0: 44}
    assert starts.offline_partitions.keys() == {P1}


def test_without_a_trace_and_none_configured_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"t-0 has no committed position .*auto.offset.reset"):
        resolve(slot(tmp_path, P0, reset="none"))


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_a_partition_that_was_added_later_starts_at_its_beginning(tmp_path: Path, reset: str) -> None:
    """Its first records were written before anybody looked: `latest` would lose them."""
    plan = replace(slot(tmp_path, P1, reset=reset), known_topics=frozenset({"t"}))
    assert positions(resolve(plan)) == {P1: 50}


def test_a_committed_position_is_taken_up_with_its_epoch_and_target_end(tmp_path: Path) -> None:
    starts = resolve(slot(tmp_path, P0), CommitLog({P0: commit_record(P0, 100)}))
    state = starts.states[P0]
    assert (state.committed, state.next, state.leader_epoch, state.target_end) == (100, 100, 3, 90)
    assert (state.records, state.bytes, state.runs) == (0, 0, 0), "counters are those of the generation"
    assert starts.fresh == []


@pytest.mark.parametrize(("low", "position"), [(40, (95, 3)), (95, (95, 3)), (96, (100, 7))])
def test_the_epoch_is_checked_where_it_holds(tmp_path: Path, low: int, position: tuple[int, int | None]) -> None:
    """Right after the last record: what lies between it and the position are markers, if they are there at all."""
    log = CommitLog({P0: commit_record(P0, 100, epoch_end=95)})
    state = resolve(slot(tmp_path, P0), log, starts={P0: low}, epochs={P0: 7}).states[P0]
    assert (state.committed, state.next) == (100, 100)
    assert (state.reading_from.offset, state.reading_from.leader_epoch) == position


@pytest.mark.parametrize("record", [None, commit_record(P0, 100, leader_epoch=None)])
def test_where_nothing_was_copied_the_newest_epoch_of_the_log_counts(tmp_path: Path, record: Any) -> None:
    log = CommitLog({P0: record} if record else {})
    at = 100 if record else 40
    state = resolve(slot(tmp_path, P0), log, epochs={P0: 7}).states[P0]
    assert (state.reading_from.offset, state.reading_from.leader_epoch) == (at, 7)
    state = resolve(slot(tmp_path, P0), log).states[P0]
    assert (state.reading_from.offset, state.reading_from.leader_epoch) == (at, None)


def test_counters_go_on_within_a_generation(tmp_path: Path) -> None:
    log = CommitLog({P0: commit_record(P0, 100, generation=GENERATION)})
    state = resolve(slot(tmp_path, P0), log).states[P0]
    assert (state.records, state.bytes, state.runs) == (11, 22, 3)


@pytest.mark.parametrize("position", [40, 140])
def test_both_ends_of_the_source_are_inside(tmp_path: Path, position: int) -> None:
    assert not resolve(slot(tmp_path, P0), CommitLog({P0: commit_record(P0, position)})).stopped


@pytest.mark.parametrize(
    ("record", "cluster", "words"),
    [
        (commit_record(P0, 39), {}, "records 39 to 39 were deleted from the source before they were copied"),
        (commit_record(P0, 141), {}, "ends at 140, before position 141: its log was truncated"),
        (commit_record(P0, 100), {"topics": {"u": ("s-u", 1)}}, "the source topic t is gone"),
        (commit_record(P0, 100), {"topics": {"t": ("s-t", 0), "u": ("s-u", 1)}}, "only 0 partitions left"),
        (commit_record(P0, 100), {"topics": {"t": ("s-new", 2), "u": ("s-u", 1)}}, "topic id s-t is now s-new"),
        (commit_record(P0, 100, target_topic_id="t-old"), {}, "topic id t-old is now t-t"),
    ],
)
def test_a_loud_stop_says_what_was_found(tmp_path: Path, record: Any, cluster: Any, words: str) -> None:
    starts = resolve(slot(tmp_path, P0, OTHER), CommitLog({P0: record}), **cluster)
    assert words in render(starts.stopped[P0])
    assert set(starts.stopped) == {P0}
    assert OTHER in starts.states, "the others go on"
    assert "k2k-tool set -f FILE -o t:" in render(starts.stopped[P0]), "what to do"


@pytest.mark.parametrize(
    ("target_topics", "words"),
    [
        ({"u": ("t-u", 1)}, "the target topic t was deleted"),
        ({"t": ("t-new", 2), "u": ("t-u", 1)}, "topic id t-t is now t-new"),
    ],
)
@pytest.mark.parametrize("log", [None, CommitLog({P0: commit_record(P0, 100)})])
def test_a_target_topic_that_is_not_the_planned_one(
    tmp_path: Path, log: CommitLog | None, target_topics: Any, words: str
) -> None:
    starts = resolve(slot(tmp_path, P0, OTHER), log, target_topics=target_topics)
    assert words in render(starts.stopped[P0])
    assert set(starts.states) == {OTHER}


@pytest.mark.parametrize(
    ("former", "words"),
    [
        ({"source_topic_id": "former"}, "created anew"),
        ({"target_topic_id": "former"}, None),
        ({}, None),
    ],
    ids=["source", "target", "none"],
)
def test_a_topic_that_was_created_anew_with_more_partitions_stops_in_all(
    tmp_path: Path, former: dict[str, Any], words: str | None
) -> None:
    """Else those that it did not have before would be copied beside the old records, and again by the remedy."""
    starts = resolve(slot(tmp_path, P0, P1), CommitLog({P0: commit_record(P0, 100, **former)}))
    assert (P1 in starts.stopped) == (words is not None)
    if words:
        assert f"{words} (topic id former is now s-t), so nothing of it is copied yet" in render(starts.stopped[P1])
        assert starts.stopped.keys() == {P0, P1}


def test_once_one_of_its_partitions_was_accepted_the_others_begin(tmp_path: Path) -> None:
    log = CommitLog({P0: commit_record(P0, 100, source_topic_id="former"), OTHER: commit_record(OTHER, 100)})
    assert resolve(slot(tmp_path, P1), log).stopped
    p9 = TopicPartition("t", 9)
    log.positions[p9] = commit_record(p9, 100)
    assert not resolve(slot(tmp_path, P1), log).stopped


def test_a_topic_that_was_created_anew_after_the_plan_was_made(tmp_path: Path) -> None:
    starts = resolve(slot(tmp_path, P0), topics={"t": ("s-new", 2)})
    assert "topic id s-t is now s-new" in render(starts.stopped[P0])


def test_unreadable_positions_and_partitions_that_were_stopped_are_left_out(tmp_path: Path) -> None:
    log = CommitLog({}, {P1: "commits-0@9 is not JSON"})
    starts = resolve(slot(tmp_path, P0, P1, OTHER), log, leave_out={P0})
    assert {tp: render(reason) for tp, reason in starts.stopped.items()} == {
        P1: "[position-unreadable] commits-0@9 is not JSON. To go on without it: k2k-tool set -f FILE -o t:1:OFFSET"
    }
    assert positions(starts) == {OTHER: 60}


def test_after_the_routing_changed_the_old_topics_end_means_nothing(tmp_path: Path) -> None:
    """Taken up, it would look as if the new topic had been truncated."""
    log = CommitLog({P0: commit_record(P0, 100, target_topic="old", target_topic_id="t-old")})
    state = resolve(slot(tmp_path, P0), log).states[P0]
    assert (state.committed, state.target_end) == (100, None)


@pytest.mark.parametrize("role", ["source", "target"])
def test_a_partition_without_a_leader_is_left_out_with_its_reason(tmp_path: Path, role: str) -> None:
    starts = resolve(slot(tmp_path, P0, P1), **offline_partitions(role, P1))
    assert positions(starts) == {P0: 40}
    assert [state.plan.source for state in starts.fresh] == [P0]
    assert starts.offline_partitions.keys() == {P1}
    assert "no leader that answers for t-1" in starts.offline_partitions[P1]
    assert not starts.stopped


@pytest.mark.parametrize("role", ["source", "target"])
def test_all_partitions_without_a_leader_are_left_out(tmp_path: Path, role: str) -> None:
    starts = resolve(slot(tmp_path, P0, P1), **offline_partitions(role, P0, P1))
    assert starts.offline_partitions.keys() == {P0, P1}
    assert not starts.states
    assert not starts.stopped


def test_any_target_partition_without_a_leader_holds_up_records_that_go_to_all(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t", "u"], partition="producer")
    plan = slot_plan(pipeline, dict.fromkeys([P0, OTHER], 0))
    assert resolve(plan, target_offline={P1}).offline_partitions.keys() == {P0}


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize(
    ("end", "extent", "left_out"),
    [
        (100, UntilCaughtUp(), set()),
        (101, UntilCaughtUp(), {P1}),
        (END_UNKNOWN, UntilCaughtUp(), {P1}),
        (100, Window(timedelta(hours=1), timedelta(seconds=5)), {P1}),
        (100, Continuous(), {P1}),
    ],
)
def test_one_that_has_come_to_its_end_needs_no_leader(
    tmp_path: Path, role: str, end: int, extent: Extent, left_out: set[TopicPartition]
) -> None:
    plan = slot(tmp_path, P0, P1)
    partitions = (plan.partitions[0], replace(plan.partitions[1], readable_end=end))
    plan = replace(plan, partitions=partitions, extent=extent)
    starts = resolve(plan, CommitLog({P1: commit_record(P1, 100)}), **offline_partitions(role, P1))
    assert starts.offline_partitions.keys() == left_out
    assert starts.states.keys() == {P0}
    assert not starts.stopped


def test_the_end_of_a_partition_that_had_no_leader_is_where_it_ends_now(tmp_path: Path) -> None:
    plan = slot(tmp_path, P0, P1)
    first, second = plan.partitions
    plan = replace(plan, partitions=(replace(first, readable_end=END_UNKNOWN), second))
    assert {tp: state.plan.readable_end for tp, state in resolve(plan).states.items()} == {
        P0: 130,
        P1: second.readable_end,
    }


def test_one_that_had_no_leader_at_the_first_start_begins_at_its_end(tmp_path: Path) -> None:
    plan = slot(tmp_path, P0, reset="latest")
    first = replace(plan.partitions[0], begins_at=END_UNKNOWN, readable_end=END_UNKNOWN)
    starts = resolve(replace(plan, partitions=(first,)))
    assert positions(starts) == {P0: 130}
    assert [state.plan.source for state in starts.fresh] == [P0]


@pytest.mark.parametrize("log", [CommitLog(passed_over=True), CommitLog(is_whole=False)], ids=["unreadable", "in part"])
def test_one_that_may_have_a_position_that_was_not_read_begins_at_its_beginning(tmp_path: Path, log: CommitLog) -> None:
    """Its first start is noted until all partitions have positions: by now it may have been copied up to anywhere."""
    plan = slot(tmp_path, P0, reset="latest")
    first = replace(plan.partitions[0], begins_at=END_UNKNOWN, readable_end=END_UNKNOWN)
    assert positions(resolve(replace(plan, partitions=(first,)), log)) == {P0: 40}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_plan_of_a_topic_that_was_created_anew_and_accepted_since_is_not_followed(tmp_path: Path, side: str) -> None:
    """What is there is what the position is of, and not what was planned: copying it would stop it."""
    plan = slot(tmp_path, P0)
    changed: dict[str, Any] = {f"{side}_topic_id": "of the former one"}
    former = replace(plan.partitions[0], **changed)
    with pytest.raises(Superseded, match="topic t was created anew, and accepted by k2k-tool, since this"):
        resolve(replace(plan, partitions=(former,)), CommitLog({P0: commit_record(P0, 100)}))


@pytest.mark.parametrize(("end", "mode", "cut"), [(90, "enabled", None), (89, "enabled", 80), (89, "disabled", 89)])
def test_a_target_that_ends_before_its_copies_was_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int, mode: str, cut: int | None
) -> None:
    """What lies behind the last committed record was tried since the target lost its copies."""
    monkeypatch.setattr(truncated_targets, "ends_of_committed", lambda target, properties, ends: {P0: ends[P0] - 9})
    log = CommitLog({P0: commit_record(P0, 100)})
    starts = resolve(slot(tmp_path, P0, P1, mode=mode), log, target_ends={P0: end})
    assert starts.stopped == ({} if cut is None else {P0: TargetTruncated(P0, P0, 90, cut)})
    assert set(starts.states) == ({P0, P1} if cut is None else {P1})


@pytest.mark.parametrize(
    ("end", "committed", "aborted", "cut"),
    [(91, 40, 50, None), (92, 90, 0, None), (150, 40, 50, 40), (150, 40, 0, None), (150, 90, 50, None)],
)
def test_a_session_that_could_not_note_that_copies_are_lost_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int, committed: int, aborted: int, cut: int | None
) -> None:
    """What it tried lies where the copies were. Where nothing lies there, retention or compaction has deleted them."""
    monkeypatch.setattr(truncated_targets, "ends_of_committed", lambda *_: {P0: committed})
    monkeypatch.setattr(truncated_targets, "count_records", lambda *_, **__: aborted)
    log = CommitLog({P0: commit_record(P0, 100)})
    starts = resolve(slot(tmp_path, P0, mode="enabled"), log, target_ends={P0: end})
    assert starts.stopped == ({} if cut is None else {P0: TargetTruncated(P0, P0, 90, cut)})
    accepted = CommitLog({P0: replace(commit_record(P0, 100), target_accepted=90)})
    assert resolve(slot(tmp_path, P0, mode="enabled"), accepted, target_ends={P0: end}).stopped == {}


def test_copies_that_are_lost_stay_so_whatever_else_happens(tmp_path: Path) -> None:
    lost = TargetTruncated(P0, P0, 90, 40)
    log = CommitLog({P0: replace(commit_record(P0, 100), reason=lost)})
    changes: list[dict[str, Any]] = [{"topics": {}}, {"topics": {"t": ("another", 2)}}, {"target_topics": {}}]
    for changed in changes:
        assert resolve(slot(tmp_path, P0), log, **changed).stopped == {P0: lost}
    recreated = resolve(slot(tmp_path, P0), log, target_topics={"t": ("another", 2)}).stopped[P0]
    assert isinstance(recreated, TargetRecreated), "another topic has never had them"


def test_the_target_end_of_a_time_when_nobody_else_wrote_means_nothing(tmp_path: Path) -> None:
    log = CommitLog({P0: commit_record(P0, 100)})
    assert resolve(slot(tmp_path, P0), log).states[P0].target_end is not None
    assert resolve(replace(slot(tmp_path, P0), one_to_one=False), log).states[P0].target_end is None
