"""The verdict of a content check: offenders, earlier offenders, and each partition's verified position."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.comparison import Comparison, PlannedPartition
from k2k_assets.verification.content.content_verdict import content_verdict
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sampling import Look
from k2k_assets.verification.content.sides import Side
from k2k_assets.verification.content.tally import (
    DIFFERENT,
    EQUAL,
    HIDDEN,
    NO_SCHEMA_ON_TARGET,
    OTHER_RULES,
    OutcomeCount,
    Tally,
)
from k2k_assets.verification.content.unmapped import Span
from k2k_assets.verification.content.verified import MappedRecord, Verified
from k2k_assets.verification.verdict import Judgement

ONE, OTHER, OFFLINE, GONE = (TopicPartition("t", n) for n in range(4))
LAST = MappedRecord(source_offset=99, target_topic_id="t", target_partition=0, target_offset=99)
GOOD = Verified(position=100, last=LAST, seen=(Covered(0, 100),))


def _piece(tp: TopicPartition, start: int, end: int) -> ComparedPiece:
    return ComparedPiece(*tp, start, end, "read_committed", True, True, True, True)


def _plan(*readable: tuple[TopicPartition, list[Covered]]) -> Comparison:
    today = {tp: SourcePartition("c", tp.topic, "id", tp.partition) for tp in (ONE, OTHER, OFFLINE, GONE)}
    planned = {tp: PlannedPartition(today[tp], Verified(), ranges, Look(), False) for tp, ranges in readable if ranges}
    nobody = Side(cast(Cluster, None), {}, {}, frozenset())
    return Comparison(nobody, nobody, "c", today, dict(readable), planned)


def test_what_was_found_wrong_before_and_not_reached_fails_until_it_can_no_longer_be_compared() -> None:
    tally = Tally()
    tally.add_pieces([_piece(ONE, 0, 100)])
    tally.add_outcomes([OutcomeCount(*ONE, EQUAL, 100, 0, 99)])
    plan = _plan((ONE, [Covered(0, 100)]), (OTHER, [Covered(50, 100)]), (GONE, []))
    bad = {
        ONE: GOOD,
        OTHER: Verified(bad=(Covered(10, 20), Covered(60, 61))),
        OFFLINE: Verified(bad=(Covered(5, 7),)),
        GONE: Verified(bad=(Covered(5, 7),)),
    }
    verdict = content_verdict(plan, tally, bad, "", mapped=True)
    assert verdict.judgement is Judgement.FAILED
    assert [(offender.partition, offender.source_offset) for offender in verdict.offenders] == [(1, 60), (2, 5)]
    assert (verdict.counts["offending"], verdict.counts["still_bad"]) == (0, 2)
    one, other = verdict.verified
    assert (one.verified_to, one.end, one.readable, one.looked_at, one.bad) == (100, 100, 100, 100, 0)
    assert (other.verified_to, other.end, other.readable, other.looked_at, other.bad) == (None, 100, 50, 0, 1)
    passed = content_verdict(plan, tally, {ONE: GOOD, OTHER: Verified()}, "not noted", mapped=True)
    assert passed.passed
    assert "66 % of what can be compared was looked at" in passed.summary
    assert passed.summary.endswith("; not noted")


def test_what_was_found_wrong_before_and_has_rules_that_cannot_be_applied_any_more_is_no_fault() -> None:
    """A function's code was corrected since: nobody can tell what the former one would have made of the records."""
    tally = Tally()
    tally.add_pieces([_piece(ONE, 0, 100)])
    tally.add_outcomes([OutcomeCount(*ONE, EQUAL, 100, 0, 99)])
    plan = _plan((ONE, [Covered(0, 100)]), (OTHER, [Covered(0, 100)]))
    bad = {ONE: GOOD, OTHER: Verified(bad=(Covered(10, 20), Covered(60, 61)))}
    some = replace(plan, unknown=10, incomparable={OTHER: [Covered(5, 20)]})
    verdict = content_verdict(some, tally, bad, "", mapped=True)
    assert [(offender.partition, offender.source_offset) for offender in verdict.offenders] == [(1, 60)]
    assert verdict.verified[1].bad == 1
    everything = replace(plan, unknown=11, incomparable={OTHER: [Covered(5, 20), Covered(60, 61)]})
    verdict = content_verdict(everything, tally, bad, "", mapped=True)
    assert verdict.passed
    assert "11 were copied under settings that are not known any more, or with functions of" in verdict.summary
    assert verdict.verified[1].bad == 0


def test_faults_and_what_is_held_are_told_of_their_partitions() -> None:
    tally = Tally()
    tally.add_pieces([_piece(ONE, 0, 50), _piece(ONE, 50, 100), _piece(OTHER, 0, 10)])
    tally.add_outcomes(
        [
            OutcomeCount(*ONE, DIFFERENT, 2, 40, 60),
            OutcomeCount(*OTHER, HIDDEN, 1, 9, 9),
            OutcomeCount(*OTHER, EQUAL, 9, 0, 8),
        ]
    )
    assert tally.faults == 2
    assert (tally.compared[ONE].bad, tally.compared[OTHER].bad) == ([Covered(40, 61)], [])
    assert [bool(tally.compared[each].hidden) for each in (ONE, OTHER)] == [False, True]


def test_records_that_nothing_is_mapped_to_make_their_piece_bad_where_nobody_else_may_write() -> None:
    pieces = [_piece(ONE, 0, 50), _piece(ONE, 50, 100)]
    tally = Tally()
    tally.add_pieces(pieces)
    alone = Span(*ONE, 50, "copy", "id", 0, True, 50, 100)
    tally.add_unmapped([(alone, 70), (alone, 71), (alone._replace(alone=False), 72)], pieces)
    assert tally.compared[ONE].bad == [Covered(50, 100)]
    assert (tally.faults, tally.uncertain, len(tally.offenders)) == (2, 1, 2)


def test_what_time_did_not_suffice_for_is_told_of_partitions_that_were_begun() -> None:
    tally = Tally()
    tally.add_pieces([_piece(ONE, 0, 50)])
    tally.note_left([_piece(ONE, 0, 50), _piece(ONE, 60, 70), _piece(OTHER, 0, 10)], [_piece(ONE, 80, 90)])
    assert (tally.compared[ONE].first_left, tally.compared[ONE].second_left) == (1, 1)
    assert OTHER not in tally.compared


def test_it_says_in_which_way_it_has_compared_and_how_quickly() -> None:
    tally = Tally()
    tally.add_proven([_piece(ONE, 0, 90)])
    tally.add_equal(90)
    proven = Proven([_piece(ONE, 0, 90)], undecoded=0.5, bytes_=3_000_000, seconds=0.002)
    plan = _plan((ONE, [Covered(0, 100)]))
    verdict = content_verdict(plan, tally, {ONE: GOOD}, "", True, proven)
    read = "3.0 MB of both sides, 1,500 MB/s in a task"
    batches = f"90 records compared by batches (50 % of them lie in equal batches; {read})"
    assert verdict.way == batches
    assert (verdict.counts["equal"], verdict.counts["by_batches"], verdict.counts["stretches"]) == (90, 90, 1)
    tally.add_pieces([_piece(ONE, 89, 100)])
    tally.add_outcomes([OutcomeCount(*ONE, EQUAL, 10, 90, 99)])
    verdict = content_verdict(plan, tally, {ONE: GOOD}, "", True, replace(proven, why="t-0@90: timestamps differ"))
    assert verdict.way == f"{batches}; 10 records compared by records; not by batches: t-0@90: timestamps differ"
    assert content_verdict(plan, Tally(), {ONE: GOOD}, "", True).way == ""


@pytest.mark.parametrize(
    ("outcome", "words", "without_schema"),
    [
        (NO_SCHEMA_ON_TARGET, "3 copies have a schema id that the target's registry does not know", 3),
        (OTHER_RULES, "3 copies have a schema that the target's registry has without all of its rules", 0),
    ],
)
def test_copies_that_readers_of_the_target_cannot_decode_or_do_not_validate_are_told(
    outcome: str, words: str, without_schema: int
) -> None:
    """They block no groups: neither can be put right by another copy."""
    tally = Tally()
    tally.add_pieces([_piece(ONE, 0, 100)])
    tally.add_outcomes([OutcomeCount(*ONE, EQUAL, 97, 0, 96), OutcomeCount(*ONE, outcome, 3, 97, 99)])
    verdict = content_verdict(_plan((ONE, [Covered(0, 100)])), tally, {ONE: GOOD}, "", mapped=True)
    assert verdict.judgement is Judgement.WARNED
    assert verdict.summary.startswith(words)
    assert (verdict.counts["not_comparable"], verdict.counts["without_schema"]) == (3, without_schema)
