"""Prometheus over real programs: the queries in examples/ find what they ask for, and an alert fires."""

from __future__ import annotations

import copy
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.cli.test_mapper_telemetry import MAPPER
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import K2K, await_copied, await_words, started
from k2k_assets_tests.support.services.prometheus import prometheus
from k2k_assets_tests.support.services.promql import RULES, queries, scraped_metrics, what_is_missing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.own_clusters,
    pytest.mark.spark,
    pytest.mark.slow,
]

RECORDS = 100


@dataclass(frozen=True)
class Programs:
    """A replication and a mapper with their endpoints.

    Attributes:
        topic: A topic that is copied.
        stopped: One that is stopped.
        copies: Host and port of the endpoint of the replication.
        maps: Host and port of that of the mapper.
    """

    topic: str
    stopped: str
    copies: str
    maps: str

    def scrape(self) -> list[str]:
        """What both tell."""
        return [_text(address) for address in (self.copies, self.maps)]


def _text(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def programs(clusters: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    source, target = clusters.source_servers, clusters.target_servers
    folder = tmp_path_factory.mktemp("alerts")
    topic, stopped = create_topic(source, unique("orders")), create_topic(source, unique("stopped"))
    for name in (topic, stopped):
        produce(source, name, [b"%d" % n for n in range(RECORDS)], 0)
    path = write_pipeline(
        folder, source, target, [topic, stopped],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"pollInterval": "200 milliseconds", "consumerGroups": f"{topic}-.*"},
        spark={"master": "local[2]"}, metrics={"clientStatistics": "1 seconds"},
    )  # fmt: skip
    commit(source, f"{topic}-group", {TopicPartition(topic, 0): 7})
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
        patch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
        patch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
        addresses: list[str] = []
        for program in (K2K, MAPPER):
            log = folder / f"log-{len(addresses)}"
            process = stack.enter_context(started("-f", path, "-t", k2k=program, log=log))
            await_words(process, log, "/metrics")
            if program is K2K:
                await_copied(process, target, topic, RECORDS)
            addresses.append(re.search(r"http://(127\.0\.0\.1:\d+)", log.read_text())[1])  # type: ignore[index]
        delete_topic(source, stopped)
        found = Programs(topic, stopped, *addresses)
        wait_until(lambda: "k2k_producer_brokers_connected" in found.scrape()[0], 120, "the statistics of clients")
        wait_until(lambda: 'code="source-deleted"' in found.scrape()[0], 120, "the stop to show")
        wait_until(lambda: "k2k_offsetmapping_mapped_end" in found.scrape()[1], 120, "the first poll")
        yield found


def test_each_query_in_the_examples_asks_for_metrics_and_labels_that_there_are(programs: Programs) -> None:
    metrics = scraped_metrics(*programs.scrape())
    assert {place: missing for place, query in queries() if (missing := what_is_missing(query, metrics))} == {}


@pytest.mark.prometheus
def test_the_target_is_away_and_an_alert_fires(programs: Programs, clusters: KafkaSandbox, tmp_path: Path) -> None:
    rules = yaml.safe_load(RULES.read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["for"] = "0s"
        if rule["alert"] == "K2KLagging":
            before = copy.copy(rule["expr"])
            rule["expr"] = before.replace("> 60", "> 3")
            assert rule["expr"] != before
    targets = {"k2k": programs.copies, "k2k-offset-mapping": programs.maps}
    lag = f'max by (topic) (k2k_lag_seconds{{topic="{programs.topic}"}})'
    with prometheus(tmp_path, targets, rules) as server:

        def behind() -> float:
            return next(iter(server.query(lag).values()), -1.0)

        wait_until(lambda: behind() == 0, 120, "a scrape of a copy without lag")
        assert set(server.query("up").values()) == {1.0}
        wait_until(lambda: "K2KTopicStopped" in server.firing(), 120, "the alert on the stopped topic")
        [stop] = server.firing()["K2KTopicStopped"]
        assert (stop["topic"], stop["code"]) == (programs.stopped, "source-deleted")
        assert "K2KLagging" not in server.firing()

        clusters.target.kill()
        produce(clusters.source_servers, programs.topic, [b"late"], 0)
        wait_until(lambda: behind() > 3, 120, "the lag in seconds to rise")
        first = behind()
        wait_until(lambda: behind() > first + 3, 120, "it to rise on")
        wait_until(lambda: "K2KLagging" in server.firing(), 120, "the alert")
        assert {alert["topic"] for alert in server.firing()["K2KLagging"]} == {programs.topic}

        clusters.target.start()
        wait_until(lambda: behind() == 0, 120, "the copy to catch up")
        wait_until(lambda: "K2KLagging" not in server.firing(), 120, "the alert to end")
