"""`--log-format json`: all that programs say on standard error is lines of JSON, also of workers and of Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.cli import offset_mapping, tool
from k2k_assets.cli.main import run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline

K2K = [sys.executable, "-m", "k2k_assets.cli.main", "start"]


def lines_of(text: str) -> list[dict[str, Any]]:
    """Each line as a document, which has at least these fields."""
    documents: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    for document in documents:
        assert {"time", "level", "logger", "message"} <= document.keys(), document
    return documents


def started_once(path: Path, *more: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    ended = subprocess.run(
        [*K2K, "-f", str(path), "--once", *more],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    return ended.returncode, lines_of(ended.stderr)


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.slow
def test_a_copy_with_a_stop_in_a_worker(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    good, bad = create_topic(source, unique("good")), create_topic(source, unique("bad"))
    for topic in (good, bad):
        produce(source, topic, [b"one"], 0)
    path = write_pipeline(tmp_path, source, target, [good, bad], spark={"master": "local[1]"})
    code, said = started_once(path, "--log-format", "json")
    assert code == 0
    assert all(line["level"] == "INFO" for line in said), "Java says nothing at the normal level"
    [began] = [line for line in said if line["message"].startswith("generation ")]
    name = load_pipeline([path]).name
    assert (began["pipeline"], began["logger"]) == (name, "k2k.replication")

    delete_topic(source, bad)
    create_topic(source, bad)
    code, said = started_once(path, K2K_LOG_FORMAT="json")
    assert code == 5
    [stopped] = [line for line in said if "is stopped" in line["message"]]
    assert (stopped["pipeline"], stopped["topic"], stopped["partition"], stopped["slot"]) == (name, bad, 0, 0)
    assert stopped["level"] == "ERROR"
    assert stopped["code"] == "source-recreated"
    assert {"instance", "generation"} <= stopped.keys()
    assert stopped["instance"] == began["instance"].partition(":")[0] + ":" + stopped["instance"].partition(":")[2]
    assert said[-1]["message"].startswith("1 of 2 topics stopped"), "the reason for the exit code is such a line too"


@pytest.mark.integration
def test_the_mapper_and_the_tool(clusters: KafkaSandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    commit(clusters.source_servers, f"{topic}-group", {TopicPartition(topic, 0): 0})
    path = write_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features={"offsetMapping": "enabled"}, groups={"consumerGroups": f"{topic}-.*"},
    )  # fmt: skip
    name = load_pipeline([path]).name
    assert offset_mapping.run(["start", "-f", str(path), "--once", "--log-format", "json"]) == 0
    [told, *_] = [line for line in lines_of(capsys.readouterr().err) if "generation" in line["message"]]
    assert (told["pipeline"], told["logger"]) == (name, "k2k.groups")
    assert tool.run(["describe", "-f", str(path), "--log-format", "json", "--verbosity", "debug"]) == 0
    lines_of(capsys.readouterr().err)
    assert tool.run(["set", "-f", str(path), "-o", "nowhere:0:0", "--log-format", "json"]) != 0
    [refused] = lines_of(capsys.readouterr().err)
    assert (refused["pipeline"], refused["level"]) == (name, "ERROR")


@pytest.mark.parametrize("program", [run, offset_mapping.run])
def test_faults_of_the_file_and_of_arguments_are_such_lines_too(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = write_pipeline(tmp_path, "s:9092", "t:9092", ".*", unheard_of={})
    assert program(["start", "-f", str(wrong), "--log-format", "json", "-w", "disabled"]) == 2
    [fault] = lines_of(capsys.readouterr().err)
    assert "unheard_of" in fault["message"]
    assert program(["start", "--log-format", "json"]) == 2
    [missing] = lines_of(capsys.readouterr().err)
    assert "--file" in missing["message"]
    assert program(["start"]) == 2
    assert capsys.readouterr().err.startswith("Usage:"), "the choice was that of one call"
