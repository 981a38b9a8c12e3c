"""Stops that slots have reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.reported_stops import ReportedStops


@pytest.mark.parametrize(
    ("record", "is_told"),
    [
        (None, True),
        (SimpleNamespace(reason=SourceDeleted("t"), generation=9), True),
        (SimpleNamespace(reason=None, generation=3), True),
        (SimpleNamespace(reason=None, generation=4), False),
    ],
    ids=["never begun", "stopped by another", "committed before", "copied or accepted since"],
)
def test_a_stop_is_told_at_the_end_unless_it_was_copied_on_since(record: Any, is_told: bool) -> None:
    """Also where the slots of a later generation ended before they could say it again."""
    tp = TopicPartition("t", 0)
    why = SourceDeleted("t")
    progress: Any = SimpleNamespace(newest={}, noted={})
    stops = ReportedStops(progress)
    stops.add(tp, why, 3)
    progress.newest = {tp: record} if record else {}
    assert stops.still_stopped() == ({tp: why} if is_told else {})


def test_a_stop_that_was_noted_is_told_already_and_would_come_again() -> None:
    tp, other = TopicPartition("t", 0), TopicPartition("t", 1)
    why = SourceDeleted("t")
    progress: Any = SimpleNamespace(newest={}, noted={tp: SimpleNamespace(generation=3)})
    stops = ReportedStops(progress)
    assert stops.would_stop_again() == {tp}
    assert not stops.add(tp, why, 3)
    assert stops.add(tp, why, 4), "that note is of an earlier generation"
    assert stops.add(other, why, 3)
    assert stops.would_stop_again() == {tp, other}


@pytest.mark.parametrize(("generation", "is_news"), [(3, True), (4, False)], ids=["before", "put right since"])
def test_a_stop_that_was_put_right_while_its_slot_worked_on_is_no_news(generation: int, is_news: bool) -> None:
    tp = TopicPartition("t", 0)
    record = SimpleNamespace(reason=None, generation=generation)
    progress: Any = SimpleNamespace(newest={tp: record}, noted={})
    assert ReportedStops(progress).add(tp, SourceDeleted("t"), 3) is is_news


@pytest.mark.parametrize(("generation", "would"), [(3, True), (4, False)], ids=["before", "put right since"])
def test_a_stop_that_is_reported_when_it_was_put_right_would_not_come_again(generation: int, would: bool) -> None:
    """Else an instance that stands by would never take the partition up: no record follows until it does."""
    tp = TopicPartition("t", 0)
    progress: Any = SimpleNamespace(newest={tp: SimpleNamespace(reason=None, generation=generation)}, noted={})
    stops = ReportedStops(progress)
    stops.add(tp, SourceDeleted("t"), 3)
    assert (tp in stops.would_stop_again()) is would
