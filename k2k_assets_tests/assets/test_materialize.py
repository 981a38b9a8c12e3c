"""The assets of a real pipeline, materialized through Dagster from a source cluster to a target cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from k2k_assets.assets import metadata as keys
from k2k_assets.assets.translator import Translator
from k2k_assets.checks.asset_checks import CHECKS
from k2k_assets.definitions import build_definitions
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]

CAUGHT_UP = {"extent": "caught_up"}


class Stage:
    """A folder with one pipeline, and Dagster on it."""

    def __init__(self, clusters: KafkaSandbox, folder: Path, topics: str | Sequence[str]) -> None:
        self.clusters = clusters
        self.folder = folder
        folder.mkdir()
        path = write_pipeline(
            folder,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features={"offsetMapping": "enabled", "exactlyOnce": "enabled", "headerReplication": "enabled"},
        )
        self.pipeline: Pipeline = load_pipeline([path])
        self.names = Translator(self.pipeline.name)
        self.instance = dg.DagsterInstance.ephemeral()

    def run(self, selection: Sequence[dg.AssetKey] | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        job = build_definitions(self.folder).resolve_job_def(self.names.job)
        return job.execute_in_process(
            run_config={"ops": {self.names.op("topics"): {"config": {**CAUGHT_UP, **config}}}},
            asset_selection=selection,
            instance=self.instance,
            raise_on_error=False,
        )

    def metadata(self, key: dg.AssetKey) -> dict[str, Any]:
        event = self.instance.get_latest_materialization_event(key)
        assert event is not None, key
        materialization = event.asset_materialization
        assert materialization is not None
        return {name: value.value for name, value in materialization.metadata.items()}


@pytest.fixture
def prefix() -> str:
    return unique("m")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "pipelines"


def test_everything_of_a_pipeline(clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession) -> None:
    topics = [f"{prefix}.x", f"{prefix}-x"]
    for topic, partitions in zip(topics, (1, 3), strict=True):
        create_topic(clusters.source_servers, topic, partitions)
        produce(clusters.source_servers, topic, [(b"%d" % i, b"value %d" % i) for i in range(100)])
    stage = Stage(clusters, place, topics)
    names = stage.names
    result = stage.run()
    assert result.success
    for topic, partitions in zip(topics, (1, 3), strict=True):
        shown = stage.metadata(names.topic_key(topic))
        assert (shown[keys.RECORDS], shown[keys.LAG], shown[keys.TARGET_TOPIC]) == (100, 0, topic)
        assert len(shown[keys.POSITIONS].records) == partitions
        assert len(read_all(clusters.target_servers, topic)) == 100
    log = stage.metadata(names.commit_log_key)
    assert (log[keys.PARTITIONS], log[keys.TOPICS], log[keys.STOPPED]) == (4, 2, 0)
    index = stage.metadata(names.offset_mappings_key)
    assert index[keys.MAPPED] == 200
    assert {row.data["topic"] for row in index[keys.COVERAGE].records} == set(topics)
    verdicts = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
    assert verdicts == dict.fromkeys(CHECKS, True)

    produce(clusters.source_servers, topics[0], [b"more"] * 7)
    again = stage.run([names.topic_key(topics[0])])
    assert again.success
    assert [e.asset_key for e in again.get_asset_materialization_events()] == [names.topic_key(topics[0])]
    assert stage.metadata(names.topic_key(topics[0]))[keys.RECORDS] == 7


def test_before_discovery_one_asset_finds_and_copies_all(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    for topic in ("one", "two"):
        create_topic(clusters.source_servers, f"{prefix}.{topic}")
        produce(clusters.source_servers, f"{prefix}.{topic}", [b"1", b"2"])
    stage = Stage(clusters, place, f"{prefix}[.].*")
    key = stage.names.undiscovered_key(f"{prefix}[.].*")
    assert stage.run([key]).success
    assert stage.metadata(key)[keys.RECORDS] == 4
    for topic in ("one", "two"):
        assert stage.metadata(stage.names.topic_key(f"{prefix}.{topic}"))[keys.RECORDS] == 2
    graph = build_definitions(stage.folder).resolve_asset_graph()
    assert stage.names.topic_key(f"{prefix}.one") in graph.materializable_asset_keys
    assert key not in graph.materializable_asset_keys


def test_a_topic_that_was_found_since_is_copied_too(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    names = [f"{prefix}.known", f"{prefix}.new"]
    for topic in names:
        create_topic(clusters.source_servers, topic)
        produce(clusters.source_servers, topic, [b"1"])
    stage = Stage(clusters, place, names)
    result = stage.run([stage.names.topic_key(names[0])], also=[names[1]])
    assert result.success
    assert stage.metadata(stage.names.topic_key(names[1]))[keys.RECORDS] == 1


def test_a_stopped_topic_fails_by_name_and_the_others_materialize(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    good, bad = f"{prefix}.good", f"{prefix}.bad"
    for topic in (good, bad):
        create_topic(clusters.source_servers, topic)
        produce(clusters.source_servers, topic, [os.urandom(5000)])  # does not compress
    create_topic(clusters.target_servers, bad, config={"max.message.bytes": "1000"})
    stage = Stage(clusters, place, [good, bad])
    result = stage.run([stage.names.topic_key(good), stage.names.topic_key(bad)])
    assert not result.success
    assert [e.asset_key for e in result.get_asset_materialization_events()] == [stage.names.topic_key(good)]
    (failed,) = result.filter_events(lambda event: event.is_step_failure)
    words = failed.step_failure_data.user_failure_data.description
    assert bad in words
    assert good not in words


def test_an_unreachable_cluster_fails_in_words(place: Path, clusters: KafkaSandbox, spark: SparkSession) -> None:
    stage = Stage(clusters, place, ["any"])
    (path,) = place.glob("*.yaml")
    path.write_text(path.read_text().replace(clusters.source_servers, "127.0.0.1:1"))
    result = stage.run([stage.names.topic_key("any")])
    assert not result.success
    (failed,) = result.filter_events(lambda event: event.is_step_failure)
    words = failed.step_failure_data.user_failure_data.description
    assert "source cluster at 127.0.0.1:1 does not answer" in words
