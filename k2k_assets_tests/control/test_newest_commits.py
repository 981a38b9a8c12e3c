"""The fold of the commit topic: the same answer in any order of records, and with repeated records."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.memory.plans import commit_record

SOURCES = [TopicPartition("t", p) for p in range(2)]


def folded(records: list[CommitRecord]) -> dict[TopicPartition, CommitRecord]:
    commits: NewestCommits[TopicPartition] = NewestCommits()
    for record in records:
        commits.take(record.source, record)
    return commits.records


def shuffled(records: list[CommitRecord], chance: random.Random) -> list[CommitRecord]:
    """In any order, some of them twice."""
    again = records[: chance.randint(0, len(records))]
    return chance.sample([*records, *again], k=len(records) + len(again))


@st.composite
def histories(draw: st.DrawFn, groups: tuple[str, ...] = ("k2k.g",)) -> list[CommitRecord]:
    """Records of which no two have the same order, group and partition."""
    orders = st.tuples(st.sampled_from(groups), st.sampled_from(SOURCES), st.integers(0, 3), st.integers(0, 5))
    return [
        commit_record(
            source, draw(st.integers(0, 99)), group=group, generation=generation, sequence=sequence,
            time=draw(st.integers(0, 9)),
        )
        for group, source, generation, sequence in draw(st.lists(orders, unique=True, max_size=12))
    ]  # fmt: skip


@given(histories(), st.randoms(use_true_random=False))
def test_the_highest_generation_and_sequence_counts(records: list[CommitRecord], chance: random.Random) -> None:
    expected = {
        source: max((r for r in records if r.source == source), key=lambda r: r.order)
        for source in {record.source for record in records}
    }
    assert folded(shuffled(records, chance)) == expected


@given(histories(("k2k.g", "another", "a third")), st.randoms(use_true_random=False))
def test_of_several_groups_the_newest_record_that_was_written_last_counts(
    records: list[CommitRecord], chance: random.Random
) -> None:
    """Though a time may lie before that of an older record of its group."""
    found = folded(shuffled(records, chance))
    for source, newest in found.items():
        of_groups = [
            folded([r for r in records if r.group == group])[source]
            for group in {r.group for r in records if r.source == source}
        ]
        assert newest in of_groups
        assert newest.time == max(r.time for r in of_groups)
    assert found == folded(records)


def test_it_says_whether_a_record_was_news() -> None:
    commits: NewestCommits[TopicPartition] = NewestCommits()
    first, second = (commit_record(SOURCES[0], 10 * n, generation=3, sequence=n) for n in (1, 2))
    assert commits.take(SOURCES[0], first)
    assert not commits.take(SOURCES[0], first)
    assert commits.take(SOURCES[0], second)
    assert not commits.take(SOURCES[0], first)
