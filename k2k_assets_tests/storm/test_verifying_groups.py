"""The comparison of groups itself: right positions pass, and every wrong one is found."""

from __future__ import annotations

import pytest

from k2k_assets.control.mapping_records import MappedPartition, MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.storm.test_verifying import record
from k2k_assets_tests.support.brokers.offsets_topic import GroupCommit
from k2k_assets_tests.support.proof.verifying_groups import Copies, Held, misplaced, verify_commits

AT = TopicPartition("t", 0)
# Records at source offsets 0 to 2 and 4. The target has them at 0 to 2 and 4; record 2 once more at 5, not mapped.
RUNS = (Run(0, 0, 3), Run(4, 4, 1))
MAPPING = MappingRecord("g", "t", 0, "p", "c", "s-id", 7, 0, 1, 0, 0, 5, (MappedPartition("t", "t-id", 0, RUNS),))
COPIES = {
    AT: Copies.of(
        [record(0, 0), record(1, 1), record(2, 2), record(3, 4)],
        [record(0, 0), record(1, 1), record(2, 2), record(3, 4), record(2, 5)],
        [MAPPING],
    )
}


def made(offset: int, version: str = "1.100", time: int = 150) -> GroupCommit:
    return GroupCommit("g", AT, offset, f"k2k_{version}", time)


def problems(commits: list[GroupCommit], *history: Held) -> list[str]:
    verdict = verify_commits(commits, {("g", AT): history}, COPIES, "k2k_")
    assert verdict.commits == len(commits)
    return verdict.problems


@pytest.mark.parametrize(("position", "answer"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 5)])
def test_a_true_move_is_right(position: int, answer: int) -> None:
    assert problems([made(answer)], Held(position, 10, 20)) == []
    assert misplaced({("g", AT): answer}, {("g", AT): position}, COPIES) == []


def test_what_skips_or_repeats_is_found() -> None:
    assert "skip records: 2 (k2k_1.100)" in problems([made(2)], Held(1, 10, 20))[0]
    assert "skips records" in misplaced({("g", AT): 2}, {("g", AT): 1}, COPIES)[0]
    assert "repeats records" in misplaced({("g", AT): 4}, {("g", AT): 5}, COPIES)[0]
    assert "nowhere on the target" in misplaced({}, {("g", AT): 5}, COPIES)[0]


def test_a_position_counts_only_while_the_group_may_have_held_it() -> None:
    before, later = Held(4, 10, 20), Held(1, 30, 40)
    assert problems([made(4, "1.25", time=29)], before, later) == []
    assert problems([made(4, "1.35")], before, later) == [], "the later one was being made"
    assert len(problems([made(4, "1.41")], before, later)) == 1
    assert problems([made(4, "1.41")], before._replace(answered=None), later) == [], "it may have arrived late"
    assert len(problems([made(4, "1.5", time=9)], before, later)) == 1, "nobody had asked for it yet"


def test_versions_never_go_back() -> None:
    rising = [made(1, "1.100"), made(1, "1.101"), made(1, "2.50")]
    assert problems(rising, Held(1, 10, 20)) == []
    assert "replaced a newer observation: 1 (k2k_1.101)" in problems([rising[2], rising[1]], Held(1, 10, 20))[0]


def test_commits_of_others_are_not_judged() -> None:
    foreign = GroupCommit("g", AT, 4, "", 150)
    assert verify_commits([foreign], {("g", AT): [Held(1, 10, 20)]}, COPIES, "k2k_").commits == 0
