"""`k2k-tool`: each `-f` is a pipeline of its own, as in K2K; commas separate several files of one pipeline."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import yaml

from k2k_assets.cli import tool
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.committed import committed
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

OTHER_COMMANDS = {
    "set": ["-o", "orders:0:1"],
    "translate": ["--topic", "orders", "--partition", "0", "--offset", "1"],
    "show": ["-o", "orders:0:1"],
}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    first, second = (write_pipeline(tmp_path, "s:1", "t:1", ["orders"]) for _ in range(2))
    return first, second


@pytest.mark.parametrize("command", OTHER_COMMANDS)
def test_what_names_one_topic_takes_one_pipeline(
    command: str, two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.run([command, "-f", str(two[0]), "-f", str(two[1]), *OTHER_COMMANDS[command]]) == 2
    said = capsys.readouterr().err
    assert "expected one pipeline. Each -f is a pipeline of its own" in said
    assert "-f base.yaml,override.yaml" in said


def test_a_file_that_only_overrides_another_is_no_pipeline_and_says_how_to_write_it(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override = tmp_path / "override.yaml"
    override.write_text("name: other\n")
    assert tool.run(["reset", "--yes", "-f", str(two[0]), "-f", str(override)]) == 2
    said = capsys.readouterr().err
    assert f"{override}:1:1: source: expected this key" in said
    assert "write several files of one pipeline as -f base.yaml,override.yaml" in said


def test_one_pipeline_twice_is_refused(two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.run(["reset", "--yes", "-f", str(two[0]), "-f", str(two[0])]) == 2
    assert "was given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "seconds"), [("10s", 10), ("500ms", 0.5), ("3", 3), ("2m", 120), ("10 seconds", 10), ("1 hour", 3600)]
)
def test_the_pull_timeout_bounds_the_reading_of_the_commit_topic(
    written: str, seconds: float, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    class Stop(Exception):
        pass

    def seen(pipeline: object, *_: object) -> None:
        asked.append(pipeline.coordination.commit.sync_timeout.total_seconds())  # type: ignore[attr-defined]
        raise Stop

    monkeypatch.setattr("k2k_assets.overrides.committed.committed", seen)
    with pytest.raises(Stop):
        tool.run(["describe", "-f", str(two[0]), "-i", written])
    with pytest.raises(Stop):
        tool.run(["describe", "-f", str(two[0])])
    assert asked == [seconds, 30]


@pytest.mark.parametrize("written", ["soon", "1.5s", "-1s", ""])
def test_what_is_no_duration(written: str, two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.run(["describe", "-f", str(two[0]), "-i", written]) == 2
    assert "expected a duration such as 10s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "verbosity", "level"),
    [
        (["describe"], [], logging.WARNING),
        (["describe"], ["--verbosity", "debug"], logging.DEBUG),
        (["reset", "--yes"], [], logging.INFO),
        (["reset", "--yes"], ["--verbosity", "error"], logging.ERROR),
    ],
)
def test_verbosity_is_the_level_of_the_log(
    command: list[str], verbosity: list[str], level: int, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Exception):
        pass

    def stopped(*_: object) -> None:
        raise Stop

    monkeypatch.setattr(Cluster, "__init__", stopped)
    with pytest.raises(Stop):
        tool.run([*command, "-f", str(two[0]), *verbosity])
    assert logging.getLogger("k2k").level == level


@pytest.mark.integration
def test_two_pipelines_are_described_and_reset_both(
    clusters: KafkaSandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`reset -f a -f b` must not reset b alone."""
    source, target = clusters.source_servers, clusters.target_servers
    topics = [create_topic(source, unique("several")) for _ in range(2)]
    files = [write_pipeline(tmp_path, source, target, [topic]) for topic in topics]
    pipelines = [load_pipeline(file) for file in files]
    for topic, pipeline in zip(topics, pipelines, strict=True):
        produce(source, topic, [b"x"] * 5)
        copy(pipeline)
    capsys.readouterr()
    given = [part for file in files for part in ("-f", str(file))]

    assert tool.run(["describe", *given, "--yaml"]) == 0
    as_yaml = list(yaml.safe_load_all(capsys.readouterr().out))
    assert tool.run(["describe", *given, "--json"]) == 0
    as_json = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert as_yaml == as_json
    assert [one["pipeline"] for one in as_json] == [pipeline.name for pipeline in pipelines]
    assert [one["committed"][0]["committed"] for one in as_json] == [5, 5]

    assert tool.run(["reset", "--yes", *given]) == 0
    said = capsys.readouterr().out
    assert all(f"{pipeline.name}:" in said for pipeline in pipelines)
    with both_clusters(pipelines[0]) as (on_source, on_target):
        for topic, pipeline in zip(topics, pipelines, strict=True):
            (state,) = committed(pipeline, on_source, on_target).partitions
            assert state.record is not None
            assert (state.source, state.record.position) == (TopicPartition(topic, 0), 0)
