"""In bounded time everything is looked at, whoever runs and whatever the state directory does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.home import HOME_VARIABLE, turn_file
from k2k_assets.verification.turns import next_turn, runs_for_all
from k2k_assets_tests.support.properties import examples


@examples(100)
@given(st.integers(0, 5000), st.integers(1, 400), st.integers(0, 10**6))
def test_after_so_many_turns_everything_was_looked_at(count: int, most: int, first: int) -> None:
    runs, everything = runs_for_all(count, most), list(range(count))
    parts = [everything[turn % runs :: runs] for turn in range(first, first + runs)]
    assert sorted(item for part in parts for item in part) == everything
    assert all(len(part) <= most for part in parts)


def test_turns_go_on_in_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert [next_turn("a/b"), next_turn("a/b"), next_turn("other"), next_turn("a/b")] == [0, 1, 0, 2]
    turn_file("a/b").write_text("{broken")
    assert [next_turn("a/b"), next_turn("a/b")] == [0, 1]


def test_a_state_directory_that_cannot_be_written_costs_order_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "file"))
    assert len({next_turn("p") for _ in range(8)}) > 1
