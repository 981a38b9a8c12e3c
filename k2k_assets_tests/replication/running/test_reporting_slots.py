"""Slots that report copy as others do, whoever listens: nothing depends on it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.own_sections import TransportForm
from k2k_assets.replication.plan import ReportAddress
from k2k_assets.replication.slot_reports import SessionEnded, Statistics
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.telemetry.report_server import report_server
from k2k_assets.transport.client_statistics import ClientKind
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.telemetry.test_reports import Heard

pytestmark = pytest.mark.integration

RECORDS = 3000


@pytest.fixture(params=["enabled", "disabled"])
def pipeline(request: pytest.FixtureRequest, clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("reporting"), 2)
    writer = NumberedWriter(clusters.source_servers, [], 0)
    for partition in range(2):
        writer.write(RECORDS, topic, partition, "plain")
    return make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features={"exactlyOnce": request.param, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={"commit": {"batchSize": 20}},  # seconds for each report would be minutes
        metrics={"clientStatistics": "100 milliseconds"},
    )  # fmt: skip


def ensure_copied(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    assert pipeline.selection.literal
    verdict = verify(pipeline, clusters.source_servers, clusters.target_servers, list(pipeline.selection.literal))
    assert (verdict.records, verdict.problems) == (2 * RECORDS, [])


@pytest.mark.parametrize("form", ["records", "batches"])
def test_what_a_slot_reports_is_what_it_copied(
    pipeline: Pipeline, clusters: KafkaSandbox, form: Literal["records", "batches"]
) -> None:
    pipeline = pipeline.model_copy(update={"transport": TransportForm(form=form)})
    heard = Heard()
    with report_server(pipeline, heard) as address:
        copy(pipeline, reports=address)
        wait_until(lambda: bool(heard.leavings), 120, "the slot to leave")
    ensure_copied(clusters, pipeline)
    sessions = [report for report in heard.reports if isinstance(report, SessionEnded)]
    assert ("", False) in {(session.error, session.aborted) for session in sessions}
    figures = [report for report in heard.reports if isinstance(report, Statistics)]
    # A session may begin anew and read again; librdkafka's last statistics may come before the last records.
    least = 2 * RECORDS if form == "batches" else 1
    assert _total(figures, "consumer") >= least
    assert _total(figures, "producer") >= least


def _total(figures: list[Statistics], kind: ClientKind) -> float:
    """Records of all clients of a kind, by the newest figures of each."""
    newest = {each.figures.client: each.figures.counters["records"] for each in figures if each.of == kind}
    return sum(newest.values())


@pytest.mark.parametrize("driver", ["gone", "silent"])
def test_a_driver_that_does_not_listen_changes_nothing(pipeline: Pipeline, clusters: KafkaSandbox, driver: str) -> None:
    with _nobody(driver) as port:
        began = time.monotonic()
        copy(pipeline, reports=ReportAddress("127.0.0.1", port, "token", 100, logs=True))
        assert time.monotonic() - began < 150
    ensure_copied(clusters, pipeline)


@contextmanager
def _nobody(driver: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        yield 1 if driver == "gone" else listens.getsockname()[1]
