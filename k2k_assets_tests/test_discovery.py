"""The discovery state file: it is written atomically and read back, and its faults stop nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets import discovery
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.home import discovery_file, index_directory
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _found(time: int = 1, partitions: int = 3) -> Discovery:
    topics = {"a.b": DiscoveredTopic(partitions, "copy.a.b"), "static": DiscoveredTopic(1, None)}
    return Discovery("my pipeline/ü", time, "source-id", "target-id", topics, ("billing", "ü/shipping"))


def test_what_is_saved_is_loaded(home: Path) -> None:
    assert discovery.load("my pipeline/ü") is None
    assert discovery.save(_found())
    assert discovery.load("my pipeline/ü") == _found()
    assert [path.parent for path in home.rglob("*.json")] == [home / "discovery"]


def test_only_a_change_is_written() -> None:
    discovery.save(_found(time=1))
    assert not discovery.save(_found(time=2))
    assert discovery.load("my pipeline/ü") == _found(time=1)
    assert discovery.save(_found(time=3, partitions=4))


def test_a_file_without_consumer_groups_is_read() -> None:
    """Releases before those did not write them."""
    discovery.save(_found())
    path = discovery_file("my pipeline/ü")
    document = json.loads(path.read())
    del document["groups"]
    path.replace(json.dumps(document))
    assert discovery.load("my pipeline/ü") == replace(_found(), groups=())


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"version": 99, "pipeline": "my pipeline/ü"})])
def test_a_file_that_cannot_be_read_is_as_none_and_is_replaced(text: str) -> None:
    path = discovery_file("my pipeline/ü")
    path.replace(text)
    assert discovery.load("my pipeline/ü") is None
    assert discovery.save(_found())
    assert discovery.load("my pipeline/ü") == _found()


def test_a_directory_that_cannot_be_written_stops_nobody(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    home.write_text("no directory")  # the user may be root, for whom file modes do not count
    assert not discovery.save(_found())
    assert "cannot be remembered" in caplog.text
    assert "K2K_HOME" in caplog.text
    assert discovery.load("my pipeline/ü") is None


def test_without_a_home_directory_nothing_is_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container under any uid: no HOME, and no entry in the passwd file."""
    monkeypatch.delenv("K2K_HOME")
    _without_home(monkeypatch)
    with pytest.raises(K2KError, match="Set K2K_HOME to an absolute path"):
        discovery_file("my pipeline/ü")
    with pytest.raises(K2KError, match=r"Set index\.path"):
        index_directory("p", "~/index")
    assert discovery.load("my pipeline/ü") is None
    assert not discovery.save(_found())
    assert "Set K2K_HOME" in caplog.text


def _without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.integration
def test_discovery_finds_what_the_pipeline_selects(clusters: KafkaSandbox, tmp_path: Path) -> None:
    prefix = unique("d")
    for topic, partitions in ((f"{prefix}.a", 1), (f"{prefix}.b", 4), (f"{prefix}x", 1)):
        create_topic(clusters.source_servers, topic, partitions)
    for group, topic in ((f"{prefix}-billing", "a"), (f"{prefix}-other", "x"), ("elsewhere", "a")):
        at = TopicPartition(f"{prefix}x" if topic == "x" else f"{prefix}.{topic}", 0)
        commit(clusters.source_servers, group, {at: 0})
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}[.].*",
        sink={"prefix": "copy."},
        features={"offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}-.*"},
    )
    source = Cluster("source", pipeline.client_properties("source", "admin"))
    target = Cluster("target", pipeline.client_properties("target", "admin"))
    found = discovery.refresh(pipeline, source, target)
    assert found.topics == {
        f"{prefix}.a": DiscoveredTopic(1, f"copy.{prefix}.a"),
        f"{prefix}.b": DiscoveredTopic(4, f"copy.{prefix}.b"),
    }
    assert found.groups == (f"{prefix}-billing",), "selected, and with a commit on a topic that is copied"
    assert (found.source_cluster, found.target_cluster) == (source.cluster_id(), target.cluster_id())
    assert discovery.load(pipeline.name) == found

    topics_first, whole = discovery.refresh_beside(pipeline, source, target)
    assert topics_first.same_as(replace(found, groups=())), "what a sensor goes on with meanwhile"
    assert whole().same_as(found)
    commit(clusters.source_servers, f"{prefix}-late", {TopicPartition(f"{prefix}.b", 1): 0})
    _, whole = discovery.refresh_beside(pipeline, source, target)
    assert whole().groups == (f"{prefix}-billing", f"{prefix}-late")
    assert whole().same_as(discovery.load(pipeline.name))


def test_a_cluster_that_does_not_answer_leaves_the_file(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"])
    nobody = Cluster("source", pipeline.client_properties("source", "admin"), timeout=1)
    with pytest.raises(ClusterUnreachable):
        discovery.refresh(pipeline, nobody, nobody)
    assert discovery.load(pipeline.name) is None
