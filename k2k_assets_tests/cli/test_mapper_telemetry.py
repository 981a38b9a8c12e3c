"""`k2k-offset-mapping start -t`: what is scraped is what the groups hold, on real clusters."""

from __future__ import annotations

import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, end_offsets, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_words, started
from k2k_assets_tests.support.services.http_server import json_answer
from k2k_assets_tests.support.services.otlp_collector import otlp_collector

MAPPER = (sys.executable, "-m", "k2k_assets.cli.offset_mapping")
PREFIX = "k2k_offsetmapping_"


class Scrape:
    """The samples of one scrape."""

    def __init__(self, address: str) -> None:
        with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the sample that has these labels; None if there is none."""
        found = [
            sample.value
            for sample in self._samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values that are not 0, by a label."""
        return {
            sample.labels[label]: sample.value
            for sample in self._samples
            if sample.name == PREFIX + name and sample.value
        }


@pytest.mark.integration
@pytest.mark.slow
def test_a_scrape_tells_what_the_groups_hold(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, elsewhere = create_topic(source, unique("orders"), 2), create_topic(source, unique("elsewhere"))
    for partition in range(2):
        produce(source, topic, [b"%d" % n for n in range(50)], partition, transactional_id=unique("tx"))
    metrics_topic = unique("metrics")
    path = write_pipeline(
        tmp_path, source, target, [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"pollInterval": "100 milliseconds", "consumerGroups": f"{topic}-.*"},
        index={"path": str(tmp_path / "index")},
        metrics={"kafka": {"topic": metrics_topic}},
    )  # fmt: skip
    pipeline = load_pipeline([path])
    copy(pipeline)
    at = [TopicPartition(topic, partition) for partition in range(2)]
    good, ahead, foreign, lost = (f"{topic}-{name}" for name in ("good", "ahead", "foreign", "lost"))
    commit(source, good, {at[0]: 7, at[1]: 9})
    commit(source, foreign, {at[0]: 3})
    commit(target, foreign, {at[0]: 5}, "of somebody else")
    commit(source, lost, {at[0]: 10_000, TopicPartition(elsewhere, 0): 0})
    with otlp_collector() as (collector, collects):
        for name, value in (
            ("OTEL_METRICS_EXPORTER", "prometheus,otlp,kafka"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collects),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
            ("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1"),
            ("OTEL_EXPORTER_PROMETHEUS_PORT", "0"),
        ):
            monkeypatch.setenv(name, value)
        log = tmp_path / "log"
        with started("-f", path, "-t", k2k=MAPPER, log=log) as process:
            await_words(process, log, "/metrics")
            address = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())[0]  # type: ignore[index]
            assert json_answer(address, "/live") == (200, {"live": True})
            wait_until(lambda: json_answer(address, "/ready")[0] == 200, 120, "the first poll")
            assert json_answer(address, "/health")[1]["attention"] == {lost: "unknown"}

            now = Scrape(address)
            assert now.by("groups", "state") == {"exact": 1, "foreign": 1, "unknown": 1}
            assert now.by("positions", "state") == {"exact": 2, "foreign": 1, "unknown": 1}
            assert now.value("commits_total") == 1, "one group, once"
            ends, holds = end_offsets(target, topic), held(target, good)
            left = sum(ends[tp.partition] - holds[tp][0] for tp in at)
            assert now.value("group_lag", group=good, cluster="target") == left
            source_ends = end_offsets(source, topic)
            assert now.value("group_lag", group=good, cluster="source") == sum(source_ends.values()) - 7 - 9
            # The copy has passed the marker of the source's transaction too.
            assert [now.value("mapped_end", topic=topic, partition=str(p)) for p in range(2)] == [
                source_ends[p] for p in range(2)
            ]
            mappings = [
                record
                for record in read_all(target, pipeline.offset_mapping.topic)
                if topic.encode() in (record.key or b"")
            ]
            assert now.value("mapping_records_total") == len(mappings) > 0
            polls = now.value("poll_duration_seconds_count")
            assert polls
            assert now.value("index_end", topic=topic, partition="0") is None, "there is no index"

            commit(source, good, {at[0]: 20})
            produce(source, topic, [b"more"], 0)
            commit(source, ahead, {at[0]: source_ends[0] + 1})
            wait_until(lambda: Scrape(address).by("groups", "state").get("ahead") == 1, 120, "the new group to show")
            wait_until(lambda: held(target, good)[at[0]][0] == 20, 120, "the group to move")
            now = Scrape(address)
            assert now.value("commits_total") == 3, "the new group, and the one that moved"
            assert (now.value("poll_duration_seconds_count") or 0) > polls
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        assert process.returncode == 0
        assert collector.sum_of("k2k.offsetmapping.commits") == 3
        assert collector.resources() == {"k2k-offset-mapping"}
    assert b'"k2k.offsetmapping.groups"' in b"".join(record.value or b"" for record in read_all(target, metrics_topic))
    delete_topic(source, elsewhere)
