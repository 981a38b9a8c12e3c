"""The order in which missing topics are created on the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.control.control_topics import control_topics
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.planning import prepare
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

# The target refuses to create a topic with it.
REFUSED = {"replication": {"common": {"config": {"retention.ms": "no number"}}}}


def _pipeline(directory: Path, clusters: KafkaSandbox, **sections: object) -> Pipeline:
    topic, control = create_topic(clusters.source_servers, unique("created")), unique("control")
    names = {name: {"topic": f"{control}-{name}"} for name in ("commit", "assignment")}
    servers = clusters.source_servers, clusters.target_servers
    return make_pipeline(directory, *servers, topic, coordination=names, **sections)


def _created_control_topics(pipeline: Pipeline, refusal: str) -> set[str]:
    """Those that are there after a refused start."""
    with both_clusters(pipeline) as (source, target):
        with pytest.raises(Refused, match=refusal):
            prepare(pipeline, source, target, None)
        return set(target.describe(control_topics(pipeline)))


def test_the_control_topics_come_before_the_copies(tmp_path: Path, clusters: KafkaSandbox) -> None:
    """A run writes heartbeats to one of them: without any, while thousands of copies are created, it counts as dead."""
    pipeline = _pipeline(tmp_path, clusters, topicCreation=REFUSED)
    assert _created_control_topics(pipeline, r"retention\.ms") == control_topics(pipeline).keys()


def test_none_is_created_where_the_copies_must_not_be(tmp_path: Path, clusters: KafkaSandbox) -> None:
    pipeline = _pipeline(tmp_path, clusters, features={"autoCreateTopics": "disabled"})
    assert _created_control_topics(pipeline, "topics are missing") == set()
