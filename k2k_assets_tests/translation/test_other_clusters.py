"""Commit topics of other pipelines that come, go, or cannot be looked at for a while."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.other_clusters import LOOK_SECONDS, OtherClusters
from k2k_assets_tests.support.brokers.kafka import delete_topic, produce, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


class _World:
    """A cluster to which others are copied, and somebody who looks now and then which ones."""

    def __init__(self, clusters: KafkaSandbox, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.other: Pipeline = make_pipeline(directory, clusters.target_servers, clusters.source_servers, ["t"])
        own = make_pipeline(directory, clusters.source_servers, clusters.target_servers, ["t"])
        self._time = 0.0
        self._looks = OtherClusters(own, cluster, "known", (), lambda: self._time)

    def create(self) -> None:
        ensure_control_topics(self.other, self.cluster)

    def note(self, cluster: str, into: str) -> None:
        """Notes that a cluster is copied to a topic."""
        record = CommitRecord(
            "group", cluster, TopicPartition("t", 0), "commit", "pipeline", 1, 0, "sid", into, "tid", 1, 1, 0, 1, 0
        )
        topic = self.other.coordination.commit.topic
        produce(self.cluster.servers, topic, [(record.key_bytes(), record.value_bytes())])

    def look(self, into: str) -> str | None:
        self._time += LOOK_SECONDS
        self._looks.refresh(30)
        return self._looks.into(Target(into, "tid", 0))


@pytest.fixture
def world(clusters: KafkaSandbox, tmp_path: Path) -> Any:
    with Cluster("target", {"bootstrap.servers": clusters.source_servers}) as cluster:
        yield _World(clusters, cluster, tmp_path)


def test_a_commit_topic_that_was_created_anew_is_read_from_its_start(world: _World) -> None:
    before, since = unique("before"), unique("since")
    for topic, cluster in ((before, "third"), (since, "fourth")):
        world.create()
        world.note(cluster, topic)
        assert world.look(topic) == cluster
        delete_topic(world.cluster.servers, world.other.coordination.commit.topic)
    assert world.look(before) == "third"


def test_a_topic_of_which_nothing_was_told_is_looked_at_again(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    into, commits, hidden = unique("into"), world.other.coordination.commit.topic, [True]
    world.create()
    world.note("third", into)
    tell = world.cluster.topic_configs

    def told(names: Collection[str], **how: Any) -> dict[str, dict[str, str]]:
        return {name: found for name, found in tell(names, **how).items() if name != commits or not hidden}

    monkeypatch.setattr(world.cluster, "topic_configs", told)
    assert world.look(into) is None
    hidden.clear()
    assert world.look(into) == "third"
