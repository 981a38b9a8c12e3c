"""Records that arrive and are dropped: the source is neither silent nor idle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from k2k_assets.replication.extent import Window
from k2k_assets_tests.replication.slot.session.harness import HOUR, P0, Harness, arrivals
from k2k_assets_tests.replication.slot.session.test_silent_source import Asked


def passing_for(made: Harness, seconds: float) -> Callable[[], int]:
    """Of each poll a record, for so long."""
    return lambda: int(made.clock.now - made.began < seconds)


def test_a_window_waits_for_what_lies_behind_them_and_the_source_is_not_asked(harness: Any) -> None:
    window = Window(HOUR, timedelta(seconds=5))
    made = harness(arrivals(7, at=40.0), {P0: 8}, extent=window, poll_seconds=0.1)
    asked = Asked(made, {"stable": {P0: 8}})
    made.source.left_out = passing_for(made, 40)
    assert made.session.copy()
    assert [t.offsets for t in made.copying if t.chunks] == [{P0: [7]}]
    assert made.clock.now - made.began == pytest.approx(45, abs=1)
    assert asked.at == []


def test_a_poll_that_was_full_of_them_leaves_the_transaction_open(harness: Any) -> None:
    """What was written just now may lie behind them."""
    made = harness(arrivals(0), {P0: 1}, extent=Window(timedelta(seconds=4), HOUR), poll_seconds=0.1)
    made.session.start()
    made.source.left_out = lambda: made.source.limits[-1]
    assert made.session.copy()
    assert made.times() == [pytest.approx(2.1, abs=0.11)]
