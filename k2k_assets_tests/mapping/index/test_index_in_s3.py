"""The index and the checks' notes in S3, by Spark and real mapping topics, in processes whose environment names it.

What is looked at: updates, one of which is killed, runs and translations as DataFrames, and an index built anew.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import IndexReader, MappingIndex, update_index
from k2k_assets.mapping.index.manifest import read_manifest
from k2k_assets.mapping.index.roots import root_of
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.spark.sessions import build_session
from k2k_assets.translation.frame import translate_frame
from k2k_assets.verification.content.verified_notes import Conditions, VerifiedNotes
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.conditional_s3 import BUCKET, conditional_s3_server

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

_THIS = "k2k_assets_tests.mapping.index.test_index_in_s3"


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with conditional_s3_server() as variables:
        yield variables


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_an_index_that_lies_in_s3(
    clusters: KafkaSandbox, tmp_path: Path, server: dict[str, str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("stored"), partitions=2)
    home = f"s3://{BUCKET}/{unique('home')}"
    path = write_pipeline(
        tmp_path,
        source,
        target,
        [topic],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        spark={"config": {"spark.sql.shuffle.partitions": "2"}},
    )
    pipeline = load_pipeline([path])
    for name, value in {**server, "K2K_HOME": home, "K2K_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)

    def run(what: str, cache: str = "cache") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "K2K_CACHE": str(tmp_path / cache)}
        command = [sys.executable, "-m", _THIS, what, str(path), topic]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=500, env=environment)

    def told(what: str, cache: str = "cache") -> dict[str, object]:
        ended = run(what, cache)
        assert ended.returncode == 0, ended.stderr[-4000:]
        found: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
        return found

    _produce_and_copy(pipeline, source, topic, 10)
    assert told("update") == {"mapped": 10, "rows": 10, "exact": 10, "notes": 1}
    _produce_and_copy(pipeline, source, topic, 10)
    killed = run("killed")
    assert killed.returncode == -signal.SIGKILL
    assert IndexReader.open(pipeline).manifest.mapped == 10
    # Another machine, which has no copies: it reads what the first one wrote, and removes what the killed one left.
    assert told("update", "another cache") == {"mapped": 20, "rows": 20, "exact": 20, "notes": 2}
    assert not list(tmp_path.glob("home*")), "nothing of it lies on this machine but copies"

    # All files are gone, but not the manifests: built anew, from the mapping topic.
    root = root_of(pipeline)
    assert not isinstance(root, Path)
    for folder in ("segments", "versions"):
        for name in root.names(folder):
            root.remove(f"{folder}/{name}")
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(tmp_path / "another cache")
    before = read_manifest(root)
    assert before is not None
    assert told("update") == {"mapped": 20, "rows": 20, "exact": 20, "notes": 3}
    after = read_manifest(root)
    assert after is not None
    assert (after.number > before.number, after.identity != before.identity) == (True, True)


def _produce_and_copy(pipeline: Pipeline, source: str, topic: str, count: int) -> None:
    for partition in range(2):
        produce(source, topic, [b"r"] * (count // 2), partition=partition)
    copy(pipeline)


def _update(pipeline: Pipeline, spark: SparkSession, topic: str) -> dict[str, object]:
    with both_clusters(pipeline) as (source, target):
        index = update_index(spark, pipeline, source, target)
        notes = VerifiedNotes(index.root, Conditions.of(pipeline, index, source.cluster_id()))
    assert index.manifest == MappingIndex.open(pipeline).manifest
    turn = notes.read().turn
    notes.write(turn, 1, {})
    runs = index.runs(spark).collect()
    asked = [(topic, p, offset) for p in range(2) for offset in range(index.manifest.mapped // 2)]
    frame = spark.createDataFrame(asked, "topic string, partition int, offset long")
    states = [row["state"] for row in translate_frame(frame, pipeline).collect()]
    return {
        "mapped": index.manifest.mapped,
        "rows": sum(row["count"] for row in runs),
        "exact": states.count("exact"),
        "notes": turn + 1,
    }


def _killed(pipeline: Pipeline, spark: SparkSession) -> None:
    """Ends before the manifest is created, when all else is written."""

    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    pytest.MonkeyPatch().setattr(ObjectFolder, "add", kill)
    with both_clusters(pipeline) as clusters:
        update_index(spark, pipeline, *clusters)


def _main(what: str, path: Path, topic: str) -> None:
    pipeline = load_pipeline([path])
    spark = build_session(pipeline)
    if what == "killed":
        _killed(pipeline, spark)
    print(json.dumps(_update(pipeline, spark, topic)))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
