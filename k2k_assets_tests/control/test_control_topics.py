"""Control topics on a real cluster: their settings, and what happens when they are missing."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from k2k_assets.control.control_settings import Settings, judge
from k2k_assets.control.control_topics import control_topics, ensure_control_topics
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import load_pipeline
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

MAPPING = {"offsetMapping": "enabled"}


@pytest.mark.integration
def test_control_topics_are_created_with_their_settings(tmp_path: Path, target: Cluster) -> None:
    commit, assignment, mapping = (unique(name) for name in ("commits", "claims", "mappings"))
    pipeline = make_pipeline(
        tmp_path, "source:9092", target.servers, ".*", features=MAPPING, offsetMapping={"topic": mapping},
        coordination={"commit": {"topic": commit}, "assignment": {"topic": assignment}},
    )  # fmt: skip

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
    """Those of a topic over those of all."""
    control = {
        "common": {"partitions": 3, "config": {"min.insync.replicas": "1", "segment.bytes": "1048576"}},
        "assignment": {"partitions": 4, "config": {"segment.bytes": "2097152"}},
        "offsetMapping": {"partitions": 2, "config": {"retention.ms": "604800000"}},
    }
    made = [control, {**control, "commit": {"partitions": 5, "config": {"segment.bytes": "3145728"}}}]
    for commit_alone, wanted in enumerate(made):
        pipeline = make_pipeline(
            tmp_path, "source:9092", target.servers, ".*", features=MAPPING, topicCreation={"control": wanted}
        )
        ensure_control_topics(pipeline, target)
        names = (
            pipeline.coordination.commit.topic,
            pipeline.coordination.assignment.topic,
            pipeline.offset_mapping.topic,
        )
        described, configs = target.describe(names), target.topic_configs(names)
        assert [described[name].partitions for name in names] == [5 if commit_alone else 3, 4, 2]
        segments = ["3145728" if commit_alone else "1048576", "2097152", "1048576"]
        assert [configs[name]["segment.bytes"] for name in names] == segments
        assert {configs[name]["min.insync.replicas"] for name in names} == {"1"}
        assert configs[names[2]]["retention.ms"] == "604800000"


@pytest.mark.integration
@pytest.mark.parametrize("which", ["common", "commit", "assignment", "offsetMapping"])
def test_more_replicas_than_brokers_are_refused_by_the_target(tmp_path: Path, target: Cluster, which: str) -> None:
    control = {which: {"replication": 3}}
    pipeline = make_pipeline(
        tmp_path, "s:9092", target.servers, ".*", features=MAPPING, topicCreation={"control": control}
    )
    topics = {
        "commit": pipeline.coordination.commit.topic,
        "assignment": pipeline.coordination.assignment.topic,
        "offsetMapping": pipeline.offset_mapping.topic,
    }
    named = "|".join(topics.values()) if which == "common" else topics[which]
    with pytest.raises(Refused, match=rf"did not create the topic '({named})'.*INVALID_REPLICATION_FACTOR"):
        ensure_control_topics(pipeline, target)


@pytest.mark.integration
def test_missing_control_topics_are_named_with_the_flag(tmp_path: Path, target: Cluster) -> None:
    features = {"autoCreateControlTopics": "disabled"}
    pipeline = make_pipeline(tmp_path, "source:9092", target.servers, ".*", features=features)
    assignment, commit = pipeline.coordination.assignment.topic, pipeline.coordination.commit.topic
    with pytest.raises(Refused, match=f"{assignment}, {commit}.*'features.autoCreateControlTopics: enabled'"):
        ensure_control_topics(pipeline, target)
    assert target.describe([assignment, commit]) == {}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("which", "config", "words"),
    [
        ("commit", {"cleanup.policy": "delete"}, "cleanup.policy=delete and retention.ms=604800000: positions"),
        ("assignment", {"cleanup.policy": "compact,delete"}, "cleanup.policy=compact,delete and retention.ms="),
        ("mapping", {"cleanup.policy": "compact"}, "cleanup.policy=compact: compaction removes mappings"),
        ("commit", {"cleanup.policy": "compact", "min.insync.replicas": "2"}, "replication factor of 1: nothing can"),
    ],
)
def test_settings_that_lose_bookkeeping_by_themselves_are_refused(
    tmp_path: Path, target: Cluster, which: str, config: dict[str, str], words: str
) -> None:
    path = write_pipeline(tmp_path, "source:9092", target.servers, ".*", features=MAPPING)
    pipeline = load_pipeline([path])
    name = {
        "commit": pipeline.coordination.commit.topic,
        "assignment": pipeline.coordination.assignment.topic,
        "mapping": pipeline.offset_mapping.topic,
    }[which]
    create_topic(target.servers, name, config=config)
    with pytest.raises(Refused, match=f"'{name}' has .*{re.escape(words)}") as refused:
        ensure_control_topics(pipeline, target)
    assert "validateControlTopicSettings: disabled" in str(refused.value)
    assert len(target.describe(list(control_topics(pipeline)))) == 1, "nothing was created"

    unasked = tmp_path / "unasked.yaml"
    unasked.write_text("features: { validateControlTopicSettings: disabled }")
    ensure_control_topics(load_pipeline([path, unasked]), target)
    assert len(target.describe(list(control_topics(pipeline)))) == 3


@pytest.mark.integration
def test_settings_that_are_doubtful_are_warned_of(
    tmp_path: Path, target: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    asked = {"commit": {"partitions": 3}, "offsetMapping": {"partitions": 1}}
    pipeline = make_pipeline(
        tmp_path, "source:9092", target.servers, ".*", features=MAPPING, topicCreation={"control": asked}
    )
    commit, mapping = pipeline.coordination.commit.topic, pipeline.offset_mapping.topic
    create_topic(target.servers, commit, config={"cleanup.policy": "delete", "retention.ms": "-1"})
    create_topic(target.servers, mapping, config={"retention.bytes": "1000000"})
    with caplog.at_level(logging.WARNING, "k2k.topics"):
        ensure_control_topics(pipeline, target)
    said = sorted(record.getMessage() for record in caplog.records)
    assert [line.partition(". ")[0] for line in said] == [
        f"'{commit}' has cleanup.policy=delete: it grows without end",
        f"'{commit}' has partitions=1, topicCreation.control asks for 3: a control topic that exists is not changed, "
        "and any number will do",
        f"'{mapping}' has retention.ms=604800000 and retention.bytes=1000000: mappings that are older get lost",
    ]


@pytest.mark.integration
def test_settings_of_the_file_are_judged_before_anything_is_created(tmp_path: Path, target: Cluster) -> None:
    control = {"commit": {"config": {"cleanup.policy": "delete", "retention.ms": "1000"}}}
    pipeline = make_pipeline(tmp_path, "s:9092", target.servers, ".*", topicCreation={"control": control})
    with pytest.raises(Refused, match=r"cleanup.policy=delete and retention.ms=1000: positions and claims get lost"):
        ensure_control_topics(pipeline, target)
    assert target.describe(list(control_topics(pipeline))) == {}


@pytest.mark.integration
def test_one_that_can_never_be_written_is_not_created(tmp_path: Path, target: Cluster) -> None:
    control = {"common": {"replication": 1, "config": {"min.insync.replicas": "2"}}}
    pipeline = make_pipeline(tmp_path, "s:9092", target.servers, ".*", topicCreation={"control": control})
    with pytest.raises(Refused, match=r"min.insync.replicas=2 and a replication factor of 1: nothing can be written"):
        ensure_control_topics(pipeline, target)
    assert target.describe(list(control_topics(pipeline))) == {}


@pytest.mark.integration
def test_what_the_brokers_choose_is_judged_too(tmp_path: Path, target: Cluster) -> None:
    """The replication is theirs where the file has none."""
    control = {"common": {"config": {"min.insync.replicas": "2"}}}
    pipeline = make_pipeline(tmp_path, "s:9092", target.servers, ".*", topicCreation={"control": control})
    with pytest.raises(Refused, match=r"min.insync.replicas=2 and a replication factor of 1: nothing can be written"):
        ensure_control_topics(pipeline, target)


@pytest.mark.integration
def test_positions_are_kept_for_ever_even_where_the_file_has_them_deleted(tmp_path: Path, target: Cluster) -> None:
    control = {"commit": {"config": {"cleanup.policy": "compact,delete"}}}
    pipeline = make_pipeline(tmp_path, "s:9092", target.servers, ".*", topicCreation={"control": control})
    ensure_control_topics(pipeline, target)
    commit = pipeline.coordination.commit.topic
    config = target.topic_configs([commit], only_changed=False)[commit]
    assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")


def test_a_mapping_topic_takes_long_records() -> None:
    def warned(mapping: bool, size: str) -> list[str]:
        policy = "delete" if mapping else "compact"
        return judge(Settings("books", mapping, {"cleanup.policy": policy, "max.message.bytes": size})).warnings

    assert warned(True, "1048588") == warned(True, "") == warned(False, "100000") == []
    (line,) = warned(True, "100000")
    assert line.startswith("'books' has max.message.bytes=100000: a transaction whose mapping record is longer is")


def test_what_is_no_number_is_left_to_the_target() -> None:
    assert judge(Settings("books", False, {"min.insync.replicas": "abc"}, 3, brokers=3)).refusals == []


@pytest.mark.parametrize(
    ("config", "replication", "brokers", "warned"),
    [
        ({}, 3, 3, "has 3 replicas and min.insync.replicas=1: the loss of one broker can lose what was acknowledged"),
        ({"min.insync.replicas": "2"}, 3, 3, None),
        ({}, 1, 3, "has a replication factor of 1 on 3 brokers: it is lost with its broker. Give it 3 replicas"),
        ({}, 1, 1, None),
        ({"unclean.leader.election.enable": "true"}, 2, 3, "has unclean.leader.election.enable=true"),
        ({"unclean.leader.election.enable": "true"}, 1, 1, None),
    ],
)
def test_what_is_lost_with_brokers(config: dict[str, str], replication: int, brokers: int, warned: str | None) -> None:
    for mapping, policy in ((True, "delete"), (False, "compact")):
        given = {"cleanup.policy": policy, "retention.ms": "-1", **config}
        judged = judge(Settings("books", mapping, given, replication, brokers))
        assert judged.refusals == []
        assert [warned in line for line in judged.warnings if warned] == ([True] if warned else [])
        assert bool(judged.warnings) == (warned is not None)


def test_commit_and_assignment_may_be_one_topic(tmp_path: Path) -> None:
    one = {"commit": {"topic": "books"}, "assignment": {"topic": "books"}}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", coordination=one)
    assert list(control_topics(pipeline)) == ["books"]


def test_commits_are_spread_when_they_are_not_kept_together(tmp_path: Path) -> None:
    features = {"optimizeOffsetCommitPartition": "disabled"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", features=features)
    assert control_topics(pipeline)[pipeline.coordination.commit.topic].partitions == 6
