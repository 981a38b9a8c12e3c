"""`k2k start -t`: a scrape and an OTLP collector are told what is on the target, also when a worker was killed."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from k2k_assets.cli.main import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_copied, await_words, copy_workers, started
from k2k_assets_tests.support.services.http_server import json_answer
from k2k_assets_tests.support.services.otlp_collector import OtlpCollector, otlp_collector

FIRST, MORE = 3000, 40


def scraped(address: str) -> dict[tuple[str, str, str], float]:
    """Values by name, topic and partition."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, sample.labels.get("topic", ""), sample.labels.get("partition", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def slots_say(address: str, name: str, **labels: str) -> float:
    """Sum of the values that slots report under a name, of those that have the labels."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        samples = [s for family in text_string_to_metric_families(answer.read().decode()) for s in family.samples]
    return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())


class Durations(NamedTuple):
    """A histogram: how many values there were, and their sum in seconds."""

    number: float
    seconds: float

    @classmethod
    def scraped(cls, address: str, name: str, **labels: str) -> Durations:
        """As a scrape has it."""
        return cls(*(slots_say(address, f"{name}_seconds_{part}", **labels) for part in ("count", "sum")))


def newest_in_topic(servers: str, topic: str, metric: str) -> float:
    """The sum over all points of what the topic of metrics said last of each source topic; of histograms the count."""
    documents = [json.loads(record.value or b"") for record in read_all(servers, topic)]
    newest = {each.get("topic"): each["points"] for each in documents if each["metric"] == metric}
    values = [point["value"] for points in newest.values() for point in points]
    return float(sum(value["count"] if isinstance(value, dict) else value for value in values))


def health(address: str, path: str = "/health") -> tuple[int, Any]:
    return json_answer(address, path)


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.slow
def test_sums_are_what_was_copied(clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    good, bad = (create_topic(source, unique(name), 2) for name in ("good", "bad"))
    for partition in range(2):
        produce(source, good, [b"%d" % n for n in range(FIRST)], partition)
    produce(source, bad, [b"one"], 0)
    metrics_topic = unique("metrics")
    path = write_pipeline(
        tmp_path, source, target, [good, bad],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        coordination={"commit": {"batchSize": 50}},
        spark={"master": "local[2]"},
        metrics={"clientStatistics": "1 seconds", "kafka": {"topic": metrics_topic}},
    )  # fmt: skip
    log, written = tmp_path / "log", time.time()
    with otlp_collector() as (collector, collects):
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus,otlp,kafka")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collects)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
        with started("-f", path, "-t", log=log) as process:
            await_words(process, log, "/metrics")
            address = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())[0]  # type: ignore[index]
            assert health(address, "/live") == (200, {"live": True})
            assert health(address, "/ready")[0] == 503, "nothing is copied yet"
            assert health(address, "/nowhere")[0] == 404

            wait_until(lambda: scraped(address).get(("k2k_records_total", good, "0")), 150, "the first commit")
            wait_until(lambda: slots_say(address, "k2k_latency_seconds_count", topic=good), 120, "the first latency")
            before = Durations.scraped(address, "k2k_commit_duration")
            copy_workers(process)[0].kill()
            await_copied(process, target, good, 2 * FIRST)
            produce(source, good, [b"more"] * MORE, 0)
            await_copied(process, target, good, 2 * FIRST + MORE)

            def told(partition: str) -> float | None:
                return scraped(address).get(("k2k_records_total", good, partition))

            wait_until(lambda: (told("0"), told("1")) == (FIRST + MORE, FIRST), 120, "all to be counted")
            ensure_timed(address, good, before, written)
            # Commits are counted when they are read, the lag about once a second.
            wait_until(lambda: health(address)[1]["lag"] == 0, 120, "the lag to be 0")
            status, document = health(address)
            assert (status, document["ready"], document["stopped"]) == (200, True, {})
            assert scraped(address)["k2k_lag", good, "0"] == scraped(address)["k2k_lag_seconds", good, "0"] == 0

            # Of the worker that was killed some are missing, the others count what they send of control topics too.
            wait_until(lambda: slots_say(address, "k2k_producer_records_total") > MORE, 120, "statistics of producers")
            assert slots_say(address, "k2k_consumer_source_records_total") >= MORE
            # The slots of the job that runs now may not have reported yet, those before it have counted.
            wait_until(lambda: slots_say(address, "k2k_producer_brokers_connected") >= 1, 120, "connected producers")

            delete_topic(source, bad)
            wait_until(lambda: health(address)[0] == 503, 120, "the stop to show")
            assert health(address)[1]["stopped"] == {bad: "source-deleted"}
            assert health(address, "/ready")[0] == 200, "the others are copied on"
            wait_until(lambda: scraped(address)["k2k_partition_stopped", bad, "0"] == 1, 120, "the stop to be counted")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        assert collector.sum_of("k2k.records") == 2 * FIRST + MORE + 1 == len(read_all(target, good)) + 1
        assert collector.resources() == {"k2k"}
        for metric in ("k2k.records", "k2k.bytes", "k2k.transactions", "k2k.offset_ranges"):
            assert newest_in_topic(target, metrics_topic, metric) == collector.sum_of(metric), metric
        assert newest_in_topic(target, metrics_topic, "k2k.records") == 2 * FIRST + MORE + 1
        for metric in ("k2k.commit.duration", "k2k.latency"):
            assert newest_in_topic(target, metrics_topic, metric) == collector.count_of(metric) > 0, metric
        ensure_traced(collector, good)
        ensure_logged(collector, bad)


def ensure_timed(address: str, topic: str, before: Durations, written: float) -> None:
    """What slots had told before a worker was killed stays, and no commit is told twice, nor older than it can be.

    Args:
        address: Of the endpoint.
        topic: What is copied.
        before: The durations of commits, before the kill.
        written: The time of day before the first record was written.
    """

    def commits() -> Durations:
        return Durations.scraped(address, "k2k_commit_duration")

    wait_until(lambda: commits().number > before.number, 120, "the commits after the kill")
    assert commits().seconds > before.seconds > 0
    assert commits().number <= slots_say(address, "k2k_transactions_total"), "each is the commit of some partitions"
    latency = Durations.scraped(address, "k2k_latency", topic=topic)
    assert 0 < latency.number <= commits().number, "once for each commit and topic"
    assert 0 < latency.seconds <= latency.number * (time.time() - written)


def ensure_traced(collector: OtlpCollector, topic: str) -> None:
    """Sessions and commits are spans; commits are many, and few of them are."""
    sessions = [span for span in collector.spans if span.name == "session"]
    # The slot of the worker that was killed could tell nothing; the others were told to end by the signal.
    assert {span.attributes["aborted"] for span in sessions} <= {True, False}
    assert max(span.nanoseconds for span in sessions) > 10**9
    commits = [span for span in collector.spans if span.name == "commit"]
    assert {span.attributes["topic"] for span in commits} >= {topic}
    assert all(span.attributes["records"] >= 0 and span.nanoseconds >= 0 for span in commits)
    left_out = sum(span.attributes["commits_left_out"] for span in commits)
    # What was left out last is told by a commit that never came; how many commits there were is the counter's to tell.
    assert 0 < left_out <= collector.sum_of("k2k.transactions") - len(commits)


def ensure_logged(collector: OtlpCollector, topic: str) -> None:
    """What a slot logs of a stopped topic has all of its fields, though it was logged in a worker of Spark."""
    [stopped] = [
        line for line in collector.lines if "is stopped" in line.text and line.attributes.get("partition") == 0
    ]
    assert stopped.severity == "ERROR"
    assert stopped.attributes["topic"] == topic
    assert stopped.attributes["code"] == "source-deleted"
    assert {"pipeline", "instance", "slot", "generation"} <= stopped.attributes.keys()
    assert any(line.text.startswith("generation ") for line in collector.lines), "the driver's lines are there too"


@pytest.mark.parametrize("variables", [{"OTEL_METRICS_EXPORTER": "statsd"}, {"OTEL_EXPORTER_PROMETHEUS_PORT": "x"}])
def test_what_makes_no_sense_is_refused_before_anything_starts(
    tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = write_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["orders"])
    assert run(["start", "-t", "-f", str(path), "-w", "disabled"]) == 3
    assert next(iter(variables)) in capsys.readouterr().err


def test_an_address_that_is_taken_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["orders"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
        assert run(["start", "-t", "-f", str(path), "-w", "disabled"]) == 3
    assert f"telemetry cannot listen at 127.0.0.1:{port}" in " ".join(capsys.readouterr().err.split())
