"""Whole runs of Dagster, in processes of their own, whose `K2K_HOME` is an address in S3."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index.manifest import read_manifest
from k2k_assets.mapping.index.roots import root_of
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers.groups import commit, position
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_same_content
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.runs import last_verdicts, logged_events, of_everything
from k2k_assets_tests.support.services.conditional_s3 import BUCKET, conditional_s3_server

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.storm]

RECORDS = 50


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a home in S3; the home directory of the user is an empty folder."""
    with conditional_s3_server() as variables:
        address = f"s3://{BUCKET}/{unique('home')}"
        folder = tmp_path / "user"
        folder.mkdir()
        places = {"K2K_HOME": address, "K2K_CACHE": str(tmp_path / "cache"), "HOME": str(folder)}
        for name, value in {**variables, **places}.items():
            monkeypatch.setenv(name, value)
        yield address


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    """Two partitions of a topic, and a group."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        [create_topic(clusters.source_servers, unique("stored"), 2)],
        features={"offsetMapping": "enabled", "exactlyOnce": "enabled", "headerReplication": "enabled"},
        groups={"consumerGroups": [unique("group")]},
    )
    return load_pipeline([path])


def materialize(pipeline: Pipeline, folder: Path) -> None:
    """Runs the pipeline's job, as `dagster job execute` does, until all is copied."""
    (folder / "dagster").mkdir(exist_ok=True)
    places = {"DAGSTER_HOME": str(folder / "dagster"), "K2K_PIPELINES": str(folder / "pipelines")}
    ended = subprocess.run(
        [sys.executable, *of_everything(pipeline, folder)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **places}, cwd=folder, timeout=500, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout.decode()[-6000:]


def test_runs_keep_all_state_there_and_go_on_from_it(
    clusters: KafkaSandbox, pipeline: Pipeline, home: str, tmp_path: Path
) -> None:
    (topic,), (group,) = pipeline.selection.literal or (), list(pipeline.groups.consumer_groups)
    at, manifests = TopicPartition(topic, 1), []
    for number in (1, 2):
        for partition in range(2):
            values = [b"%d" % n for n in range((number - 1) * RECORDS, number * RECORDS)]
            produce(clusters.source_servers, topic, values, partition)
        commit(clusters.source_servers, group, {at: number * RECORDS - 7})
        with both_clusters(pipeline) as (source, target):
            assert set(refresh(pipeline, source, target).groups) == {group}
        materialize(pipeline, tmp_path)
        assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 2 * number * RECORDS
        await_next_record(clusters.target_servers, group, at, b"%d" % (number * RECORDS - 7))
        manifest = read_manifest(root_of(pipeline))
        assert manifest is not None
        manifests.append(manifest)
        assert shown(tmp_path, AssetNames(pipeline.name).offset_mappings_key)[keys.MAPPED] == 2 * number * RECORDS
    first, second = manifests
    assert first.number < second.number
    assert first.identity == second.identity, "the second run has gone on from the index of the first"
    verdicts = last_verdicts(tmp_path / "dagster")
    assert verdicts.items() >= dict.fromkeys(CHECKS, True).items()
    assert all(verdicts.values())
    assert {name.partition("/")[0] for name in ObjectFolder(home).names()} >= {"index", "discovery"}
    assert not (tmp_path / "user" / ".k2k").exists()


def await_next_record(servers: str, group: str, at: TopicPartition, value: bytes) -> None:
    """Waits until the next record that a group reads is that one."""

    def reads_on_there() -> bool:
        offset = position(servers, group, at)
        left = [record for record in read_all(servers, *at) if offset is not None and record.offset >= offset]
        return left[0].value == value if left else False

    wait_until(reads_on_there, 120, f"{group} to stand before {value!r} in {at}")


def shown(folder: Path, key: dg.AssetKey) -> dict[str, object]:
    """What the last materialization of an asset shows."""
    found = [
        event for event in logged_events(folder / "dagster") if event.is_step_materialization and event.asset_key == key
    ]
    return {name: value.value for name, value in found[-1].step_materialization_data.materialization.metadata.items()}
