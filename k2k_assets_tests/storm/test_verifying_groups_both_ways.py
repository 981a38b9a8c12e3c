"""The comparison of groups where both sides are written: right positions pass, and every wrong one is found."""

from __future__ import annotations

import pytest

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import ReadRecord
from k2k_assets_tests.support.brokers.offsets_topic import GroupCommit
from k2k_assets_tests.support.proof.verifying_groups import Held, misplaced, verify_commits
from k2k_assets_tests.support.proof.verifying_groups_both_ways import Said, SharedCopies

AT = TopicPartition("t", 0)
COPY = ("copied", b"")
LEFT_OUT = b"private"


def own(name: int, offset: int, value: bytes = b"v") -> ReadRecord:
    return ReadRecord("t", 0, offset, None, value, [("id", b"%d" % name)], 1)


def copied(name: int, offset: int) -> ReadRecord:
    return ReadRecord("t", 0, offset, None, b"v", [("id", b"%d" % name), COPY], 1)


def mapping(*runs: Run) -> list[MappingRecord]:
    return [MappingRecord("g", "t", 0, "p", "c", "s-id", 7, 0, 1, 0, 0, 9, (MappedPartition("t", "t-id", 0, runs),))]


def judge(here: list[ReadRecord], there: list[ReadRecord], forth: list[Run], back: list[Run]) -> SharedCopies:
    both = mapping(*forth), mapping(*back)
    return SharedCopies.of(here, there, lambda r: COPY in r.headers, both, lambda r: r.value == LEFT_OUT)


# Both sides number their records from 0. Offset 4 here and 3 there are markers.
#   here     a0  a1  b0' a2  |   b1'
#   there    b0  a0' a1' |   b1  a2'
HERE = [own(0, 0), own(1, 1), copied(0, 2), own(2, 3), copied(1, 5)]
THERE = [own(0, 0), copied(0, 1), copied(1, 2), own(1, 4), copied(2, 5)]
FORTH, BACK = [Run(0, 1, 2), Run(3, 5, 1)], [Run(0, 2, 1), Run(4, 5, 1)]
BOTH = judge(HERE, THERE, FORTH, BACK)
RIGHT = [
    Said(0, 0, "exact", 0),
    Said(1, 0, "may be read again", 1),
    Said(2, 0, "may be read again", 2),
    Said(3, 4, "exact", 0),
    Said(4, 4, "may be read again", 1),
    Said(5, 4, "may be read again", 1),
    Said(6, 6, "exact", 0),
]


def made(offset: int) -> GroupCommit:
    return GroupCommit("g", AT, offset, "k2k_1.100", 150)


def test_right_positions_are_right() -> None:
    assert BOTH.untrue(RIGHT, exactly_once=True) == []
    assert BOTH.end == 6
    for said in RIGHT:
        assert said.offset is not None
        assert misplaced({("g", AT): said.offset}, {("g", AT): said.position}, {AT: BOTH}) == []
        held = {("g", AT): [Held(said.position, 10, 20)]}
        assert verify_commits([made(said.offset)], held, {AT: BOTH}, "k2k_").problems == []


@pytest.mark.parametrize(("position", "offset"), [(1, 1), (2, 3), (3, 5), (4, 5)])
def test_a_wrong_commit_is_found(position: int, offset: int) -> None:
    """Each skips a record that was written on one side or the other."""
    wrong = verify_commits([made(offset)], {("g", AT): [Held(position, 10, 20)]}, {AT: BOTH}, "k2k_").problems
    where = misplaced({("g", AT): offset}, {("g", AT): position}, {AT: BOTH})
    assert "skip records" in wrong[0]
    assert "skips records" in where[0]


@pytest.mark.parametrize(("position", "offset"), [(3, 2), (6, 4), (6, 5)])
def test_what_is_read_again_without_need_is_found(position: int, offset: int) -> None:
    assert "repeats records" in misplaced({("g", AT): offset}, {("g", AT): position}, {AT: BOTH})[0]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(1, 0, "exact", 0), "1 records are read again"),
        (Said(2, 0, "may be read again", 1), "2 records are read again"),
        (Said(2, 0, "may be read again", 3), "2 records are read again"),
        (Said(3, 5, "exact", 0), "records are skipped"),
        (Said(3, 2, "may be read again", 1), "records are read again without need"),
        (Said(3, None, "unknown", 0), "no answer"),
        (Said(6, 6, "ahead", 0), "all was copied"),
    ],
)
def test_what_is_said_and_is_not_so_is_found(said: Said, words: str) -> None:
    (found,) = BOTH.untrue([said], exactly_once=True)
    assert found == f"at {said.position} it says {said.offset} ({said.state}, {said.again} again): {words}"


def test_many_wrong_answers_are_counted() -> None:
    wrong = [Said(3, 5, "exact", 0)] * 7
    assert BOTH.untrue(wrong, exactly_once=True)[-1] == "... 7 answers in all"


def test_at_least_once_more_may_be_said_than_is_read_again_and_never_less() -> None:
    careful = Said(2, 0, "may be read again", 3)
    assert BOTH.untrue([careful, Said(3, 4, "may be read again", 0)], exactly_once=False) == []
    assert BOTH.untrue([careful._replace(again=1)], exactly_once=False) != []


def test_what_is_never_copied_is_not_waited_for() -> None:
    there = [own(0, 0, LEFT_OUT), *THERE[1:]]
    here = [record for record in HERE if record.offset != 2]
    alone = judge(here, there, FORTH, BACK[1:])
    assert alone.untrue([Said(1, 2, "exact", 0)], exactly_once=True) == []
    assert judge(here, THERE, FORTH, BACK[1:]).skips(1, 2)


def test_an_unmapped_copy_before_the_mapped_one_counts_once() -> None:
    """At least once: b0 and a1 were copied a second time, and their first copies no mapping tells of.

    here     a0  b0' b0' a1      there    b0  a0' a1' a1'
    """
    here = [own(0, 0), copied(0, 1), copied(0, 2), own(1, 3)]
    there = [own(0, 0), copied(0, 1), copied(1, 2), copied(1, 3)]
    twice = judge(here, there, [Run(0, 1, 1), Run(3, 3, 1)], [Run(0, 2, 1)])
    assert not twice.skips(1, 0)
    assert twice.skips(1, 1)
    assert not twice.skips(2, 1), "b0 is read, though no mapping says so"
    assert not twice.skips(3, 3), "a1 lies there twice"
    assert twice.skips(3, 4)
    assert twice.again(2, 0) == 1
    assert twice.again(4, 0) == 3


def test_nothing_there_is_nothing_to_go_on_at() -> None:
    assert judge(HERE[:2], [], [], []).is_empty
    assert not judge([], THERE[:1], [], []).is_empty
