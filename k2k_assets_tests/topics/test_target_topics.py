"""Creation of target topics on real clusters, and refusals before any is created."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import K2KError, Refused
from k2k_assets.kafka.cluster import Cluster, ConfigValue
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.target_topics import ensure_target_topics
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


def pipeline_of(tmp_path: Path, source: Cluster, target: Cluster, topics: list[str], **rest: Any) -> Pipeline:
    return make_pipeline(tmp_path, source.servers, target.servers, topics, **rest)


def counts(cluster: Cluster, *names: str) -> dict[str, int]:
    return {name: topic.partitions for name, topic in cluster.describe(names).items()}


def test_missing_topics_are_created_like_their_sources(tmp_path: Path, source: Cluster, target: Cluster) -> None:
    compacted, plain = unique("compacted"), unique("plain")
    config = {"cleanup.policy": "compact", "max.message.bytes": "5000000"}
    create_topic(source.servers, compacted, 3, config)
    create_topic(source.servers, plain, 1)
    pipeline = pipeline_of(tmp_path, source, target, [compacted, plain], sink={"prefix": "copy."})
    topics = {compacted: 3, plain: 1}

    created = ensure_target_topics(pipeline, source, target, topics)

    assert created == [f"copy.{compacted}", f"copy.{plain}"]
    assert counts(target, *created) == {f"copy.{compacted}": 3, f"copy.{plain}": 1}
    assert target.topic_configs(created) == {f"copy.{compacted}": config, f"copy.{plain}": {}}
    assert ensure_target_topics(pipeline, source, target, topics) == []


def test_configs_of_one_cluster_only_are_not_mirrored(tmp_path: Path, source: Cluster, target: Cluster) -> None:
    topic = unique("throttled")
    config = {
        "follower.replication.throttled.replicas": "0:1",
        "leader.replication.throttled.replicas": "0:1",
        "message.timestamp.before.max.ms": "3600000",
        "min.insync.replicas": "2",
        "retention.ms": "1234567",
    }
    create_topic(source.servers, topic, 1, config)
    ensure_target_topics(pipeline_of(tmp_path, source, target, [topic]), source, target, {topic: 1})
    assert target.topic_configs([topic]) == {topic: {"retention.ms": "1234567"}}


def test_topics_are_created_as_the_file_says(tmp_path: Path, source: Cluster, target: Cluster) -> None:
    """`common`, the first rule that matches over it, and configs that are not taken over."""
    plain, ruled = unique("plain"), unique("ruled")
    config = {"retention.ms": "7000", "max.message.bytes": "5000000", "segment.ms": "60000"}
    for topic in (plain, ruled):
        create_topic(source.servers, topic, 2, config)
    common = {"config": {"retention.ms": 9000}, "replication": 1}
    rules = [
        {"pattern": "ruled.*", "properties": {"partitions": 5, "config": {"cleanup.policy": "compact,delete"}}},
        {"pattern": ".*", "properties": {"partitions": None}},
    ]
    servers = {"common": {"bootstrap.servers": target.servers}, "topicPropsExclusionList": ["segment.ms"]}
    pipeline = make_pipeline(
        tmp_path,
        source.servers,
        target.servers,
        [plain, ruled],
        sink={"prefix": "copy."},
        topicCreation={"replication": {"common": common, "rules": rules}},
        target={"kafka": servers},
    )

    created = ensure_target_topics(pipeline, source, target, {plain: 2, ruled: 2})

    assert counts(target, *created) == {f"copy.{plain}": 2, f"copy.{ruled}": 5}
    kept = {"retention.ms": "9000", "max.message.bytes": "5000000"}
    assert target.topic_configs(created) == {
        f"copy.{plain}": kept,
        f"copy.{ruled}": {**kept, "cleanup.policy": "compact,delete"},
    }
    assert target.replicas(created) == dict.fromkeys(created, 1)


def test_too_few_partitions_in_the_file_are_refused_before_anything_is_created(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    wide, other = unique("wide"), unique("other")
    create_topic(source.servers, wide, 4)
    create_topic(source.servers, other, 1)
    settings = {"topicCreation": {"replication": {"common": {"partitions": 3}}}}
    pipeline = pipeline_of(tmp_path, source, target, [wide, other], **settings)
    with pytest.raises(Refused, match=f"gives the topic '{wide}' 3 partitions and its source '{wide}' has 4"):
        ensure_target_topics(pipeline, source, target, {wide: 4, other: 1})
    assert counts(target, wide, other) == {}
    spread = pipeline_of(tmp_path, source, target, [wide], partition="producer", **settings)
    assert ensure_target_topics(spread, source, target, {wide: 4}) == [wide]
    assert counts(target, wide) == {wide: 3}


@pytest.mark.parametrize(
    "replication", [{"rules": [{"pattern": ".*", "properties": {"replication": 3}}]}, {"common": {"replication": 3}}]
)
def test_more_replicas_than_brokers_are_refused_by_the_target(
    tmp_path: Path, source: Cluster, target: Cluster, replication: dict[str, Any]
) -> None:
    topic = unique("replicas")
    create_topic(source.servers, topic, 1)
    pipeline = pipeline_of(tmp_path, source, target, [topic], topicCreation={"replication": replication})
    with pytest.raises(Refused, match=rf"did not create the topic '{topic}'.*INVALID_REPLICATION_FACTOR"):
        ensure_target_topics(pipeline, source, target, {topic: 1})


def test_several_sources_into_one_topic_take_the_largest_count(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    small, large, together = unique("small"), unique("large"), unique("together")
    create_topic(source.servers, small, 2)
    create_topic(source.servers, large, 5)
    pipeline = pipeline_of(tmp_path, source, target, [small, large], sink={"static": together})
    assert ensure_target_topics(pipeline, source, target, {small: 2, large: 5}) == [together]
    assert counts(target, together) == {together: 5}


def test_too_few_target_partitions_are_refused_before_anything_is_created(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    wide, other = unique("wide"), unique("other")
    create_topic(source.servers, wide, 4)
    create_topic(source.servers, other, 1)
    create_topic(target.servers, wide, 3)
    create_topic(target.servers, other, 1)
    features = {"autoCreateTopics": "disabled"}
    pipeline = pipeline_of(tmp_path, source, target, [wide, other], features=features)
    with pytest.raises(Refused, match=f"'{wide}' has 3 partitions and its source '{wide}' has 4"):
        ensure_target_topics(pipeline, source, target, {wide: 4, other: 1})
    assert counts(target, wide) == {wide: 3}


def test_a_target_topic_grows_with_its_sources_where_topics_may_be_created(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    wide, wider, together = unique("wide"), unique("wider"), unique("together")
    create_topic(source.servers, wide, 4)
    create_topic(source.servers, wider, 5)
    create_topic(target.servers, together, 3)
    pipeline = pipeline_of(tmp_path, source, target, [wide, wider], sink={"static": together})
    assert ensure_target_topics(pipeline, source, target, {wide: 4, wider: 5}) == []
    assert counts(target, together) == {together: 5}
    assert ensure_target_topics(pipeline, source, target, {wide: 4}) == []
    assert counts(target, together) == {together: 5}


def test_too_few_target_partitions_are_fine_where_the_producer_chooses(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    wide = unique("wide")
    create_topic(source.servers, wide, 4)
    create_topic(target.servers, wide, 3)
    pipeline = pipeline_of(tmp_path, source, target, [wide], partition="producer")
    assert ensure_target_topics(pipeline, source, target, {wide: 4}) == []


def test_missing_topics_that_must_not_be_created_are_all_named(
    tmp_path: Path, source: Cluster, target: Cluster
) -> None:
    first, second = sorted([unique("absent"), unique("absent")])
    pipeline = pipeline_of(tmp_path, source, target, [first, second], features={"autoCreateTopics": "disabled"})
    with pytest.raises(Refused, match=rf"{target.servers}.*: {first}, {second}\. .*features.autoCreateTopics"):
        ensure_target_topics(pipeline, source, target, {first: 1, second: 1})
    assert counts(target, first, second) == {}


def test_config_that_the_target_refuses_is_named_with_its_value(
    tmp_path: Path, source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("future")
    create_topic(source.servers, topic, 1)
    # Both brokers are of one version: a config that only the source knows has to be played.
    config = {topic: {"retention.ms": ConfigValue("1000", True), "shiny.new.config": ConfigValue("42", True)}}
    monkeypatch.setattr(source, "config_values", lambda _: config)
    pipeline = pipeline_of(tmp_path, source, target, [topic])
    with pytest.raises(Refused, match=rf"'{topic}'.*Refused: shiny\.new\.config=42\. "):
        ensure_target_topics(pipeline, source, target, {topic: 1})


def test_topic_routed_to_itself_is_refused(tmp_path: Path, source: Cluster) -> None:
    topic = unique("self")
    create_topic(source.servers, topic, 1)
    pipeline = pipeline_of(tmp_path, source, source, [topic])
    with pytest.raises(Refused, match=f"same cluster.*copied for ever: {topic} -> {topic}"):
        ensure_target_topics(pipeline, source, source, {topic: 1})


def test_topics_that_feed_each_other_are_refused(tmp_path: Path, source: Cluster) -> None:
    a, b = unique("a"), unique("b")
    pipeline = pipeline_of(tmp_path, source, source, [a, b], sink={"staticMapping": {a: b, b: a}})
    with pytest.raises(Refused, match=f"{a} -> {b} -> {a}"):
        ensure_target_topics(pipeline, source, source, {a: 1, b: 1})


def test_pattern_that_selects_its_own_copies_is_refused(tmp_path: Path, source: Cluster) -> None:
    topic = unique("grow")
    pipeline = make_pipeline(tmp_path, source.servers, source.servers, f".*{topic}", sink={"prefix": "x."})
    with pytest.raises(Refused, match=rf"{topic} -> x\.{topic} -> x\.x\.{topic}"):
        ensure_target_topics(pipeline, source, source, {topic: 1})


def test_copy_under_another_name_on_the_same_cluster_is_fine(tmp_path: Path, source: Cluster) -> None:
    topic = unique("twin")
    create_topic(source.servers, topic, 2)
    pipeline = pipeline_of(tmp_path, source, source, [topic], sink={"suffix": ".copy"})
    assert ensure_target_topics(pipeline, source, source, {topic: 2}) == [f"{topic}.copy"]


def test_copy_over_a_control_topic_is_refused(tmp_path: Path, source: Cluster, target: Cluster) -> None:
    pipeline = pipeline_of(
        tmp_path, source, target, ["orders"],
        sink={"static": "books"}, coordination={"commit": {"topic": "books"}},
    )  # fmt: skip
    with pytest.raises(Refused, match="'orders' would be copied into 'books', which holds bookkeeping"):
        ensure_target_topics(pipeline, source, target, {"orders": 1})


def test_several_instances_may_create_at_once(tmp_path: Path, source: Cluster, target: Cluster) -> None:
    names = [unique("race") for _ in range(5)]
    for name in names:
        create_topic(source.servers, name, 2)
    pipeline = pipeline_of(tmp_path, source, target, names)
    created: list[str] = []
    errors: list[K2KError] = []
    together = threading.Barrier(4)

    def create() -> None:
        together.wait(10)
        try:
            created.extend(ensure_target_topics(pipeline, source, target, dict.fromkeys(names, 2)))
        except K2KError as error:
            errors.append(error)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert sorted(created) == sorted(names), "each topic is created by one of them"
    assert counts(target, *names) == dict.fromkeys(names, 2)
