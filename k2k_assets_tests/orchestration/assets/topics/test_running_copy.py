"""The answer to a click on Materialize: which instance copies continuously, and how far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.coordination.liveness import heartbeat_interval_seconds
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.topics import running_copy
from k2k_assets.orchestration.assets.topics.running_copy import followed_topics
from k2k_assets.orchestration.assets.topics.topic_results import followed_materialization
from k2k_assets.overrides.pausing import pause_topics
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy
from k2k_assets_tests.support.copies.takeovers import pipeline_of

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _busy_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats that should come each second may be late."""

    def interval(pipeline: Pipeline) -> float:
        return max(15.0, heartbeat_interval_seconds(pipeline))

    monkeypatch.setattr(running_copy, "heartbeat_interval_seconds", interval)


@pytest.fixture
def topics(clusters: KafkaSandbox) -> list[str]:
    return [create_topic(clusters.source_servers, unique("followed"), 2) for _ in range(2)]


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path, topics: list[str]) -> Pipeline:
    return pipeline_of(clusters, tmp_path, topics, grace=3)


@pytest.fixture
def both(pipeline: Pipeline) -> Iterator[tuple[Cluster, Cluster]]:
    with both_clusters(pipeline) as found:
        yield found


def test_what_somebody_copies_is_followed_up_to_where_the_source_was(
    clusters: KafkaSandbox, pipeline: Pipeline, both: tuple[Cluster, Cluster], topics: list[str]
) -> None:
    assert followed_topics(pipeline, *both, topics) == {}, "nobody has worked yet"
    running = Running(pipeline, 1, run="the-run")
    for topic in topics:
        produce(clusters.source_servers, topic, [b"v"] * 5, 1)
    running.await_copied(10)
    followed = followed_topics(pipeline, *both, topics)
    assert followed.keys() == set(topics)
    for one in followed.values():
        assert (dict(one.ends), dict(one.positions), one.lag) == ({0: 0, 1: 5}, {0: 0, 1: 5}, 0)
        assert "Dagster run the-run" in one.copied_by
        assert followed_materialization("a topic", one).metadata[keys.TRANSPORT_FORM] == "batches"
    running.end()
    assert followed_topics(pipeline, *both, topics) == {}


def test_no_heartbeat_is_waited_for_of_a_run_whose_process_lives(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("followed"))
    pipeline = pipeline_of(clusters, tmp_path, [topic], grace=600)
    running = Running(pipeline, 1, run="the-run")
    produce(clusters.source_servers, topic, [b"v"] * 5, 0)
    running.await_copied(5)
    began = time.monotonic()
    with both_clusters(pipeline) as both:
        followed = followed_topics(pipeline, *both, [topic], lambda run: run == "the-run")
    assert followed[topic].lag == 0
    assert time.monotonic() - began < heartbeat_interval_seconds(pipeline)
    running.end()


def test_a_topic_that_is_stopped_is_not_followed(
    clusters: KafkaSandbox, pipeline: Pipeline, both: tuple[Cluster, Cluster], topics: list[str]
) -> None:
    good, bad = topics
    running = Running(pipeline, 1)
    for topic in topics:
        produce(clusters.source_servers, topic, [b"v"] * 5, 0)
    running.await_copied(10)
    delete_topic(clusters.target_servers, bad)
    produce(clusters.source_servers, bad, [b"v"], 0)
    wait_until(lambda: any(p.stopped for p in running.progress.partitions.values()), 120, "the stop")  # type: ignore[union-attr]
    assert followed_topics(pipeline, *both, topics).keys() == {good}
    running.end()


def test_a_paused_topic_is_shown_as_paused_and_not_waited_for(
    clusters: KafkaSandbox, pipeline: Pipeline, both: tuple[Cluster, Cluster], topics: list[str]
) -> None:
    going, held = topics
    running = Running(pipeline, 1)
    for topic in topics:
        produce(clusters.source_servers, topic, [b"v"] * 5, 0)
    running.await_copied(10)
    pause_topics(pipeline, *both, [held], "me", "month end")
    wait_until(lambda: running.progress and held in running.progress.paused, 120, "the pause to be seen")
    wait_until(lambda: {r.kind for r in _newest(pipeline, clusters, held)} == {"release"}, 120, "the topic to be left")
    produce(clusters.source_servers, held, [b"v"] * 7, 0)
    followed = followed_topics(pipeline, *both, topics)
    assert followed[going].paused is None
    assert (followed[held].lag, str(followed[held].paused)) == (7, "paused by me: month end")
    shown = followed_materialization(held, followed[held])
    assert shown.metadata[keys.PAUSED] == "paused by me: month end"
    assert keys.PAUSED not in followed_materialization(going, followed[going]).metadata
    running.end()


def _newest(pipeline: Pipeline, clusters: KafkaSandbox, topic: str) -> list[CommitRecord]:
    newest = {r.source: r for r in commit_records(pipeline, clusters.target_servers) if r.source.topic == topic}
    return list(newest.values())


def test_a_copy_with_an_end_is_nobody_to_rely_on(
    clusters: KafkaSandbox, pipeline: Pipeline, both: tuple[Cluster, Cluster], topics: list[str]
) -> None:
    produce(clusters.source_servers, topics[0], [b"v"] * 5, 0)
    copy(pipeline)
    assert followed_topics(pipeline, *both, topics) == {}
