"""Tests that a run of the suite has no time left for are skipped, and say why."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from k2k_assets_tests.support.suite.time_given import skip_when_time_is_over


@pytest.mark.parametrize(
    ("until", "skipped"),
    [
        pytest.param(lambda: str(time.time() - 1), True, id="over"),
        pytest.param(lambda: str(time.time() + 600), False, id="left"),
        pytest.param(str, False, id="none given"),
    ],
)
def test_a_test_is_skipped_when_time_is_over(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, until: Callable[[], str], skipped: bool
) -> None:
    monkeypatch.setenv("K2K_UNTIL", until())
    one = pytest.Function.from_parent(request.node.parent, name="test_one", callobj=lambda: None)
    skip_when_time_is_over(one)
    mark = one.get_closest_marker("skip")
    assert (mark is not None) == skipped
    assert mark is None or mark.kwargs["reason"] == "no time was left (K2K_UNTIL)"
