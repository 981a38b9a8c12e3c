"""Spans of sessions, commits and polls, and how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.replication.driver.events import Committed, GenerationStarted
from k2k_assets.replication.slot_reports import Greeting, SessionEnded
from k2k_assets.telemetry.tracing import COMMITS_A_SECOND, CopySpans, PollSpans, TracedReports, tracing
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.polls import poll

ORDERS = TopicPartition("orders", 0)
MS = 1_000_000


class Spans:
    """What makes spans, and what was made."""

    def __init__(self, directory: Path) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer, self.clock = provider.get_tracer("test"), FakeClock()
        self.pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"])
        self.copy = CopySpans(self.tracer, self.pipeline, self.clock)

    def made(self) -> list[ReadableSpan]:
        """The spans so far, each once."""
        found = list(self._kept.get_finished_spans())
        self._kept.clear()
        return found


@pytest.fixture
def spans(tmp_path: Path) -> Spans:
    return Spans(tmp_path)


def commit(time: int, position: int = 7) -> Committed:
    return Committed(ORDERS, position, 7, 3, 300, 1, 17, 2, time)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_commit_begins_at_the_one_before(spans: Spans) -> None:
    for event in (GenerationStarted(17, 1, 1), commit(1000), commit(1040, 9), commit(1030)):
        spans.copy.listen(event)
    first, second, back = spans.made()
    assert (first.start_time, first.end_time) == (1000 * MS, 1000 * MS)
    assert (second.start_time, second.end_time) == (1000 * MS, 1040 * MS)
    assert (back.start_time, back.end_time) == (1030 * MS, 1030 * MS), "clocks go back now and then"
    assert attributes(second) == {
        "pipeline": spans.pipeline.name,
        "slot": 2,
        "generation": 17,
        "topic": "orders",
        "partition": 0,
        "offset": 9,
        "records": 3,
        "bytes": 300,
        "commits_left_out": 0,
    }
    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id != second.context.trace_id


def test_of_hundreds_of_commits_a_second_some_are_spans_and_the_rest_is_counted(spans: Spans) -> None:
    for n in range(500):
        spans.copy.listen(commit(n))
    assert [span.name for span in spans.made()] == ["commit"] * COMMITS_A_SECOND
    spans.clock.advance(1)
    spans.copy.listen(commit(1000))
    [next_one] = spans.made()
    assert attributes(next_one)["commits_left_out"] == 500 - COMMITS_A_SECOND
    assert next_one.start_time == next_one.end_time, "of the one before nothing is known any more"


def test_sessions_are_told_with_the_error_that_ended_them(spans: Spans) -> None:
    reports, slot = TracedReports(spans.copy), Greeting("", 2, 17)
    reports.arrived(slot)
    reports.reported(slot, SessionEnded(1000, 3000, "Restart", True))
    reports.reported(slot, SessionEnded(3000, 4000, "", False))
    reports.gone(slot)
    failed, good = spans.made()
    assert (failed.name, failed.start_time, failed.end_time) == ("session", 1000 * MS, 3000 * MS)
    assert failed.status.status_code is StatusCode.ERROR
    named = {"pipeline": spans.pipeline.name, "slot": 2, "generation": 17}
    assert attributes(failed) == {**named, "aborted": True, "error.type": "Restart"}
    assert good.status.status_code is StatusCode.UNSET
    assert attributes(good) == {**named, "aborted": False}


def test_polls_take_as_long_as_they_took(spans: Spans) -> None:
    polls = PollSpans(spans.tracer, spans.pipeline, spans.clock)
    polls.polled(poll({"a": CommitDecision.EXACT}, committed=frozenset("a"), seconds=0.25))
    polls.polled(poll({}, failed={"b": "no answer"}))
    good, failed = spans.made()
    assert (good.name, (good.end_time or 0) - (good.start_time or 0)) == ("poll", 250 * MS)
    assert (attributes(good)["groups"], attributes(good)["committed"]) == (1, 1)
    assert failed.status.status_code is StatusCode.ERROR


def test_without_an_exporter_there_is_no_tracer() -> None:
    with tracing((), Resource({})) as tracer:
        assert tracer is None
