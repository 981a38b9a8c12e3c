"""Reports of slots as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.replication.slot_reports import Greeting, LogLine, Report, SessionEnded, Statistics, line_of, report_of
from k2k_assets.transport.client_statistics import ClientFigures
from k2k_assets_tests.support.suite.properties import examples

numbers = st.integers(0, 2**53)
figures = st.dictionaries(st.text(), st.floats(0, 1e15))
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
    "line", [b"", b"\n", b"[]", b"{}", b'{"kind": "else"}', b'{"kind": "session"}', b"\xff", b'{"kind": ["session"]}']
)
def test_what_is_no_report_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        report_of(line)
    with pytest.raises(ValueError, match=r".+"):
        Greeting.of_line(line)
