"""Reports of slots as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot.gathered_commits import GatheredCommits
from k2k_assets.replication.slot_reports import (
    MOST_BYTES,
    Commits,
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
    st.builds(Commits, seconds, st.dictionaries(st.text(), seconds)),
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
        *(b'{"kind": "commits", "seconds": [1]}', b'{"kind": "commits", "seconds": 1, "ages": {}}'),
        b'{"kind": "commits", "seconds": [], "ages": {"orders": ["old"]}}',
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
    gathered.add(0.0123456789, {"orders": 0.5, "returns": 1.25})
    gathered.add(0.5, {"orders": 0.0004})
    gathered.add(0.25, {})
    assert gathered.taken() == Commits([0.012346, 0.5, 0.25], {"orders": [0.5, 0.0], "returns": [1.25]})
    assert gathered.taken() is None


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
    assert sum(len(each.seconds) for each in found) == 501
    assert sum(len(ages) for each in found for ages in each.ages.values()) == 200 + 2 * 500


def test_of_a_driver_that_cannot_be_reached_the_newest_commits_are_kept() -> None:
    gathered = GatheredCommits()
    for number in range(20_000):
        gathered.add(float(number), {})
    found = []
    while (commits := gathered.taken()) is not None:
        found += commits.seconds
    assert found[-1] == 19_999
    assert len(found) == 5000
