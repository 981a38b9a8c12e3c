"""Runs of Dagster export metrics where the pipeline file says so, each after the other at the same address."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollFailed
from k2k_assets.orchestration.runs import run_telemetry
from k2k_assets.orchestration.runs.run_telemetry import copy_telemetry, mapper_telemetry
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import GenerationStarted
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker_settings import free_ports
from k2k_assets_tests.orchestration.runs.test_termination import pipeline_file, running
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.polls import poll
from k2k_assets_tests.support.services.http_server import json_answer


def scraped(port: int) -> dict[str, float]:
    """Sums by name; nothing while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
    except OSError:
        return {}
    sums: dict[str, float] = {}
    for sample in (sample for family in families for sample in family.samples):
        sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    ports = dict(zip(("port", "mapperPort"), free_ports(2), strict=True))
    return make_pipeline(tmp_path, "a:1", "b:1", ["orders"], metrics={"dagsterRuns": "enabled", "prometheus": ports})


def test_a_run_that_moves_groups_tells_what_its_mapper_does(pipeline: Pipeline) -> None:
    seen: list[object] = []
    with mapper_telemetry(pipeline) as beside:
        listen = beside(seen.append)
        listen(poll({"a": CommitDecision.EXACT}, committed=frozenset("a")))
        listen(PollFailed("the source does not answer"))
        port = pipeline.metrics.prometheus.mapper_port
        assert port
        found = scraped(port)
        assert (found["k2k_offsetmapping_commits_total"], found["k2k_offsetmapping_poll_failures_total"]) == (1, 1)
        assert json_answer(f"http://127.0.0.1:{port}", "/health")[0] == 200
    assert len(seen) == 2
    assert scraped(port) == {}


def test_a_run_that_copies_tells_what_it_does(pipeline: Pipeline) -> None:
    seen: list[object] = []
    with copy_telemetry(pipeline) as telemetry:
        assert telemetry.reports
        telemetry.beside(seen.append)(GenerationStarted(7, 1, 1))
        assert scraped(pipeline.metrics.prometheus.port or 0)["k2k_generation"] == 7
    assert len(seen) == 1


def test_without_the_key_nothing_listens_and_nothing_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise AssertionError

    monkeypatch.setattr(run_telemetry, "_ensure_installed", fail)
    quiet = make_pipeline(tmp_path, "a:1", "b:1", ["orders"])
    with copy_telemetry(quiet) as telemetry, mapper_telemetry(quiet) as beside:
        assert telemetry.reports is None
        assert telemetry.beside(print) is print
        assert beside(print) is print


def test_a_variable_that_makes_no_sense_is_refused(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "statsd")
    with pytest.raises(Refused, match="statsd"), copy_telemetry(pipeline):
        pass


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.slow
def test_the_next_run_goes_on_at_the_same_address(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
    topic, (port,) = create_topic(clusters.source_servers, unique("observed")), free_ports(1)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(50)])
    path = pipeline_file(
        tmp_path, clusters, topic,
        features={"exactlyOnce": "enabled"}, spark={"master": "local[1]"},
        metrics={"dagsterRuns": "enabled", "prometheus": {"port": port}},
    )  # fmt: skip
    second_home = tmp_path / "second"
    second_home.mkdir()

    def copied(count: int) -> bool:
        return scraped(port).get("k2k_records_total") == count

    with running(path, tmp_path) as first:
        wait_until(lambda: first.poll() is not None or copied(50), 300, "the first run to copy")
        assert first.poll() is None, (tmp_path / "run.log").read_text()[-4000:]
        generation = scraped(port)["k2k_generation"]
        with running(path, second_home) as second:
            first.wait(300)  # it ends when the second one has taken over
            produce(clusters.source_servers, topic, [b"more"])
            wait_until(lambda: second.poll() is not None or copied(1), 300, "the second run to copy, and to answer")
            assert second.poll() is None, (second_home / "run.log").read_text()[-4000:]
            assert scraped(port)["k2k_generation"] > generation
            status, document = json_answer(f"http://127.0.0.1:{port}", "/health")
            assert (status, document["ready"]) == (200, True), json.dumps(document)
            second.send_signal(signal.SIGINT)
            second.wait(120)
