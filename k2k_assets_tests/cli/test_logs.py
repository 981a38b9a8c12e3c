"""Which log lines are printed, and how often."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest
from rich.console import Console

from k2k_assets.cli import logs
from k2k_assets.cli.streams import error_console
from k2k_assets.core.log_fields import logged_with
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.fixture
def console() -> Iterator[Console]:
    root, ours = logging.getLogger(), logging.getLogger("k2k")
    before = list(root.handlers), list(ours.handlers), ours.level, ours.propagate
    root.handlers = []  # as in a program: pytest's own handlers would hide that no other exists
    yield Console(width=200)
    root.handlers, ours.handlers = before[0], before[1]
    ours.setLevel(before[2])
    ours.propagate = before[3]


def test_a_library_that_logs_on_the_root_logger_does_not_double_our_lines(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(console)
    logs.configure(console)  # as for a second command in one process
    logging.info("Exception while sending command.")  # as py4j does, which would configure the root logger
    try:
        raise OSError("Java is gone")
    except OSError:
        logging.exception("Exception while sending command.")
    logging.getLogger("k2k.replication").warning("the Spark job failed and is run again")
    logging.getLogger("some.library").warning("deprecated")
    logging.getLogger("some.library").info("hello")
    shown = capsys.readouterr()
    lines = (shown.out + shown.err).splitlines()
    assert [line.split(maxsplit=2)[1:] for line in lines] == [
        ["WARNING", "the Spark job failed and is run again"],
        ["WARNING", "deprecated"],
    ]


def test_lines_of_json_say_what_lines_say(
    console: Console, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K2K_LOG_FORMAT", "json")
    logs.configure(console)
    with logged_with(slot=1):
        logging.getLogger("k2k.replication").warning("%s: [bold]%s", TopicPartition("orders", 3), "x" * 500)
    logging.getLogger("some.library").warning("deprecated")
    shown = capsys.readouterr()
    first, second = map(json.loads, (shown.out + shown.err).splitlines())
    assert (first["message"], first["slot"], first["partition"]) == (f"orders-3: [bold]{'x' * 500}", 1, 3)
    assert (second["logger"], second["level"]) == ("some.library", "WARNING")
    assert not error_console().is_terminal


@pytest.mark.parametrize("verbose", [False, True])
def test_the_jvm_writes_json_too(verbose: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("K2K_LOG_FORMAT", "json")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")
    logs.set_up_jvm(verbose)
    level, _, uri = os.environ["SPARK_SUBMIT_OPTS"].rpartition("=")
    assert ("-Dk2k.jvm.level=info" in level) is verbose
    assert '"message": "%enc{%m}{JSON}"' in Path(urlparse(uri).path).read_text()
    for master, is_told in (("spark://elsewhere:7077", True), ("local[2]", False)):
        conf = spark_conf(make_pipeline(tmp_path, "s:1", "t:1", ".*", spark={"master": master}))
        assert (conf.get("spark.executorEnv.K2K_LOG_FORMAT") == "json") is is_told


@pytest.mark.parametrize(("verbose", "level"), [(False, "error"), (True, "info")])
def test_the_jvm_is_told_what_to_log(
    verbose: bool, level: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ".*")
    assert spark_conf(pipeline)["spark.log.level"] == "ERROR"
    logs.set_up_jvm(verbose)
    given, _, uri = os.environ["SPARK_SUBMIT_OPTS"].rpartition("=")
    assert given == "-Dmine=1 -Dlog4j2.configurationFile"
    assert f"rootLogger.level = {level}\n" in Path(urlparse(uri).path).read_text()
    assert "spark.log.level" not in spark_conf(pipeline), "Spark would print that it sets it"


def test_a_jvm_that_the_user_has_set_up_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dlog4j2.configurationFile=mine")
    logs.set_up_jvm(verbose=True)
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dlog4j2.configurationFile=mine"
