"""What an override may do, what needs another option, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceDiverged, SourceTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import PartitionMapping, fold
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets.overrides.decide import (
    Override,
    PartitionFacts,
    decide_override,
    describe_override,
)
from k2k_assets.overrides.records import commit_record, mapping_record
from k2k_assets.overrides.request import Request, Wanted, Where
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.verification.coverage import CoveredRow, check_coverage
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory import plans

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STOPPED = RecordsDeleted(P0, 20, 40)


def facts(position: int | None = 100, **changed: Any) -> PartitionFacts:
    """Position 100 in a source that holds 40 to 140, and can be read up to 130."""
    record = None if position is None else plans.commit_record(P0, position, began=50, reason=STOPPED)
    given: dict[str, Any] = {
        "source": P0, "record": record, "unreadable": None, "source_topic_id": "s-t", "target_topic": "t",
        "target_topic_id": "t-t", "start": 40, "readable": 130, "end": 140, "target_end": 95, **changed,
    }  # fmt: skip
    return PartitionFacts(**given)


def request(**accepted: Any) -> Request:
    return Request((Wanted("t", 0, "current"),), "somebody@here", "a test", **accepted)


def records(
    tmp_path: Path, one: Override, features: Mapping[str, str] | None = None, **accepted: Any
) -> tuple[CommitRecord, MappingRecord | None]:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features=features)
    given = (one, pipeline, plans.CLUSTER, request(**accepted), plans.GENERATION, 7)
    return commit_record(*given), mapping_record(*given)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a.b-c_d:3:17", Wanted("a.b-c_d", 3, 17)),
        ("t:all:earliest", Wanted("t", None, "earliest")),
        ("t:0:end", Wanted("t", 0, "latest")),
        ("t:0:latest", Wanted("t", 0, "latest")),
        ("t:12:current", Wanted("t", 12, "current")),
    ],
)
def test_what_is_asked_for(text: str, wanted: Wanted) -> None:
    """`TOPIC:PARTITION:OFFSET` is read in all its forms."""
    assert Wanted.parse(text) == wanted


@pytest.mark.parametrize("text", ["t", "t:0", "t:0:", "t:x:0", "t:0:-1", ":0:0", "t:0:soon", "a b:0:0", "t:0:1:2"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="wanted TOPIC:PARTITION:OFFSET"):
        Wanted.parse(text)


def test_the_last_word_for_a_partition_wins_and_all_means_all() -> None:
    existing = [TopicPartition("t", 1), TopicPartition("u", 0), P0]
    asked = Request((Wanted("t", None, "earliest"), Wanted("t", 1, 5)), "x")
    assert asked.topics == {"t"}
    assert asked.by_partition(existing) == {P0: "earliest", TopicPartition("t", 1): 5}
    with pytest.raises(Refused, match="t-2 does not exist: the source topic has 2 partitions"):
        Request((Wanted("t", 2, 5),), "x").by_partition(existing)


@pytest.mark.parametrize(
    ("where", "position"), [("earliest", 40), ("latest", 130), ("current", 100), (40, 40), (77, 77), (140, 140)]
)
def test_where(where: Any, position: int) -> None:
    """Each way to name a position leads to the offset within the log."""
    assert decide_override(facts(), where, request()).position == position


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        (facts(), 39, "offset 39 is not in the source, which holds 40 to 140: it lies before the log start, 40"),
        (facts(), 141, "offset 141 is not in the source, which holds 40 to 140: it lies beyond the end, 140"),
        (facts(20), "current", "offset 20 is not in the source, which holds 40 to 140"),
        (facts(None), "current", "t-0 has no position: give an offset"),
        (facts(None, unreadable="not JSON"), "current", "no position that can be read \\(not JSON\\)"),
        (facts(source_topic_id="s-new"), 50, "source topic id s-t is now s-new.*add --accept-new-topic"),
        (facts(target_topic_id="t-new"), 50, "target topic id t-t is now t-new.*add --accept-new-topic"),
        (facts(target_topic_id=None), 50, "target topic id t-t is now none.*add --accept-new-topic"),
    ],
)
def test_what_is_refused(given: PartitionFacts, where: Any, words: str) -> None:
    """Offsets that the source does not hold, and topics that are no longer the same."""
    with pytest.raises(Refused, match=words):
        decide_override(given, where, request())


def test_a_position_of_a_deleted_topic_means_nothing_in_the_new_one() -> None:
    with pytest.raises(Refused, match="position 100 is one of the topic that was deleted"):
        decide_override(facts(source_topic_id="s-new"), "current", request(new_topic=True))


def test_a_range_that_is_skipped_is_covered_and_holds_nothing(tmp_path: Path) -> None:
    one = decide_override(facts(20), "earliest", request())
    record, mapping = records(tmp_path, one)
    assert describe_override(one) == "t-0: 20 -> 40   skips 20 offsets, 20 to 39: they are never copied"
    assert (record.kind, record.position, record.leader_epoch, record.reason) == ("override", 40, None, None)
    assert (record.target_end, record.began) == (90, 40)
    assert record.overridden is not None
    assert (record.overridden.position, record.overridden.stopped) == (20, STOPPED)
    assert mapping is not None
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (20, 40, ())
    assert mapping.override == "somebody@here: a test"
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "here") == record
    assert MappingRecord.parse(mapping.key_bytes(), mapping.value_bytes()) == mapping


@pytest.mark.parametrize(("where", "position", "began"), [(60, 60, 50), ("earliest", 40, 40)])
def test_a_way_back_cancels_what_was_mapped(tmp_path: Path, where: Any, position: int, began: int) -> None:
    one = decide_override(facts(), where, request())
    record, mapping = records(tmp_path, one)
    assert describe_override(one) == f"t-0: 100 -> {position}   copies {position} to 99 a second time"
    assert (record.position, record.began, record.leader_epoch) == (position, began, None)
    assert mapping is not None
    assert (mapping.covered_from, mapping.covered_to) == (position, position)


def test_after_a_truncation_nothing_is_copied_twice() -> None:
    one = decide_override(facts(200), "latest", request())
    assert describe_override(one) == "t-0: 200 -> 130   copies 130 to 139 a second time"
    assert describe_override(decide_override(facts(200, readable=140), "latest", request())).endswith(
        "copies what comes from there on"
    )


@pytest.mark.parametrize(("where", "epoch"), [("current", 3), (100, None)])
def test_an_offset_that_is_given_accepts_the_log_as_it_is(tmp_path: Path, where: Any, epoch: int | None) -> None:
    """The position is the same: to stay at it, or to go on at it though the log was cut off below and grew again."""
    record, _ = records(tmp_path, decide_override(facts(), where, request()))
    assert (record.position, record.leader_epoch) == (100, epoch)


@pytest.mark.parametrize(("cut_off", "skipped"), [(80, (80, 90)), (0, (0, 90)), (None, (90, 90))])
def test_a_position_behind_a_cut_off_skips_what_lies_there(
    tmp_path: Path, cut_off: int | None, skipped: tuple[int, int]
) -> None:
    """The copies of what was lost answer for no position any more, be it all that was copied."""
    _, mapping = records(tmp_path, decide_override(facts(cut_off=cut_off), 90, request()))
    assert mapping is not None
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (*skipped, ())


@pytest.mark.parametrize(("where", "skipped"), [("current", (80, 100)), (90, (80, 90)), (70, (70, 70))])
def test_records_whose_copies_are_lost_are_skipped_up_to_the_position(
    tmp_path: Path, where: Where, skipped: tuple[int, int]
) -> None:
    """Their places on the target are those of other records from then on."""
    one = decide_override(facts(lost_from=80), where, request(foreign_records=True))
    _, mapping = records(tmp_path, one, foreign_records=True)
    assert mapping is not None
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (*skipped, ())
    assert ("not on the target" in describe_override(one)) == (skipped[0] < skipped[1])


def test_nothing_is_accepted_of_a_log_of_which_nobody_can_tell() -> None:
    """Positions in copies of what was lost, if it was, would count as exact from then on."""
    unknown = facts(is_log_unknown=True)
    for where in (100, 41, "latest"):
        with pytest.raises(Refused, match="whether the source still holds what was copied"):
            decide_override(unknown, cast("Any", where), request())
    assert decide_override(unknown, "current", request()).position == 100
    assert decide_override(unknown, "earliest", request()).position == 40
    anew = facts(is_log_unknown=True, source_topic_id="s-new")
    assert decide_override(anew, "latest", request(new_topic=True)).position == 130


@pytest.mark.parametrize(
    ("changed", "was_cut"),
    [
        ({}, False),
        ({"cut_off": 60}, True),
        ({"is_log_unknown": True}, True),
        ({"end": 90, "readable": 90}, True),
        ({"cut_off": 60, "source_topic_id": "s-new"}, False),
        ({"record": plans.commit_record(P0, 100, reason=SourceDiverged(P0, 100, 60))}, True),
        ({"record": plans.commit_record(P0, 100, reason=SourceTruncated(P0, 100, 60))}, True),
        ({"record": plans.commit_record(P0, 100, reason=SourceDiverged(P1, 100, 60))}, False),
        ({"record": plans.commit_record(P0, 100, reason=SourceTruncated(P1, 100, 60))}, False),
    ],
)
def test_that_a_log_may_have_lost_what_was_copied_is_noted(
    tmp_path: Path, changed: dict[str, Any], was_cut: bool
) -> None:
    """Groups may have read it too: from then on their own leader epochs are looked at.

    The stop of one partition is noted for its whole topic: it says nothing of the logs of the others.
    """
    one = decide_override(facts(**changed), "earliest", request(new_topic=True))
    record, _ = records(tmp_path, one, new_topic=True)
    assert record.source_was_cut is was_cut


@pytest.mark.parametrize(("epoch", "was_cut"), [(3, False), (None, True)])
def test_a_copy_that_goes_on_where_it_stands_asks_the_leader_itself(
    tmp_path: Path, epoch: int | None, was_cut: bool
) -> None:
    """A leader that was slow once would else have groups judged for ever, whose clients commit an old epoch."""
    copied = plans.commit_record(P0, 100, leader_epoch=epoch)
    record, _ = records(tmp_path, decide_override(facts(record=copied, is_log_unknown=True), "current", request()))
    assert (record.leader_epoch, record.source_was_cut) == (epoch, was_cut)


def test_a_new_source_topic_begins_anew_behind_what_was_copied(tmp_path: Path) -> None:
    one = decide_override(facts(source_topic_id="s-new", start=0), "earliest", request(new_topic=True))
    record, mapping = records(tmp_path, one, new_topic=True)
    assert describe_override(one) == "t-0: 100 -> 0   accepts source topic id s-t is now s-new"
    assert (record.source_topic_id, record.position, record.began) == ("s-new", 0, 0)
    assert (record.leader_epoch, record.target_end) == (None, 90)
    assert mapping is None, "the mapping of the old topic stays as it is"


def test_a_new_target_topic_is_gone_on_into(tmp_path: Path) -> None:
    one = decide_override(facts(target_topic_id="t-new", target_end=5), "current", request(new_topic=True))
    record, mapping = records(tmp_path, one, new_topic=True)
    assert (record.target_topic_id, record.position, record.leader_epoch) == ("t-new", 100, 3)
    assert record.target_end == 5, "what comes into it from now on from others is noticed"
    assert mapping is None


@pytest.mark.parametrize("now", ["t-t", "t-new"])
def test_copies_under_a_former_marker_stay_behind_in_their_target_topic(tmp_path: Path, now: str) -> None:
    marked = plans.commit_record(P0, 100, began=50, marker=Marker("m", "cluster"))
    one = decide_override(facts(record=marked, target_topic_id=now, target_end=5), 50, request(new_topic=True))
    record, _ = records(tmp_path, one, new_topic=True)
    assert record.marker_changed == (now == "t-t")
    slot = plans.slot_plan(make_pipeline(tmp_path, "a:1", "b:1", ["t"]), {P0: 130})
    plan = plans.partition_plan(P0)
    assert PartitionState.of(slot, plan, marked).marker_changed
    assert not PartitionState.of(slot, replace(plan, target_topic_id="t-new"), marked).marker_changed


@pytest.mark.parametrize("repeats", [False, True])
def test_what_a_copy_at_least_once_may_have_left_stays_noted(tmp_path: Path, repeats: bool) -> None:
    """Until the copy starts again, nobody else says so where the file says exactly once by now."""
    copied = plans.commit_record(P0, 100, began=50, at_least_once=repeats)
    record, _ = records(tmp_path, decide_override(facts(record=copied), 110, request()))
    assert record.at_least_once == repeats


@pytest.mark.parametrize(("mode", "repeats"), [("disabled", True), ("enabled", False)])
def test_how_it_is_copied_is_told_by_the_file_where_the_record_cannot_be_read(
    tmp_path: Path, mode: str, repeats: bool
) -> None:
    one = decide_override(facts(None, unreadable="no JSON"), 110, request())
    record, _ = records(tmp_path, one, features={"exactlyOnce": mode})
    assert record.at_least_once == repeats
    assert record.at_least_once_below == (None if repeats else 110), "whether it was before nobody knows"
    assert not records(tmp_path, decide_override(facts(None), 110, request()))[0].at_least_once, "nothing is copied yet"


def test_an_override_is_the_first_generation_of_those_that_go_on_from_it(tmp_path: Path) -> None:
    copied = plans.commit_record(P0, 100, began=50, forward_since=1)
    record, _ = records(tmp_path, decide_override(facts(record=copied), 50, request()))
    assert (record.forward_since, record.spread) == (plans.GENERATION, False)


@pytest.mark.parametrize("now", ["t-t", "t-new"])
def test_that_it_was_copied_at_least_once_stays_noted_in_its_target_topic(tmp_path: Path, now: str) -> None:
    copied = plans.commit_record(P0, 100, began=50, at_least_once_below=40)
    one = decide_override(facts(record=copied, target_topic_id=now, target_end=5), 50, request(new_topic=True))
    record, _ = records(tmp_path, one, new_topic=True)
    assert record.at_least_once_below == (40 if now == "t-t" else None)


@pytest.mark.parametrize(("now", "noted"), [("t-t", True), ("t-new", False)])
def test_in_a_new_target_topic_no_copies_at_least_once_lie(tmp_path: Path, now: str, noted: bool) -> None:
    copied = plans.commit_record(P0, 100, began=50, at_least_once=True)
    one = decide_override(facts(record=copied, target_topic_id=now, target_end=5), 50, request(new_topic=True))
    record, _ = records(tmp_path, one, new_topic=True)
    assert record.at_least_once == noted


@pytest.mark.parametrize("noted", [{"at_least_once": True}, {"at_least_once_below": 40}])
def test_of_a_new_source_topic_nothing_was_copied_at_least_once(tmp_path: Path, noted: dict[str, Any]) -> None:
    """Positions of the former one's log would make all be read again until the new log has grown as far."""
    copied = plans.commit_record(P0, 100, began=50, **noted)
    one = decide_override(facts(record=copied, source_topic_id="s-new"), 40, request(new_topic=True))
    record, _ = records(tmp_path, one, new_topic=True)
    assert (record.source_topic_id, record.repeats_below) == ("s-new", None)


@pytest.mark.parametrize(("accepted", "below"), [(True, 100), (False, 40)])
def test_what_is_accepted_may_have_come_late_of_a_copy_at_least_once(
    tmp_path: Path, accepted: bool, below: int
) -> None:
    copied = plans.commit_record(P0, 100, began=50, at_least_once_below=40)
    one = decide_override(facts(record=copied), "current", request(foreign_records=accepted))
    record, _ = records(tmp_path, one, foreign_records=accepted)
    assert record.at_least_once_below == below


def test_foreign_records_are_accepted_up_to_now(tmp_path: Path) -> None:
    one = decide_override(facts(), "current", request(foreign_records=True))
    record, mapping = records(tmp_path, one, foreign_records=True)
    assert describe_override(one) == "t-0: 100 -> 100   accepts what others wrote to the target partition"
    assert (record.position, record.leader_epoch, record.target_end, record.target_accepted) == (100, 3, 95, 95)
    assert CommitRecord.parse(record.key_bytes(), record.value_bytes(), "") == record
    assert mapping is not None, "the content check has to know that others' records may lie there"
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (100, 100, ())
    other = decide_override(facts(target_topic="u"), "current", request(foreign_records=True))
    assert records(tmp_path, other, foreign_records=True)[0].target_end is None, (
        "the end of another topic means nothing"
    )


def test_without_a_position_copying_begins_there(tmp_path: Path) -> None:
    record, mapping = records(tmp_path, decide_override(facts(None), 70, request()))
    assert (record.position, record.began, record.target_end) == (70, 70, None)
    assert mapping is not None, "the position may have been lost, and the source been mapped beyond"
    assert (mapping.covered_from, mapping.covered_to, mapping.targets) == (70, 70, ())


@pytest.mark.parametrize("where", ["earliest", 20, 10, 0])
def test_coverage_understands_an_override(tmp_path: Path, where: Any) -> None:
    """Right after it, and when copying has gone on."""
    start = 20 if where == "earliest" else 0
    one = decide_override(facts(12, start=start, readable=30, end=30), where, request())
    commit, mapping = records(tmp_path, one)
    assert mapping is not None
    copied = _copied(0, 12, 1, plans.GENERATION - 1)
    after = _copied(commit.position, 30, 2, plans.GENERATION)
    for all_records, position in (([copied, mapping], commit.position), ([copied, mapping, after], 30)):
        known = fold(PartitionMapping(), all_records)
        rows = [CoveredRow("t", "s-t", 0, *covered) for covered in known.covered]
        said = check_coverage(rows, [NotedPosition(topic="t", partition=0, source_topic_id="s-t", position=position,
                                              records=commit.records)], {P0: position}, [])  # fmt: skip
        assert said.passed, said.summary
    assert not check_coverage(
        [CoveredRow("t", "s-t", 0, *c) for c in fold(PartitionMapping(), [copied, after]).covered],
        [NotedPosition(topic="t", partition=0, source_topic_id="s-t", position=40, records=1)], {P0: 40}, [],
    ).passed  # fmt: skip


def _copied(start: int, end: int, sequence: int, generation: int) -> MappingRecord:
    return MappingRecord("k2k.g", "t", 0, "p", plans.CLUSTER, "s-t", generation, 0, sequence, 0, start, end, ())
