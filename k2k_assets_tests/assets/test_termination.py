"""A run that is terminated: it commits what it has, hands its partitions back, and leaves nothing open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from k2k_assets.assets.translator import Translator
from k2k_assets.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import load_pipeline
from k2k_assets.replication.commit_log import read_commit_log
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.kafka import create_topic, end_offsets, produce, read_all, topics, unique
from k2k_assets_tests.support.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def test_a_terminated_run_commits_and_releases(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("terminated"))
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(50)])
    folder = tmp_path / "pipelines"
    folder.mkdir()
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled"},
        sync={"window": "10 minutes", "idle": "10 minutes"},
    )
    pipeline = load_pipeline([path])
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(tmp_path),
        "K2K_HOME": str(tmp_path / "home"),
        "K2K_PIPELINES": str(folder),
    }
    tool = Path(sys.executable).with_name("dagster")
    job = Translator(pipeline.name).job
    with (tmp_path / "run.log").open("w") as log:
        run = subprocess.Popen(
            [str(tool), "job", "execute", "-m", "k2k_assets.definitions", "-j", job],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        servers = clusters.target_servers
        wait_until(
            lambda: run.poll() is not None or (topic in topics(servers) and len(read_all(servers, topic)) == 50),
            120,
            "50 records on the target",
        )
        assert run.poll() is None, (tmp_path / "run.log").read_text()[-4000:]
        run.send_signal(signal.SIGINT)
        run.wait(60)
    finally:
        run.kill()
        run.wait(10)
    source = Cluster("source", pipeline.client_properties("source", "admin"))
    target = Cluster("target", pipeline.client_properties("target", "admin"))
    (record,) = read_commit_log(pipeline, source.cluster_id(), target).positions.values()
    assert (record.kind, record.position) == ("release", 50)
    assert end_offsets(servers, topic) == end_offsets(servers, topic, "read_committed"), "no transaction is left open"
