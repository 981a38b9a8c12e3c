"""The health of an instance, by what it was told and when."""

from __future__ import annotations

import urllib.error
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from k2k_assets.core.clock import Clock
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Ended, ProgressRead
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.telemetry import lag_seconds
from k2k_assets.telemetry.endpoint import endpoint
from k2k_assets.telemetry.health import SILENT_SECONDS, HealthWatch
from k2k_assets.telemetry.lag_seconds import LagSeconds
from k2k_assets_tests.support.services.http_server import json_answer

ORDERS, RETURNS = TopicPartition("orders", 0), TopicPartition("returns", 1)


class Time:
    """A clock that stands still."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def progress(partitions: dict[TopicPartition, PartitionProgress]) -> ProgressRead:
    return ProgressRead(Progress(partitions, 0.0))


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def watch(clock: Time) -> HealthWatch:
    return HealthWatch(cast(Clock, clock))


def test_it_is_not_ready_while_the_target_is_silent(watch: HealthWatch) -> None:
    """The driver asks the source once a second meanwhile, so there is news all the time."""
    news = progress({ORDERS: PartitionProgress(3, 5, 5)})
    watch.listen(replace(news, progress=replace(news.progress, silence=45.0)))
    assert watch.health().ready, "an idle target is asked each half minute"
    watch.listen(replace(news, progress=replace(news.progress, silence=91.0)))
    assert watch.health().why_not == "it has read no progress for 91 s: the target does not answer"


def test_it_is_ready_as_long_as_it_reads_its_progress(watch: HealthWatch, clock: Time) -> None:
    assert watch.health().why_not == "it has not begun to copy yet"
    watch.listen(progress({ORDERS: PartitionProgress(3, 5, 5)}))
    assert watch.health() == (True, "", 2, {"orders": 2}, {})
    clock.now += SILENT_SECONDS + 1
    assert "read no progress for 61 s" in watch.health().why_not
    watch.listen(progress({ORDERS: PartitionProgress(5, 5, 5)}))
    assert watch.health().ready
    watch.listen(Ended(cast(Outcome, None)))
    assert watch.health().why_not == "it has ended"


def test_a_source_that_does_not_answer_makes_it_unready_and_no_topic_at_all_does_not(watch: HealthWatch) -> None:
    watch.listen(progress({ORDERS: PartitionProgress(3, END_UNKNOWN, END_UNKNOWN)}))
    assert not watch.health().ready
    watch.listen(progress({}))
    assert watch.health().ready


def test_ends_that_are_old_make_it_unready_and_a_stopped_topic_has_none(watch: HealthWatch) -> None:
    watch.listen(progress({ORDERS: PartitionProgress(3, 5, 5, is_end_old=True)}))
    assert "told the end of no partition within the last 60 s" in watch.health().why_not
    watch.listen(progress({ORDERS: PartitionProgress(3, END_UNKNOWN, END_UNKNOWN, stopped=SourceDeleted("orders"))}))
    assert watch.health().ready, "the source answers"


def test_stopped_topics_are_named_with_the_code(watch: HealthWatch) -> None:
    stopped = PartitionProgress(3, 5, 5, stopped=SourceDeleted(RETURNS.topic))
    watch.listen(progress({ORDERS: PartitionProgress(5, 5, 5), RETURNS: stopped}))
    assert watch.health().ready, "the others are copied on"
    assert watch.health().stopped == {"returns": "source-deleted"}


def test_what_the_endpoint_answers(watch: HealthWatch) -> None:
    with endpoint("127.0.0.1", 0, watch.health) as address:
        assert json_answer(address, "/") == json_answer(address, "/live") == (200, {"live": True})
        assert json_answer(address, "/ready")[0] == json_answer(address, "/health")[0] == 503
        watch.listen(progress({ORDERS: PartitionProgress(5, 5, 5, stopped=SourceDeleted("orders"))}))
        assert json_answer(address, "/ready")[0] == 200
        status, document = json_answer(address, "/health")
        assert (status, document["stopped"], document["why_not"]) == (503, {"orders": "source-deleted"}, "")
        assert json_answer(address, "/secrets")[0] == 404
    with pytest.raises(urllib.error.URLError):
        json_answer(address, "/live")


def test_seconds_behind_are_read_once_in_a_while_and_never_told_of_what_has_caught_up(
    clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[dict[TopicPartition, tuple[int, int]]] = []

    def oldest(wanted: dict[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
        looks.append(wanted)
        return {tp: 990_000 for tp in wanted if tp == ORDERS}

    records = SimpleNamespace(oldest=oldest, close=lambda: None)
    monkeypatch.setattr(lag_seconds, "WaitingRecords", lambda _: records)
    seconds = LagSeconds(cast(Pipeline, None), cast(Clock, clock))
    behind = Progress({ORDERS: PartitionProgress(3, 5, 5), RETURNS: PartitionProgress(3, 4, 4)}, 0.0)
    assert seconds.read(behind) == {ORDERS: 10.0}, "of the other one nobody knows"
    assert seconds.read(behind) == {ORDERS: 10.0}
    assert len(looks) == 1
    caught_up = Progress(
        {ORDERS: PartitionProgress(5, 5, 5), RETURNS: PartitionProgress(0, END_UNKNOWN, END_UNKNOWN)}, 0.0
    )
    assert seconds.read(caught_up) == {ORDERS: 0.0}
    clock.now += 6
    assert seconds.read(behind) == {ORDERS: 16.0}
    assert len(looks) == 2
