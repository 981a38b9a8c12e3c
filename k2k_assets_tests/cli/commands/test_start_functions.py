"""`k2k start` on Spark with functions that hang or end their process: signals, exit codes, and what goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.functions import child
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import produce, read_all
from k2k_assets_tests.support.copies.copying import commit_records, copy
from k2k_assets_tests.support.copies.pipelines import MODES
from k2k_assets_tests.support.copies.processes import await_copied, await_words, copy_workers, is_alive, started
from k2k_assets_tests.support.copies.transformed import assert_transformed, transforming
from k2k_assets_tests.support.copies.unruly import correct, function_beside, through_upper, topic_of_slot

pytestmark = [pytest.mark.integration, pytest.mark.spark]

SPARK = {"master": "local[2]"}


def processes_of_functions(process: Any) -> list[psutil.Process]:
    found = []
    for each in psutil.Process(process.pid).children(recursive=True):
        try:
            if child.__name__ in each.cmdline():
                found.append(each)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
@MODES
def test_sigterm_ends_it_in_time_while_a_function_hangs(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    """The function holds Python's lock; the topic of the other slot is copied on meanwhile."""
    topic, other = topic_of_slot(clusters, 0), topic_of_slot(clusters, 1)
    function = function_beside(tmp_path)
    rules = [{"pattern": topic, "python": function}]
    path, pipeline = transforming(clusters, tmp_path, [topic, other], mode, rules, spark=SPARK)
    produce(clusters.source_servers, topic, [b"value %d" % n for n in range(20)])
    log = tmp_path / "start.log"
    with started("-f", path, log=log) as process:
        await_copied(process, clusters.target_servers, topic, 20)
        wait_until(lambda: len(copy_workers(process)) == 2, 120, "a worker for each slot")
        wait_until(lambda: len(processes_of_functions(process)) == 2, 120, "a process of functions for each slot")
        of_functions = processes_of_functions(process)
        written = produce(clusters.source_servers, topic, [b"more 1", b"search", b"more 2"])
        await_words(process, log, f"{function} has been running for")
        produce(clusters.source_servers, other, [b"value %d" % n for n in range(50)])
        await_copied(process, clusters.target_servers, other, 50)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=240)
        assert time.monotonic() - began < 150, "long before the function's own limit"
        assert process.returncode == 0, log.read_text()
        wait_until(lambda: not any(map(is_alive, of_functions)), 120, "the processes of functions to end")
    said = log.read_text()
    assert f"transform[0].python: the function {function} was ended after" in said
    assert "nothing of these records is copied" in said
    assert f"{topic}-0, offsets " in said
    assert "called by upper (" in next(line for line in said.splitlines() if "has been running" in line)
    assert "Traceback" not in said
    assert topic in out
    last = [r for r in commit_records(pipeline, clusters.target_servers) if r.source.topic == topic][-1]
    assert (last.kind, last.reason) == ("release", None)
    assert last.position <= written[1][1]
    assert len(read_all(clusters.target_servers, topic)) in (20, 21)

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


@pytest.mark.slow
def test_a_function_that_ends_its_process_ends_a_run_with_5_and_spark_loses_no_worker(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    topic, other = topic_of_slot(clusters, 0), topic_of_slot(clusters, 0)
    function = function_beside(tmp_path)
    rules = [{"pattern": topic, "python": function}]
    path, pipeline = transforming(clusters, tmp_path, [topic, other], "enabled", rules, spark=SPARK)
    written = produce(clusters.source_servers, topic, [b"one", b"two", b"segfault", b"four"])
    produce(clusters.source_servers, other, [b"value %d" % n for n in range(50)])
    with started("-f", path, "--once", "--log-format", "json") as process:
        _, err = process.communicate(timeout=500)
    assert process.returncode == 5, err
    assert f"{topic}-0: [function-crashed] transform[0].python: the function {function} ends its process" in err
    assert f"offset {written[2][1]}: SIGSEGV" in err
    assert "Spark job failed" not in err
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    warned = [line for line in lines if "has ended its process (SIGSEGV)" in line["message"]]
    assert warned
    assert {(line["topic"], line["partition"]) for line in warned} == {(topic, 0)}
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"ONE", b"TWO"]
    assert len(read_all(clusters.target_servers, other)) == 50
    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
