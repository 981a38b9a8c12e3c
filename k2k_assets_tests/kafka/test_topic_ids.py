"""A slot describes its topics with every commit: that must not cost memory."""

from __future__ import annotations

import gc

import pytest

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.kafka import create_topic, unique

pytestmark = pytest.mark.integration


def uuids() -> int:
    gc.collect()
    return sum(type(thing).__name__ == "Uuid" for thing in gc.get_objects())


def test_describing_topics_leaves_nothing_behind(clusters: KafkaSandbox) -> None:
    topic = create_topic(clusters.source_servers, unique("described"))
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
        first = source.describe([topic])[topic].topic_id
        before = uuids()
        assert {source.describe([topic])[topic].topic_id for _ in range(200)} == {first}
        assert uuids() - before < 20
