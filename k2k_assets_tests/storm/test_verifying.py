"""The comparison itself: a right copy passes, and every wrong one is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import ReadRecord
from k2k_assets_tests.support.proof.verifying import PartitionCopy


def record(name: int, offset: int, value: bytes = b"v") -> ReadRecord:
    return ReadRecord("t", 0, offset, None, value, [("id", b"%d" % name)], 1)


def commit(position: int, sequence: int) -> CommitRecord:
    where = ("s-id", "t", "t-id", None, 7, 0)
    return CommitRecord("g", "c", TopicPartition("t", 0), "commit", "p", position, None, *where, sequence, 0)


def mapping(first: int, after: int, sequence: int, *runs: Run) -> MappingRecord:
    targets = (MappedPartition("t", "t-id", 0, runs),)
    return MappingRecord("g", "t", 0, "p", "c", "s-id", 7, 0, sequence, 0, first, after, targets)


# Two transactions: offsets 0 to 2, then a marker and offset 4; the target has its own marker at 3.
TRUE = PartitionCopy(
    "t-0",
    [record(0, 0), record(1, 1), record(2, 2), record(3, 4)],
    [record(0, 0), record(1, 1), record(2, 2), record(3, 4)],
    [commit(3, 1), commit(5, 2)],
    [mapping(0, 3, 1, Run(0, 0, 3)), mapping(3, 5, 2, Run(4, 4, 1))],
)


def test_a_true_copy_is_right() -> None:
    assert TRUE.problems() == []
    assert replace(TRUE, exactly_once=False).problems() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": TRUE.target[:3]}, "1 lost (offsets 4)"),
        ({"target": [*TRUE.target, record(3, 5)]}, "1 doubled (offsets 4)"),
        ({"target": [record(1, 0), record(0, 1), *TRUE.target[2:]]}, "1 reordered (offsets 0)"),
        ({"target": [*TRUE.target, record(9, 5)]}, "1 never committed on the source (offsets 5)"),
        ({"target": [*TRUE.target[:3], record(3, 4, b"w")]}, "1 altered (offsets 4)"),
        ({"mappings": TRUE.mappings[:1]}, "1 torn: copied without a mapping (offsets 4)"),
        ({"mappings": TRUE.mappings[:1]}, "1 torn: on the target without a mapping (offsets 4)"),
        ({"commits": TRUE.commits[:1]}, "torn: the newest commit record says 3, the mappings 5"),
        ({"commits": []}, "no commit record"),
        ({"mappings": [TRUE.mappings[0], mapping(4, 5, 2, Run(4, 4, 1))]}, "coverage goes from 3 to 4"),
        ({"mappings": [TRUE.mappings[0], mapping(3, 5, 2, Run(4, 2, 1))]}, "1 mapped to another record (offsets 4)"),
        (
            {"mappings": [TRUE.mappings[0], mapping(3, 5, 2, Run(2, 2, 1), Run(4, 4, 1))]},
            "source offset 2 is mapped twice, or outside its range",
        ),
    ],
)
def test_every_wrong_copy_is_found(change: dict[str, Any], words: str) -> None:
    assert f"t-0: {words}" in replace(TRUE, **change).problems()


def test_at_least_once_may_repeat_what_is_not_committed_and_nothing_else() -> None:
    again = [record(0, 0), record(1, 1), record(2, 2), record(3, 3), record(3, 4)]
    careless = replace(TRUE, exactly_once=False, target=again)
    assert careless.problems() == []
    late = replace(careless, target=[*again, record(1, 5)])
    assert late.problems() == ["t-0: 1 neither behind the record before nor where the newest commit is (offsets 5)"]
    assert replace(late, zombies=True).problems() == []


def test_what_comes_again_comes_in_order() -> None:
    again = [record(name, n) for n, name in enumerate((0, 1, 2, 3, 1, 0, 2, 3))]
    runs = (Run(0, 5, 1), Run(1, 4, 1), Run(2, 6, 1), Run(4, 7, 1))
    mixed = replace(TRUE, exactly_once=False, target=again, commits=[commit(5, 1)], mappings=[mapping(0, 5, 1, *runs)])
    assert mixed.problems() == [
        "t-0: 2 neither behind the record before nor where the newest commit is (offsets 4, 6)",
        "t-0: 1 mapped out of order (offsets 4)",
    ]
    assert len(replace(mixed, zombies=True).problems()) == 1, "what is mapped rises, whoever writes beside"
