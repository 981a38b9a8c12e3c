"""When a continuous run reports topics and consumer groups."""

from __future__ import annotations

from collections import Counter
from functools import partial

import dagster as dg
import pytest
from dagster._serdes import serialize_value

from k2k_assets.orchestration.assets.commit_log import commit_log_metadata
from k2k_assets.orchestration.assets.data_versions import provenance_tags
from k2k_assets.orchestration.assets.topics.topic_report import topic_report
from k2k_assets.orchestration.assets.topics.topic_results import Movement, live_metadata
from k2k_assets.orchestration.metadata import MOST_ROWS_AGAIN
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.report_schedule import (
    SHORTEST_SECONDS,
    Positions,
    ReportSchedule,
    group_report_interval,
    group_run_window,
    report_interval,
    run_window,
)
from k2k_assets.replication.driver.progress import PartitionProgress
from k2k_assets.status.positions import PositionRow

# Events per day for busy topics.
_PER_DAY = 5000
# Size of an event in the documentation.
_EVENT_BYTES = 6_000


def test_each_topic_is_reported_once_at_the_start_and_as_soon_as_it_appears() -> None:
    schedule = ReportSchedule(partial(report_interval, _PER_DAY))
    positions = {"a": (1, 2), "quiet": (0,)}
    assert schedule.due(positions, 0.0) == ["a", "quiet"]
    schedule.reported(positions, 0.0)
    assert schedule.due(positions, 1e6) == [], "nothing has moved"
    assert schedule.due({**positions, "new": (0,)}, 1.0) == ["new"]


def test_topics_that_moved_are_reported_when_it_is_time() -> None:
    schedule = ReportSchedule(partial(report_interval, _PER_DAY))
    schedule.reported({"a": (1, 2), "b": (3,)}, 100.0)
    moved = {"a": (1, 3), "b": (3,)}
    later = 100.0 + report_interval(_PER_DAY, [(1, 3)])
    assert schedule.due(moved, later - 0.1) == []
    assert schedule.due(moved, later) == ["a"]
    schedule.reported({"a": (1, 3)}, later)
    assert schedule.due(moved, later + 1e6) == []


@pytest.mark.parametrize("topics", [1, 3, 30, 300, 5000])
@pytest.mark.parametrize("partitions", [1, 20])
def test_what_runs_report_at_their_starts_is_within_the_budget_too(topics: int, partitions: int) -> None:
    """So of many topics there are few runs, and with few topics a run stays for `sync.window`."""
    window = run_window(3600.0, _PER_DAY, [partitions] * topics)
    alone = report_interval(_PER_DAY, [(0,) * partitions] * topics, topics)
    verdicts = 86_400 * topics / _PER_DAY
    assert window == pytest.approx(max(3600.0, alone + verdicts)), "one more report of all, with the checks"
    assert (window == 3600.0) == (topics <= 30)
    assert group_run_window(3600.0, _PER_DAY, 10) == 3600.0
    assert group_run_window(3600.0, _PER_DAY, topics) == max(3600.0, group_report_interval(_PER_DAY, range(topics)))


@pytest.mark.slow
@pytest.mark.parametrize("topics", [1, 3, 30, 1000])
def test_a_day_of_reports_is_within_the_budget(topics: int) -> None:
    schedule, now, events = ReportSchedule(partial(report_interval, _PER_DAY)), 0.0, 0
    position, step = 0, 10.0 if topics < 1000 else 100.0
    while now < 86_400.0:
        positions = {f"t{n}": (position,) for n in range(topics)}
        if due := schedule.due(positions, now):
            schedule.reported({topic: positions[topic] for topic in due}, now)
            events += 2 * len(due) + 1
        now, position = now + step, position + 1
    assert events <= _PER_DAY + 2 * topics + 1, "and what each run reports at its start"


def test_of_many_topics_a_few_at_a_time_are_reported_and_each_has_its_turn() -> None:
    """With each report goes what is shown of the whole pipeline: it is never old, however many topics move."""
    schedule, topics = ReportSchedule(partial(report_interval, _PER_DAY)), 30
    now, told, pauses = 0.0, Counter[str](), []
    schedule.reported({f"t{n}": (0,) for n in range(topics)}, now)
    last = now
    for position in range(1, 100_000):
        now += 10.0
        positions = {f"t{n}": (position,) for n in range(topics)}
        if due := schedule.due(positions, now):
            schedule.reported({topic: positions[topic] for topic in due}, now)
            told.update(due)
            pauses.append(now - last)
            last = now
        if len(pauses) == 60:
            break
    assert max(pauses) < 300.0
    assert len(told) == topics
    assert max(told.values()) - min(told.values()) <= 1


@pytest.mark.parametrize("topics", [3, 300, 1000, 5000])
def test_the_commit_log_of_many_topics_is_within_the_budget_in_bytes(topics: int) -> None:
    """It names each topic that it was made from: at most about half of all that is written is that."""
    names = AssetNames("large")
    keys = [names.topic_key(f"europe.shop-{n % 20:02}.order-events.v{n:04}") for n in range(topics)]
    tags = provenance_tags("0" * 16, None, dict.fromkeys(keys, "0" * 16))
    size = len(serialize_value(dg.AssetMaterialization(names.commit_log_key, tags=tags)))
    schedule = ReportSchedule(partial(report_interval, _PER_DAY))
    schedule.reported({f"t{n}": (0,) for n in range(topics)}, 0.0)
    moved: dict[str, Positions] = {f"t{n}": (1,) for n in range(topics)}
    due = schedule.due(moved, 1e9)
    alone = report_interval(_PER_DAY, [(1,)] * len(due))
    events = (report_interval(_PER_DAY, [(1,)] * len(due), topics) - alone) * _PER_DAY / 86_400
    assert size <= (events + 1) * _EVENT_BYTES
    assert size <= 1.2 * len(due) * 2 * _EVENT_BYTES


def test_what_was_reported_is_reported_once_more_when_all_is_told_anew() -> None:
    schedule = ReportSchedule(partial(group_report_interval, _PER_DAY))
    schedule.reported({"a": "here"}, 0.0)
    assert schedule.due({"a": "here"}, 1.0) == []
    schedule.begin_anew()
    assert schedule.due({"a": "here"}, 1.0) == ["a"]


def test_groups_have_an_event_each_and_one_together() -> None:
    assert group_report_interval(1000, range(50)) == pytest.approx(51 * 86.4)


def test_few_topics_are_not_reported_more_often_than_anybody_looks() -> None:
    assert report_interval(1_000_000, [(1,)]) == SHORTEST_SECONDS


def test_an_event_with_many_rows_counts_as_several() -> None:
    few, many = (report_interval(_PER_DAY, [_positions(partitions)] * 3) for partitions in (4, 400))
    assert many > 1.5 * few
    shown, not_shown = (report_interval(_PER_DAY, [_positions(n)]) for n in (MOST_ROWS_AGAIN, 10 * MOST_ROWS_AGAIN))
    assert shown == not_shown


def test_events_of_any_size_are_within_the_budget_in_bytes() -> None:
    """What Dagster writes for a topic of so many partitions, against what the budget is said to cost."""
    for partitions in (1, 8, 50, 500):
        ends = {n: 10**9 + n for n in range(partitions)}
        parts = {n: PartitionProgress(at, at, at, records=1000) for n, at in ends.items()}
        names = AssetNames("a pipeline")
        metadata = live_metadata("a topic", parts, Movement(30.0, 1000, 1000, 1000), 0.1)
        events = [*topic_report(names, "code", "a topic", ends, ends, metadata, "an id")]
        log = commit_log_metadata([_row(n, at) for n, at in ends.items()], 0, MOST_ROWS_AGAIN)
        events.append(dg.AssetMaterialization(names.commit_log_key, metadata=log))
        per_day = 86_400 / report_interval(_PER_DAY, [_positions(partitions)])
        assert sum(map(_bytes, events)) * per_day <= _PER_DAY * _EVENT_BYTES


def _positions(partitions: int) -> Positions:
    return (0,) * partitions


def _bytes(event: dg.AssetObservation | dg.AssetMaterialization) -> int:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(event)
        fetch = (
            instance.fetch_observations if isinstance(event, dg.AssetObservation) else instance.fetch_materializations
        )
        return len(serialize_value(fetch(event.asset_key, limit=1).records[0].event_log_entry))


def _row(partition: int, position: int) -> PositionRow:
    return PositionRow(
        topic="a topic",
        partition=partition,
        position=position,
        source_end=position + 5,
        lag=5,
        seconds_behind=0.125,
        target_topic="a topic",
        target_end=position,
        kind="commit",
        committed=10**12,
        owner="generation 123, slot 0",
        stop_code="",
        stop_reason="",
    )
