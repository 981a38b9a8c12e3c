"""Control topics on a real cluster: their settings, and what happens when they are missing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from k2k_assets.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.topics.control_topics import control_topics, ensure_control_topics
from k2k_assets_tests.support.kafka import create_topic
from k2k_assets_tests.support.pipelines import make_pipeline

MAPPING = {"offsetMapping": "enabled"}


@pytest.mark.integration
def test_control_topics_are_created_with_their_settings(tmp_path: Path, target: Cluster) -> None:
    pipeline = make_pipeline(tmp_path, "source:9092", target.servers, ".*", features=MAPPING)
    commit, assignment = pipeline.coordination.commit.topic, pipeline.coordination.assignment.topic
    mapping = pipeline.offset_mapping.topic

    ensure_control_topics(pipeline, target)
    ensure_control_topics(pipeline, target)

    described = target.describe([commit, assignment, mapping])
    assert {name: topic.partitions for name, topic in described.items()} == {commit: 1, assignment: 1, mapping: 6}
    configs = target.topic_configs([commit, assignment, mapping])
    assert configs[commit]["cleanup.policy"] == configs[assignment]["cleanup.policy"] == "compact"
    assert configs[commit]["segment.bytes"] == "16777216"
    assert configs[mapping]["retention.ms"] == "-1"


@pytest.mark.integration
def test_settings_of_the_file_win(tmp_path: Path, target: Cluster) -> None:
    control = {
        "common": {"partitions": 3, "config": {"min.insync.replicas": "1"}},
        "offsetMapping": {"partitions": 2, "config": {"retention.ms": "604800000"}},
    }
    pipeline = make_pipeline(
        tmp_path, "source:9092", target.servers, ".*", features=MAPPING, topicCreation={"control": control}
    )
    ensure_control_topics(pipeline, target)
    mapping, commit = pipeline.offset_mapping.topic, pipeline.coordination.commit.topic
    assert {n: t.partitions for n, t in target.describe([mapping, commit]).items()} == {mapping: 2, commit: 3}
    assert target.topic_configs([mapping])[mapping]["retention.ms"] == "604800000"
    assert target.topic_configs([commit])[commit]["min.insync.replicas"] == "1"


@pytest.mark.integration
def test_missing_control_topics_are_named_with_the_flag(tmp_path: Path, target: Cluster) -> None:
    features = {"autoCreateControlTopics": "disabled"}
    pipeline = make_pipeline(tmp_path, "source:9092", target.servers, ".*", features=features)
    assignment, commit = pipeline.coordination.assignment.topic, pipeline.coordination.commit.topic
    with pytest.raises(Refused, match=f"{assignment}, {commit}.*'features.autoCreateControlTopics: enabled'"):
        ensure_control_topics(pipeline, target)
    assert target.describe([assignment, commit]) == {}


@pytest.mark.integration
def test_settings_that_lose_data_are_warned_of(
    tmp_path: Path, target: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = make_pipeline(tmp_path, "source:9092", target.servers, ".*", features=MAPPING)
    create_topic(target.servers, pipeline.coordination.commit.topic, config={"cleanup.policy": "delete"})
    create_topic(target.servers, pipeline.offset_mapping.topic, config={"cleanup.policy": "compact"})
    with caplog.at_level(logging.WARNING, "k2k.topics"):
        ensure_control_topics(pipeline, target)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"'{pipeline.coordination.commit.topic}' has cleanup.policy=delete",
        f"'{pipeline.offset_mapping.topic}' has cleanup.policy=compact",
    ]


def test_commit_and_assignment_may_be_one_topic(tmp_path: Path) -> None:
    one = {"commit": {"topic": "books"}, "assignment": {"topic": "books"}}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", coordination=one)
    assert list(control_topics(pipeline)) == ["books"]


def test_commits_are_spread_when_they_are_not_kept_together(tmp_path: Path) -> None:
    features = {"optimizeOffsetCommitPartition": "disabled"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", features=features)
    assert control_topics(pipeline)[pipeline.coordination.commit.topic].partitions == 6
