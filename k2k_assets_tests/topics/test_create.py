"""Waiting for created topics on a fake cluster, which is slow to list and to serve them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.create import WantedTopic, create_topics, grow_topics
from k2k_assets_tests.support.copies.pipelines import make_pipeline


class SlowCluster:
    """Creates at once, shows topics and partitions after some looks and serves them after some more."""

    role, servers, timeout = "target", "slow:9092", 5.0

    def __init__(self, shown_after: int, served_after: int) -> None:
        self.looks = self.asked = 0
        self._shown_after, self._served_after = shown_after, served_after
        self.admin = SimpleNamespace(create_topics=self._create, create_partitions=self._create)
        self.grows = False

    def _create(self, new: Iterable[Any], **_: object) -> dict[str, SimpleNamespace]:
        return {topic.topic: SimpleNamespace(result=lambda timeout: None) for topic in new}

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        self.looks += 1
        shown = self.looks > self._shown_after
        return {name: TopicDescription(name, "id", 2 if shown else 1) for name in names if shown or self.grows}

    def offsets(self, partitions: Collection[TopicPartition], _: str) -> None:
        self.asked += 1
        assert len(partitions) == 2
        if self.asked <= self._served_after:
            raise Refused("Not leader for partition")

    def __str__(self) -> str:
        return "target cluster (slow:9092)"


def create(pipeline: Pipeline, cluster: SlowCluster) -> list[str]:
    return create_topics(pipeline, cast(Cluster, cluster), [WantedTopic("orders", 2)])[0]


def _waiting(directory: Path, attempts: int) -> Pipeline:
    delay = {"autoControlTopicCreationCheckDelay": "20 milliseconds"}
    waiting = {**delay, "autoControlTopicCreationMaxAttempts": attempts}
    return make_pipeline(directory, "s:9092", "t:9092", ".*", configuration=waiting)


@pytest.fixture
def patient(tmp_path: Path) -> Pipeline:
    """Waits for 10 s, looking every 20 milliseconds."""
    return _waiting(tmp_path, 500)


@pytest.fixture
def impatient(tmp_path: Path) -> Pipeline:
    """Waits for 0.1 s."""
    return _waiting(tmp_path, 5)


def test_topics_are_awaited_until_they_are_served(patient: Pipeline) -> None:
    cluster = SlowCluster(shown_after=1, served_after=1)
    assert create(patient, cluster) == ["orders"]
    assert (cluster.looks, cluster.asked) == (3, 2)


def test_more_partitions_are_awaited_too(patient: Pipeline) -> None:
    cluster = SlowCluster(shown_after=2, served_after=1)
    cluster.grows = True
    grow_topics(patient, cast(Cluster, cluster), {"orders": 2})
    assert (cluster.looks, cluster.asked) == (4, 2)


def test_topics_that_are_not_shown_in_time_are_named(impatient: Pipeline) -> None:
    with pytest.raises(Refused, match=r"slow:9092.*does not show all of orders after 0\.1 s"):
        create(impatient, SlowCluster(shown_after=1000, served_after=0))


def test_topics_that_are_not_served_in_time_come_with_the_brokers_reason(impatient: Pipeline) -> None:
    with pytest.raises(Refused, match=r"does not serve them: Not leader for partition after 0\.1 s"):
        create(impatient, SlowCluster(shown_after=0, served_after=1000))
