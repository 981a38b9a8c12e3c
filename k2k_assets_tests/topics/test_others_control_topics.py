"""Control topics of other pipelines on the source, under names of their own: no expression matches them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from k2k_assets import control
from k2k_assets.control import mapper_claims
from k2k_assets.control.assignment_records import (
    heartbeat_key,
    instance_key,
    run_heartbeat_key,
    settings_key,
    start_key,
    stop_key,
)
from k2k_assets.control.control_topics import control_topics
from k2k_assets.control.pause_records import pause_key
from k2k_assets.control.stop_notes import note_key
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import discover
from k2k_assets.kafka.cluster import Cluster, ConfigValue, SeenConfigs
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topics import others_control_topics as module
from k2k_assets.topics.others_control_topics import is_control_key, others_control_topics
from k2k_assets.topics.selection import resolve_topics
from k2k_assets_tests.control.test_golden_bytes import COMMIT, GOLDEN
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.parametrize(
    "key",
    [
        COMMIT.key_bytes(),
        instance_key("g", "i"),
        heartbeat_key("g", 0, 1),
        run_heartbeat_key("g", "r"),
        stop_key("g", 0),
        start_key("g", "t"),
        settings_key("g", "f"),
        pause_key("g", "t"),
        b'{"group":"g","topic":"t","partition":0}',
        note_key("g", "c", TopicPartition("t", 0)),
        b'{"kind":"mapper","pipeline":"p","mapper":"m"}',
        b'{"kind":"mapper-beat","pipeline":"p","mapper":"m","group":"g"}',
    ],
)
def test_keys_of_control_records(key: bytes) -> None:
    assert is_control_key(key)


def test_the_keys_above_are_those_of_all_kinds() -> None:
    """A kind that is added to the assignment topic has to be recognised: compaction may make it the first record."""
    written = "".join(path.read_text(encoding="utf-8") for path in Path(control.__file__).parent.glob("*.py"))
    kinds = set(re.findall(r'(?:"kind": |tag=)"([a-z-]+)"', written)) | {
        mapper_claims.KIND,
        mapper_claims.HEARTBEAT_KIND,
    }
    assert len(kinds) >= 10
    keys = {kind: json.dumps({"kind": kind, "group": "g"}).encode() for kind in sorted(kinds)}
    assert [kind for kind, key in keys.items() if not is_control_key(key)] == []


def test_a_kind_of_a_newer_release_is_known_by_the_settings_of_its_topic() -> None:
    key = b'{"kind":"to-come","group":"g"}'
    assert (is_control_key(key), is_control_key(key, any_kind=True)) == (False, True)
    assert not is_control_key(b'{"kind":"order"}', any_kind=True)


@pytest.mark.parametrize("name", [name for name in GOLDEN if "key" in name])
def test_the_keys_that_releases_have_written(name: str) -> None:
    assert is_control_key(GOLDEN[name][1])


@pytest.mark.parametrize(
    "key",
    [
        b"", b"17", b"\x00\x01", b"null", b"[]", b'{"id":1}', b'{"kind":"order"}', b'{"kind":{}}', b"{",
        b'{"kind":"start","order":7}', b'{"kind":"stop","pipeline":"north"}', b'{"kind":{},"group":"g"}',
        b'{"group":"g","topic":"t","partition":0,"customer":7}', b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_keys_of_data(key: bytes) -> None:
    assert not is_control_key(key)


def _resolved(pipeline: Pipeline) -> set[str]:
    with both_clusters(pipeline) as (source, target):
        found = set(resolve_topics(pipeline, source))
        assert set(discover(pipeline, source, target).topics) == found
    return found


CREATED_AS_IN_THE_SAMPLE = {"offsetMapping": {"config": {"retention.ms": "604800000"}}}
"""What K2K's sample says of the mapping topic."""

OVERLAID: list[dict[str, Any]] = [
    {},
    CREATED_AS_IN_THE_SAMPLE,
    {"common": {"config": {"retention.ms": "604800000", "segment.bytes": "1000000", "max.message.bytes": "9000000"}}},
]


class PlayedSource:
    """A source whose topics have settings of their own, each set on the topic itself unless they are defaults."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]], defaults: Mapping[str, str]) -> None:
        self._configs = {
            name: {
                **{key: ConfigValue(value, is_changed=False) for key, value in defaults.items()},
                **{key: ConfigValue(value, is_changed=True) for key, value in config.items()},
            }
            for name, config in topics.items()
        }

    def seen_configs(self, names: Collection[str]) -> SeenConfigs:
        return SeenConfigs({name: self._configs[name] for name in names}, set())


def _others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topics: Mapping[str, Mapping[str, str]],
    keys: Mapping[str, bytes],
    defaults: Mapping[str, str] | None = None,
) -> tuple[set[str], list[str]]:
    """Which topics are left out, and of which the first record was read."""
    read: list[str] = []

    def first_key(_pipeline: Pipeline, _source: Cluster, name: str) -> bytes | None:
        read.append(name)
        return keys.get(name)

    monkeypatch.setattr(module, "_first_key", first_key)
    monkeypatch.setattr(module, "_known", {})
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ".*")
    source = cast(Cluster, PlayedSource(topics, defaults or {}))
    found = others_control_topics(pipeline, source, topics)
    assert others_control_topics(pipeline, source, topics) == found
    return found, read


@pytest.mark.parametrize("created", OVERLAID, ids=["as they are", "as K2K's sample says", "all of one's own"])
def test_control_topics_are_known_whatever_a_file_says_of_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    features = {"offsetMapping": "enabled"}
    other = make_pipeline(tmp_path, "s:1", "t:1", ["a"], features=features, topicCreation={"control": created})
    topics = {name: topic.config for name, topic in control_topics(other).items()}
    keys = dict.fromkeys(topics, COMMIT.key_bytes())
    assert _others(tmp_path, monkeypatch, topics, keys)[0] == topics.keys()
    (warned,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert all(name in warned for name in topics)


@pytest.mark.parametrize("created", OVERLAID[:2], ids=["as they are", "as K2K's sample says"])
def test_those_that_have_no_record_yet_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: dict[str, Any]
) -> None:
    features = {"offsetMapping": "enabled"}
    other = make_pipeline(tmp_path, "s:1", "t:1", ["a"], features=features, topicCreation={"control": created})
    topics = {name: topic.config for name, topic in control_topics(other).items()}
    assert _others(tmp_path, monkeypatch, topics, {})[0] == topics.keys()


def test_few_first_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of topics whose timestamps are the brokers', or which are kept for ever, none is read."""
    by_brokers = {"message.timestamp.type": "LogAppendTime"}
    topics: dict[str, dict[str, str]] = {
        "plain": {},
        "by-brokers": by_brokers,
        "kept": {"retention.ms": "-1"},
        "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
        "both": {**by_brokers, "retention.ms": "-1"},
    }
    keys = dict.fromkeys(topics, b'{"kind":"start","order":7}')
    defaults = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime", "max.message.bytes": "8388608"}
    assert _others(tmp_path, monkeypatch, topics, keys, defaults) == (set(), ["both"])


@pytest.mark.integration
def test_control_topics_of_another_pipeline_are_never_matched(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """This pipeline's source is the target of another one, which has named its control topics as it liked."""
    a, b = clusters.source_servers, clusters.target_servers
    there = create_topic(b, unique("there"))
    produce(b, there, [b"x"])
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    other = make_pipeline(tmp_path, b, a, [there], features=features)
    assert copy(other).stopped == {}
    names = [*control_topics(other)]
    assert len(names) == 3
    pattern = "|".join([f"{other.name}-.*", there])
    assert _resolved(make_pipeline(tmp_path, a, b, pattern, sink={"prefix": "copy."})) == {there}
    listed = make_pipeline(tmp_path, a, b, names, sink={"prefix": "copy."})
    assert _resolved(listed) == set(names), "a list copies what it names"


@pytest.mark.integration
def test_topics_that_only_look_like_it(clusters: KafkaSandbox, tmp_path: Path) -> None:
    a, b = clusters.source_servers, clusters.target_servers
    prefix = unique("alike")
    pipeline = make_pipeline(tmp_path, a, b, f"{prefix}.*", sink={"prefix": "copy."})
    as_ours = next(iter(control_topics(pipeline).values())).config
    forever = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
    kept = create_topic(a, f"{prefix}-kept", 1, forever)
    empty = create_topic(a, f"{prefix}-empty", 1, as_ours)
    compact = create_topic(a, f"{prefix}-compact", 2, as_ours)
    produce(a, compact, [(json.dumps({"id": 1}).encode(), b"x")], 1)
    assert _resolved(pipeline) == {kept, compact}, "what has all settings and no record may become one"
    produce(a, empty, [(b"17", b"x")])
    assert _resolved(pipeline) == {kept, compact, empty}


@pytest.mark.integration
def test_what_is_known_counts_though_a_topic_is_gone_again(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Of a topic that the source does not describe, because it was just created or deleted, nothing is guessed."""
    a, b = clusters.source_servers, clusters.target_servers
    pipeline = make_pipeline(tmp_path, a, b, ".*", sink={"prefix": "copy."})
    config = next(iter(control_topics(pipeline).values())).config
    control_topic, data = create_topic(a, unique("control"), 1, config), create_topic(a, unique("data"))
    produce(a, control_topic, [(COMMIT.key_bytes(), b"x")])
    gone = unique("gone")
    with both_clusters(pipeline) as (source, _):
        assert others_control_topics(pipeline, source, {control_topic, data, gone}) == {control_topic, gone}
        create_topic(a, gone)
        assert others_control_topics(pipeline, source, {control_topic, data, gone}) == {control_topic}, (
            "looked at again"
        )


@pytest.mark.integration
def test_a_source_that_does_not_say_is_not_guessed_about(clusters: KafkaSandbox, tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", clusters.target_servers, ".*", sink={"prefix": "copy."})
    with (
        Cluster("source", pipeline.client_properties("source", "admin"), 0.5) as source,
        pytest.raises(ClusterUnreachable),
    ):
        others_control_topics(pipeline, source, {"orders"})
