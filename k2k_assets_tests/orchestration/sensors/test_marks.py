"""Marks of thousands of topics in a cursor are small, and show which versions have changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.orchestration.sensors.marks import Marks
from k2k_assets.orchestration.sensors.next_run_decision import SyncCursor
from k2k_assets_tests.support.suite.properties import examples

LONGEST = 249
_VERSIONS = st.dictionaries(st.text(max_size=8), st.text(max_size=4), max_size=20)


@examples(200)
@given(_VERSIONS, _VERSIONS, st.sets(st.text(max_size=8), max_size=20))
def test_they_compare_as_the_versions_do(first: dict[str, str], second: dict[str, str], names: set[str]) -> None:
    marks, versions = Marks(Marks.of(first).updated(second).packed), first | second
    for name in {*versions, *names}:
        assert marks.knows(name) == (name in versions)
        assert marks.are(name, versions.get(name))
        assert not marks.are(name, "another one")
        assert marks.limited_to(names).knows(name) == (name in versions and name in names)
        assert marks.without(names).knows(name) == (name in versions and name not in names)


def test_a_cursor_is_small_however_long_the_names_are() -> None:
    """The goal is 64 KB at 500 topics."""
    marks = Marks.of({f"{number:05}".ljust(LONGEST, "x"): f"version {number}" for number in range(2500)}).packed
    cursor = SyncCursor(stopped=marks, reported=marks, reported_last="x" * LONGEST).model_dump_json()
    assert len(cursor) < 64 * 1024, "all of them stopped, and copied by a `k2k start`"


@pytest.mark.parametrize("text", ["no base64 at all!", "AAAA"])
def test_what_are_no_marks_makes_the_cursor_an_empty_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|are not marks"):
        Marks(text)
    document = json.loads(SyncCursor(reported_at=5.0).model_dump_json())
    assert SyncCursor.read(json.dumps({**document, "stopped": text})) == SyncCursor()
