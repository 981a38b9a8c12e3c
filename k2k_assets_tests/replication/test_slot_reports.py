"""Reports of slots as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot.gathered_commits import GatheredCommits
from k2k_assets.replication.slot_reports import (
    AGE_BOUNDS,
    DURATION_BOUNDS,
    MOST_BYTES,
    Commits,
    Distribution,
    Greeting,
    LogLine,
    Report,
    SessionEnded,
    Statistics,
    line_of,
    report_of,
)
from k2k_assets.transport.client_statistics import ClientFigures
from k2k_assets_tests.support.suite.properties import examples

numbers = st.integers(0, 2**53)
figures = st.dictionaries(st.text(), st.floats(0, 1e15))
seconds = st.lists(st.floats(0, 1e6))
durations = st.builds(Distribution.of, seconds, st.just(DURATION_BOUNDS))
ages = st.builds(Distribution.of, seconds, st.just(AGE_BOUNDS))
reports: st.SearchStrategy[Report] = st.one_of(
    st.builds(SessionEnded, numbers, numbers, st.text(), st.booleans()),
    st.builds(
        LogLine,
        numbers,
        numbers,
        st.text(),
        st.text(max_size=100),
        st.dictionaries(st.text(), st.one_of(st.text(), numbers)),
    ),
    st.builds(Commits, durations, st.dictionaries(st.text(), ages)),
    st.builds(
        Statistics, st.sampled_from(["consumer", "producer"]), st.builds(ClientFigures, st.text(), figures, figures)
    ),
)


@given(reports)
@examples(200)
def test_what_is_written_is_read(report: Report) -> None:
    line = line_of(report)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert report_of(line) == report


@given(st.builds(Greeting, st.text(), numbers, numbers))
@examples(100)
def test_a_greeting_too(greeting: Greeting) -> None:
    assert Greeting.of_line(greeting.line()) == greeting


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"[]", b"{}", b'{"kind": "else"}', b'{"kind": "session"}', b"\xff", b'{"kind": ["session"]}'),
        *(b'{"kind": "commits", "ages": {}}', b'{"kind": "commits", "durations": 1, "ages": {}}'),
        b'{"kind": "commits", "durations": {"counts": [1], "seconds": 1}, "ages": {}}',
    ],
)
def test_what_is_no_report_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        report_of(line)
    with pytest.raises(ValueError, match=r".+"):
        Greeting.of_line(line)


def test_commits_are_gathered_until_they_are_taken() -> None:
    gathered = GatheredCommits()
    assert gathered.taken() is None
    gathered.add(0.25, {"orders": 0.5, "returns": 1.25})
    gathered.add(0.5, {"orders": 0.25})
    gathered.add(0.75, {})
    assert gathered.taken() == Commits(
        Distribution.of([0.25, 0.5, 0.75], DURATION_BOUNDS),
        {"orders": Distribution.of([0.5, 0.25], AGE_BOUNDS), "returns": Distribution.of([1.25], AGE_BOUNDS)},
    )
    assert gathered.taken() is None


@given(seconds, seconds)
@examples(100)
def test_values_are_counted_once_in_the_bucket_whose_bound_they_do_not_pass(
    some: list[float], more: list[float]
) -> None:
    found = Distribution.of(some, AGE_BOUNDS).plus(Distribution.of(more, AGE_BOUNDS))
    for index, bound in enumerate(AGE_BOUNDS):
        assert sum(found.counts[: index + 1]) == sum(value <= bound for value in some + more)
    assert sum(found.counts) == len(some + more)
    assert found.seconds == pytest.approx(sum(some + more))


def test_each_report_of_commits_fits_into_a_line_and_none_is_left_out() -> None:
    """Also with topics of the longest names, and more of them than fit."""
    gathered = GatheredCommits()
    topics = [f"{number:0249}" for number in range(300)]
    gathered.add(1.0, dict.fromkeys(topics, 123456.789))
    for number in range(500):
        gathered.add(0.001, {topics[number % 3]: 0.001, topics[number % 7 + 3]: 0.002})
    found = []
    while (commits := gathered.taken()) is not None:
        assert len(line_of(commits)) < MOST_BYTES
        found.append(commits)
    assert sum(sum(each.durations.counts) for each in found) == 501
    assert sum(sum(ages.counts) for each in found for ages in each.ages.values()) == 300 + 2 * 500


def test_of_a_driver_that_cannot_be_reached_the_newest_commits_are_kept() -> None:
    gathered = GatheredCommits()
    for number in range(20_000):
        gathered.add(0.001 if number < 15_000 else 2.0, {})
    assert gathered.taken() == Commits(Distribution.of([2.0] * 5000, DURATION_BOUNDS), {})
