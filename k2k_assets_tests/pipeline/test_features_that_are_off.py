"""Sections of disabled features are checked, and change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text, refusal

SETTINGS = {"partitions": 3, "replication": 2, "config": {"retention.ms": 1000}}
SECTIONS: dict[str, object] = {
    "tracing/headers": {"partition": "p", "offset": "o", "topic": "t", "pipeline": "n"},
    "schemaMapping": {
        "supportedTypes": ["AVRO"],
        "topics": [{"pattern": "a.*", "key": "enabled", "value": "disabled"}],
    },
    "bidirectional": {"mode": "cluster", "headers": {"bidirectional": "h"}},
    "source/registry": {"config": {"schema.registry.url": "http://r:8081"}, "headers": {"a": "b"}, "cacheSize": 5},
    "target/registry": {"config": {"schema.registry.url": "http://r:8081"}},
    "metrics": {
        "prefix": {"targetConsumer": "a.", "targetProducer": "b.", "sourceConsumer": "c.", "assignment": "d."},
        "kafka": {"topic": "my-metrics"},
    },
    "topicCreation/control/metrics": SETTINGS,
    "features/schemaMapping": "disabled",
    "features/bidirectionalReplication": "disabled",
    "features/tracingHeaders": {"partition": "disabled", "offset": "disabled"},
}


def test_sections_of_features_that_are_off_are_accepted_without_a_word(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed(SECTIONS))
    assert pipeline.warnings == ()
    assert pipeline.source.registry is not None
    assert (pipeline.source.registry.cache_size, pipeline.target.registry and pipeline.target.registry.cache_size) == (
        5,
        31,
    )
    assert pipeline.bidirectional.mode == "cluster"
    assert pipeline.metrics.kafka.topic == "my-metrics"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("tracing/headers/partion", "p", "tracing.headers.partion: unknown key; did you mean partition?"),
        ("tracing/headers/offset", "", "tracing.headers.offset: expected a text that is not empty"),
        ("tracing/headers/offset", "a\0b", "tracing.headers.offset: expected "),
        ("schemaMapping/supportedTypes", ["XML"], "schemaMapping.supportedTypes[0]: expected 'AVRO', 'JSON'"),
        ("schemaMapping/topics", [{"key": "enabled"}], "schemaMapping.topics[0].pattern: expected this key"),
        ("schemaMapping/topics", [{"pattern": "("}], "schemaMapping.topics[0].pattern: expected a regular expression"),
        ("bidirectional/mode", "both", "bidirectional.mode: expected 'pipeline' or 'cluster', found 'both'"),
        ("source/registry/cacheSize", 0, "source.registry.cacheSize: expected a number of at least 1"),
        ("source/registry/uri", "x", "source.registry.uri: unknown key"),
        (
            "metrics/prefix/targetProducr",
            "x",
            "metrics.prefix.targetProducr: unknown key; did you mean targetProducer?",
        ),
        ("metrics/kafka/topic", "a/b", "metrics.kafka.topic: expected a topic name"),
        ("features/tracingHeaders", "yes", "features.tracingHeaders: expected enabled, disabled, or each of"),
        ("features/tracingHeaders", {"offset": True}, "features.tracingHeaders.offset: expected enabled or disabled"),
        ("topicCreation/replication/common/partitions", 0, "partitions: expected a number of at least 1"),
        ("target/kafka/topicPropsExclusionList", "a", "topicPropsExclusionList: "),
    ],
)
def test_they_are_checked(tmp_path: Path, path: str, value: object, message: str) -> None:
    said = refusal(tmp_path, changed({path: value}))
    assert message in said
    assert "faults" not in said


def test_settings_of_topics_that_say_nothing_are_fine(tmp_path: Path) -> None:
    none = {"common": {"partitions": None, "replication": None}, "rules": []}
    load_text(tmp_path, changed({"topicCreation/replication": none, "target/kafka/topicPropsExclusionList": []}))


def test_the_license_is_one_line_of_information_whatever_it_holds(tmp_path: Path) -> None:
    for license_ in ({"acceptEula": True, "token": "x"}, {"acceptEula": "<set to true>", "seats": [1]}, "all mine"):
        pipeline = load_text(tmp_path, changed({"license": license_}))
        assert pipeline.infos == ("no effect: license: everything is free here",)
        assert pipeline.warnings == ()
    assert load_text(tmp_path, changed({"license": None})).infos == ()


def test_client_properties_without_effect_are_named_once_and_never_refused(tmp_path: Path) -> None:
    consumer = {
        "group.id": "g",
        "partition.assignment.strategy": ["org.apache.kafka.A", "org.apache.kafka.B"],
        "group.share.record.lock.duration.ms": 5,
        "metrics.log.level": "INFO",
        "sasl.jaas.config.jndi.allowlist": "none",
    }
    warnings = load_text(tmp_path, changed({"source/kafka/consumer": consumer})).warnings
    for key in list(consumer)[1:]:
        assert len([line for line in warnings if key in line]) == 1, key
    common = {"bootstrap.servers": "s:1", "metrics.log.level": "INFO"}
    (warning,) = load_text(tmp_path, changed({"source/kafka/common": common})).warnings
    assert warning.count("metrics.log.level") == 1


def test_a_list_is_still_no_value_of_a_property_that_has_an_effect(tmp_path: Path) -> None:
    said = refusal(tmp_path, changed({"source/kafka/common/bootstrap.servers": ["a:1", "b:1"]}))
    assert "found a list. Separate several values by commas." in said


@pytest.mark.parametrize(
    ("topic", "at"),
    [
        ("copy.$1", "topic"),
        ({"prefix": "copy.$1"}, "topic.prefix"),
        ({"static": "copy.$1"}, "topic.static"),
        ({"staticMapping": {"(.*)": "copy.$1"}}, 'topic.staticMapping."(.*)"'),
    ],
)
def test_a_template_as_the_target_is_told_as_such(tmp_path: Path, topic: object, at: str) -> None:
    said = refusal(tmp_path, changed({"replication/1/sink/topic": topic}))
    assert f"replication[1].sink.{at}: expected" in said
    assert "Templates such as $1 are not supported. Use prefix or suffix for all topics" in said


def test_a_file_for_the_mapper_alone_is_told_as_such(tmp_path: Path) -> None:
    text = TUTORIAL.partition("replication:")[0]
    assert refusal(tmp_path, text) == "0.yaml:1:1: replication: expected this key, found nothing"
    said = refusal(tmp_path, text + "groups: { pollInterval: 5 seconds }\n")
    assert said.endswith(
        "A file for the offset mapper alone has none: `k2k-offset-mapping validate` checks such a file"
    )
