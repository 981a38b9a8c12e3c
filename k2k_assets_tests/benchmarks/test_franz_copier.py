"""The copier in Go that we are measured against does what it is compared for: it copies exactly once, and alike."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("psutil")

from benchmarks import franz_copier
from benchmarks.franz_copier import FranzCopier, Report, arguments, build, parsed
from benchmarks.franz_runs import fault_of
from benchmarks.lab import Lab
from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    Record,
    create_topic,
    produce,
    producer,
    read_all,
    send,
    topics,
    unique,
)

SECONDS = 60.0
BATCHES = 200
RECORDS = 3 + 100 * BATCHES
DONE = Report(10, 2, {"a/0": 6, "a/1": 4})


def test_arguments() -> None:
    assert arguments("s:1", "t:2", ["a", "b"], "franz-lz4", "lz4") == [
        "-source=s:1", "-target=t:2", "-topics=a,b", "-prefix=franz-lz4.", "-codec=lz4",
        "-positions=franz-lz4.positions", "-id=franz-lz4",
        "-batch=100000", "-interval=2s", "-fetch-bytes=2097152", "-linger=20ms",
    ]  # fmt: skip


def test_report() -> None:
    assert parsed('a warning\n{"records":10,"transactions":2,"positions":{"a/0":6,"a/1":4}}\n') == DONE


@pytest.mark.parametrize("said", ["", "2026/11/27 09:00:00 fenced", '{"records":10}', "[1]"])
def test_an_end_without_a_report_is_an_error(said: str) -> None:
    with pytest.raises(RuntimeError, match="did not end well"):
        parsed(said)


@pytest.mark.parametrize(
    ("expected", "ends", "fault"),
    [
        pytest.param(10, {"a/0": 6, "a/1": 4}, "", id="all"),
        pytest.param(11, {"a/0": 6, "a/1": 4}, "10 of 11 records were copied", id="one missing"),
        pytest.param(10, {"a/0": 6, "a/1": 5}, "it ended at {'a/0': 6, 'a/1': 4}, the source at", id="not at the end"),
        pytest.param(10, {"a/0": 6, "a/1": 4, "b/0": 0}, "it ended at", id="a partition missing"),
    ],
)
def test_what_was_not_copied_is_told(expected: int, ends: dict[str, int], fault: str) -> None:
    found = fault_of(DONE, expected, ends)
    assert found.startswith(fault) if fault else not found


def test_without_go_it_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build(tmp_path) is None
    assert capsys.readouterr().out == "franz-go is left out: there is no go\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go")
def test_without_its_modules_it_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    assert build(tmp_path) is None
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("franz-go is left out: its modules cannot be had: ")


@pytest.mark.integration
@pytest.mark.storm
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go")
def test_it_copies_exactly_once_and_alike_though_it_is_killed(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = build(tmp_path)
    if binary is None:
        pytest.skip("its modules cannot be had")
    # Many transactions, so that it is killed between the first and the last.
    monkeypatch.setattr(franz_copier, "TUNED", {**franz_copier.TUNED, "batch": 10, "fetch-bytes": 1000})
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("franz"), 2)
    special = [
        Record(b"k", b"v", [("h", b"1"), ("h", None), ("", b"")], timestamp=1_000),
        Record(b"", None),
        Record(None, b""),
    ]
    produce(source, topic, special, 0)
    produce(source, topic, [b"aborted"], 0, abort=True)
    client = producer(source)
    for batch in range(BATCHES):
        send(client, topic, [b"%d-%d" % (batch, n) for n in range(100)], 1)
    lab = cast("Lab", SimpleNamespace(folder=tmp_path, sandbox=clusters))
    copier = FranzCopier(lab, binary, unique("franz"), [topic], "lz4")
    copy = copier.prefix + topic

    def copied() -> int:
        copier.ensure_running()
        return len(read_all(target, copy)) if copy in topics(target) else 0

    with copier:
        wait_until(lambda: copied() > 500, SECONDS, "it to copy")
        os.kill(copier.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="did not end well"):
        copier.report()
    before = len(read_all(target, copy))
    assert before < RECORDS
    with copier:
        wait_until(lambda: copied() >= RECORDS, SECONDS, "it to copy all")
    assert copier.report().records == RECORDS - before
    assert _contents(target, copy) == _contents(source, topic)


def _contents(servers: str, topic: str) -> list[object]:
    return [(record.partition, record.content) for record in read_all(servers, topic)]
