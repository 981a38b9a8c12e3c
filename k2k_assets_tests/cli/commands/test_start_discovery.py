"""Dagster's definitions show what `k2k start` discovers; an error there does not stop the copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from k2k_assets import discovery
from k2k_assets.cli.commands import start as start_module
from k2k_assets.cli.main import run
from k2k_assets.core.home import discovery_file
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = pytest.mark.integration

NOBODY = "127.0.0.1:1"


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pipelines that were copied; nothing really is, for the clusters alone are asked here."""
    copied: list[str] = []

    def coming(pipeline: Pipeline) -> SimpleNamespace:
        return SimpleNamespace(name=pipeline.name, stop=lambda: None)

    def replicate(spark: SimpleNamespace, *_: object) -> Outcome:
        copied.append(spark.name)
        return Outcome({})

    monkeypatch.setattr(start_module, "ComingSpark", coming)
    monkeypatch.setattr(start_module, "_replicate", replicate)
    return copied


@pytest.fixture
def topics(clusters: KafkaSandbox) -> dict[str, int]:
    """Topics of the source, with a prefix of their own, and their partition counts."""
    prefix = unique("found")
    return {create_topic(clusters.source_servers, f"{prefix}.{n}", n): n for n in (1, 3)}


@pytest.fixture
def path(tmp_path: Path, clusters: KafkaSandbox, topics: dict[str, int]) -> Path:
    """A pipeline that selects them by a pattern, alone in its folder."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pattern = f"{next(iter(topics)).rpartition('.')[0]}[.].*"
    features = {"offsetMapping": "enabled"}
    return write_pipeline(folder, clusters.source_servers, clusters.target_servers, pattern, features=features)


def start(path: Path) -> int:
    return run(["start", "-f", str(path), "--once", "-w", "disabled"])


def shown(path: Path) -> set[str]:
    """The topics that have an asset in the definitions of the pipeline's folder."""
    graph = build_definitions(path.parent).get_repository_def().asset_graph
    name = load_pipeline([path]).name
    return {key.path[2] for key in graph.materializable_asset_keys if key.path[:2] == [name, "topics"]}


def test_the_definitions_show_what_a_start_has_found(
    path: Path, topics: dict[str, int], clusters: KafkaSandbox, copies: list[str]
) -> None:
    assert not shown(path) & topics.keys(), "one asset stands for the pattern"
    assert start(path) == 0
    text = path.read_text()
    for servers in (clusters.source_servers, clusters.target_servers):
        text = text.replace(servers, NOBODY)  # a request to a broker would fail now
    path.write_text(text)
    assert shown(path) == topics.keys()
    found = discovery.load(load_pipeline([path]).name)
    assert found is not None
    assert {name: topic.partitions for name, topic in found.topics.items()} == topics
    graph = build_definitions(path.parent).get_repository_def().asset_graph
    topic = next(iter(topics))
    assert graph.get(dg.AssetKey([copies[0], "topics", topic])).parent_keys == {
        dg.AssetKey([copies[0], "source", topic])
    }


def remembered(path: Path, **different: Any) -> Discovery:
    """Saves what Dagster's sensor may have found before: a topic that is gone, and a group."""
    start(path)
    found = discovery.load(load_pipeline([path]).name)
    assert found is not None
    before = replace(found, topics={"gone": DiscoveredTopic(1, "gone")}, groups=("billing",), **different)
    assert discovery.save(before)
    return before


@pytest.mark.usefixtures("copies")
def test_consumer_groups_stay_as_they_are_known_and_are_not_asked_for(
    path: Path, topics: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may copy need not see any group: the cluster would answer that there is none."""

    def asked(*_: object) -> None:
        raise AssertionError("groups are asked for")

    monkeypatch.setattr(SourceGroups, "observe", asked)
    before = remembered(path)
    assert start(path) == 0
    after = discovery.load(before.pipeline)
    assert after is not None
    assert (after.groups, after.topics.keys()) == (("billing",), topics.keys())


@pytest.mark.parametrize("different", ["source_cluster", "target_cluster"])
def test_what_is_known_of_a_pipeline_of_that_name_on_other_clusters_stays(
    path: Path, copies: list[str], different: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As of one in Dagster's folder, while this one is tried elsewhere."""
    before = remembered(path, **{different: "another"})
    with caplog.at_level("INFO", "k2k.cli"):
        assert start(path) == 0
    assert discovery.load(before.pipeline) == before
    assert len(copies) == 2
    assert "a pipeline of that name on other clusters is remembered" in caplog.text


@pytest.mark.usefixtures("copies")
def test_a_file_that_nobody_understands_is_replaced(path: Path, topics: dict[str, int]) -> None:
    discovery_file(load_pipeline([path]).name).replace("{")
    assert start(path) == 0
    assert shown(path) == topics.keys()


def _no_directory(home: Path, _: pytest.MonkeyPatch) -> None:
    home.write_text("whoever runs this may be root, whom no mode keeps out")


def _no_home(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("K2K_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.parametrize(
    ("hinder", "why"),
    [
        (_no_directory, "K2K_HOME names another directory"),
        (_no_home, "Set K2K_HOME to an absolute path"),
    ],
)
def test_what_cannot_be_remembered_is_one_warning_and_the_copy_begins(
    path: Path,
    home: Path,
    copies: list[str],
    hinder: Callable[[Path, pytest.MonkeyPatch], None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hinder(home, monkeypatch)
    assert start(path) == 0
    assert copies == [load_pipeline([path]).name]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "what was discovered cannot be remembered" in warning
    assert why in warning
