"""Log lines by OTLP, of this process and of its slots, with their fields."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from opentelemetry.sdk.resources import Resource

from k2k_assets.core import log_fields
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.log_fields import about, logged_with
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.reporter import SlotReporter
from k2k_assets.replication.slot_reports import Greeting, Report, SessionEnded
from k2k_assets.telemetry.exported_logs import exporting_logs
from k2k_assets.telemetry.report_server import ReportListeners, report_server
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.services.otlp_collector import otlp_collector
from k2k_assets_tests.telemetry.test_reports import Heard

ORDERS = TopicPartition("orders", 3)
_log = logging.getLogger("k2k.replication")


@pytest.fixture(autouse=True)
def _level() -> None:
    log_fields.forget()
    logging.getLogger("k2k").setLevel(logging.INFO)


def test_lines_of_this_process_have_their_fields_as_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_collector() as (collector, address):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with exporting_logs(("otlp",), Resource({})), logged_with(pipeline="p", slot=1):
            _log.error("%s is stopped", ORDERS, extra=about(reason=SourceDeleted("orders")))
            _log.debug("nobody wants that")
            try:
                raise ValueError("why")
            except ValueError:
                _log.exception("it failed")
        _log.error("nobody listens any more")
    stopped, failed = collector.lines
    assert (stopped.text, stopped.severity) == ("orders-3 is stopped", "ERROR")
    assert stopped.attributes == {
        "logger": "k2k.replication",
        "pipeline": "p",
        "slot": 1,
        "topic": "orders",
        "partition": 3,
        "code": "source-deleted",
    }
    assert failed.text.startswith("it failed\nTraceback")
    assert failed.text.endswith("ValueError: why")


def test_lines_of_slots_are_those_of_the_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"])
    heard = Heard()
    with otlp_collector() as (collector, otlp):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp)
        # Of another process, whose own lines are not these.
        with exporting_logs(("otlp",), Resource({})) as logs:
            assert logs
            logging.getLogger("k2k").removeHandler(logs)
            with report_server(pipeline, ReportListeners(heard, logs), logs=True) as address:
                plan = cast(SlotPlan, SimpleNamespace(reports=address, slot=3, generation=17))
                reporter = SlotReporter(plan)
                with logged_with(pipeline="p", slot=3, generation=17):
                    _log.warning("%s starts again", ORDERS)
                    _log.warning("x" * 100_000)
                with logged_with(slot=4, generation=17):
                    _log.warning("another slot of this process")
                reporter.close()
                _log.warning("behind it")
                wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    first, long = collector.lines
    assert (first.text, first.severity) == ("orders-3 starts again", "WARNING")
    assert first.attributes == {
        "logger": "k2k.replication",
        "pipeline": "p",
        "slot": 3,
        "generation": 17,
        "topic": "orders",
        "partition": 3,
    }
    assert set(long.text) == {"x"}
    assert len(heard.reports) == 2


def test_lines_stay_where_nobody_exports_logs(tmp_path: Path) -> None:
    heard = Heard()
    with report_server(make_pipeline(tmp_path, "a:1", "b:1", ["orders"]), heard) as address:
        reporter = SlotReporter(cast(SlotPlan, SimpleNamespace(reports=address, slot=3, generation=17)))
        with logged_with(slot=3, generation=17):
            _log.warning("a line")
        reporter.close()
        wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    assert heard.reports == []


def test_all_listeners_hear_all() -> None:
    one, other = Heard(), Heard()
    both, slot = ReportListeners(one, other), Greeting("", 1, 2)
    both.arrived(slot)
    report: Report = SessionEnded(1, 2, "", False)
    both.reported(slot, report)
    both.gone(slot)
    for heard in (one, other):
        assert (heard.arrivals, heard.reports, heard.leavings) == ([slot], [report], [slot])
