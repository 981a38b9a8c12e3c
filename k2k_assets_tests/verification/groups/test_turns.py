"""Everything is checked in bounded time, in any process and with any fault of the state directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.home import HOME_VARIABLE, turn_file
from k2k_assets.verification.groups.turns import next_turn, parts
from k2k_assets_tests.support.suite.properties import examples


@examples(100)
@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 12))
def test_in_as_many_turns_as_there_are_parts_everything_is_looked_at(sizes: list[int], most: int) -> None:
    groups = [[(group, n) for n in range(size)] for group, size in enumerate(sizes)]
    found = parts(groups, most)
    assert [item for part in found for item in part] == [item for group in groups for item in group]
    assert all(len(part) <= most for part in found)
    for group, size in enumerate(sizes):
        assert sum(any(of == group for of, _ in part) for part in found) == -(-size // most), "no more than it must"


def test_turns_go_on_in_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert [next_turn("a/b"), next_turn("a/b"), next_turn("other"), next_turn("a/b")] == [0, 1, 0, 2]
    turn_file("a/b").replace("{broken")
    assert [next_turn("a/b"), next_turn("a/b")] == [0, 1]


def test_a_state_directory_that_cannot_be_written_costs_order_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "file"))
    assert len({next_turn("p") for _ in range(8)}) > 1
