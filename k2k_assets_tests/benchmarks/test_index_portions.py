"""The benchmark of updates measures correct updates: it compares the mapped records."""

from __future__ import annotations

import pytest

pytest.importorskip("psutil")

from benchmarks.index_portions import FILES, TOUCHED, measure


def test_each_case_is_measured() -> None:
    rows = measure(max(FILES, TOUCHED) + 1)
    assert len(rows) == len({row[1] for row in rows}) == 5
    assert all(float(figure) >= 0 for row in rows for figure in row[2:5])
