"""The direct start of Spark's Java process, only used if spark-submit would have nothing to resolve."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import InvalidVariable
from k2k_assets.spark import java_process
from k2k_assets.spark.java_process import JavaProcess, add_options, kill_java, start_java

PLAIN = {"spark.master": "local[2]", "spark.app.name": "k2k a", "spark.ui.enabled": "false"}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run, on a machine where `make setup` was run."""
    run: list[list[str]] = []
    home = tmp_path / "pyspark"
    home.mkdir()
    monkeypatch.setattr(java_process, "spark_home", lambda: home)
    monkeypatch.setattr(java_process, "java_program", lambda: Path("/usr/bin/java"))
    monkeypatch.setattr(java_process, "remembered_flags", lambda _: ["-cp", "jars/*"])
    monkeypatch.setattr(java_process, "archive_flags", lambda _: ["-XX:SharedArchiveFile=classes"])
    monkeypatch.setattr(java_process, "JavaProcess", lambda command, _: run.append(command))
    for name in [*os.environ]:
        if name.startswith(("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # so that monkeypatch restores it
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    return run


def test_plain_settings(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Java gets the user's options and ours, of which contradicting ones are left out."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine='a b' -XX:+UseG1GC")
    start_java(PLAIN, ["-XX:+UseSerialGC", "-Xint"])
    archive, main = "-XX:SharedArchiveFile=classes", "org.apache.spark.api.python.PythonGatewayServer"
    assert commands == [
        ["/usr/bin/java", "-cp", "jars/*", archive, "-Xint", "-Dmine=a b", "-XX:+UseG1GC", main],
    ], "the user's garbage collector, and no second one"


@pytest.mark.parametrize(
    "more",
    [
        {"spark.master": "spark://host:7077"},
        {"spark.master": "local-cluster[2,1,1024]"},
        {"spark.remote": "sc://host"},
        {"spark.driver.memory": "4g"},
        {"spark.jars.packages": "a:b:1"},
        {"spark.driver.extraJavaOptions": "-Da=b"},
    ],
)
def test_settings_that_are_spark_submits_matter(commands: list[list[str]], more: dict[str, str]) -> None:
    assert start_java({**PLAIN, **more}) is None
    assert commands == []


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"])
def test_an_environment_that_is_spark_submits_matter(
    commands: list[list[str]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    assert start_java(PLAIN) is None
    assert commands == []


def test_settings_beside_spark_are_spark_submits_matter(commands: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "pyspark" / "conf").mkdir()
    assert start_java(PLAIN) is None


def test_a_java_that_setup_has_not_seen(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_process, "remembered_flags", lambda _: None)
    assert start_java(PLAIN) is None


def test_options_are_added_once_beside_what_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    for _ in range(2):
        add_options(["-XX:SharedArchiveFile=classes", "-XX:+UseSerialGC"])
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1 -XX:SharedArchiveFile=classes -XX:+UseSerialGC"
    add_options(["-XX:+UseG1GC"])
    assert "G1" not in os.environ["SPARK_SUBMIT_OPTS"]


def test_options_that_cannot_be_told_apart_are_told(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine='a b")
    for start in (start_java, lambda _: add_options(["-Xint"])):
        with pytest.raises(InvalidVariable, match="SPARK_SUBMIT_OPTS cannot be read: No closing quotation"):
            start(PLAIN)
    assert commands == []


def test_one_that_ends_before_it_answers_is_told_at_once() -> None:
    from pyspark.errors import PySparkRuntimeError

    process = JavaProcess(["false"])
    with pytest.raises(PySparkRuntimeError, match="JAVA_GATEWAY_EXITED"):
        process.connect()
    assert not process.was_ended
    process.end()
    assert process.was_ended


def test_a_java_that_cannot_be_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OSError, match="nowhere"):
        JavaProcess([str(tmp_path / "nowhere" / "java")])
    assert list(tmp_path.iterdir()) == []


def test_one_that_another_thread_is_starting_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C may come between the birth of the process and the moment in which it is known here."""
    born, known = threading.Event(), threading.Event()
    popen = subprocess.Popen

    def slowly(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        process = popen(command, **how)
        born.set()
        assert known.wait(10)
        return process

    monkeypatch.setattr(subprocess, "Popen", slowly)
    monkeypatch.setattr(java_process, "_BIRTH_SECONDS", 30.0)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(JavaProcess, ["sleep", "60"])
        assert born.wait(10)
        timer = threading.Timer(0.1, known.set)  # while the other one waits
        timer.start()
        kill_java()
        process = starting.result().process
    try:
        assert process.wait(10) == -signal.SIGKILL
    finally:
        starting.result().end()
        timer.join()
