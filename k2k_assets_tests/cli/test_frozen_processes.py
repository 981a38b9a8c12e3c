"""`k2k start` on Spark while some of its processes are frozen for long, beside an instance that stands by."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.cli.commands.test_start_processes import (
    PARTITIONS,
    await_all,
    await_more,
    copied_by,
    end,
    pipeline_file,
)
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, commit_records
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.processes import await_words, copy_workers, is_alive, started
from k2k_assets_tests.support.proof.verifying import verify

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.storm]

# Longer than the grace window, and than a transaction may last.
FROZEN_SECONDS = 25


def chosen(process: subprocess.Popen[str], part: str) -> list[psutil.Process]:
    """The processes of a part of an instance."""
    driver = psutil.Process(process.pid)
    if part == "worker":
        workers = copy_workers(process)
        assert len(workers) == PARTITIONS
        return workers[:1]
    return [driver] if part == "driver" else [driver, *filter(is_alive, driver.children(recursive=True))]


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Stops processes while the block lasts, and no shorter than a freeze is to be."""
    until = time.monotonic() + FROZEN_SECONDS
    for process in processes:
        process.suspend()
    try:
        yield
        time.sleep(max(0.0, until - time.monotonic()))  # gives late errors time to happen
        assert {process.status() for process in processes} == {psutil.STATUS_STOPPED}, "not frozen all the while"
    finally:
        for process in processes:
            process.resume()


def generations(path: Path, clusters: KafkaSandbox) -> dict[int, int]:
    """Which generation has written the newest position of each partition."""
    records = commit_records(load_pipeline([path]), clusters.target_servers)
    return {record.source.partition: record.generation for record in records if record.kind == "commit"}


def only_generation(path: Path, clusters: KafkaSandbox) -> int | None:
    """The one that has written all newest positions; None while there are several."""
    newest = set(generations(path, clusters).values())
    return newest.pop() if len(newest) == 1 else None


@pytest.mark.parametrize("part", ["driver", "tree", "worker"])
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_an_instance_of_which_something_is_frozen_beside_one_that_stands_by(
    tmp_path: Path, clusters: KafkaSandbox, part: str, mode: str
) -> None:
    """Slots copy on without their driver. What is frozen with its slot is taken over, and gives way when it wakes."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("frozen"), PARTITIONS)  # a slot each
    expected = {"driver": 0, "worker": 1, "tree": PARTITIONS}[part]
    path, impatient = pipeline_file(tmp_path, clusters, [topic], mode), tmp_path / "impatient.yaml"
    impatient.write_text("coordination: {assignment: {graceWindow: 3 seconds}}\n")
    logs = tmp_path / "first.log", tmp_path / "second.log"
    writer = NumberedWriter(source, [(topic, p) for p in range(PARTITIONS)], 0)
    with started("-f", path, "-f", impatient, log=logs[0]) as first:
        with writer.going_on():
            await_more(first, path, clusters)
            with started("-f", path, "-f", impatient, log=logs[1]) as second:
                await_words(first, logs[0], f"standing by for {PARTITIONS} of {PARTITIONS} partitions")
                await_more(second, path, clusters, 2)
                begun = wait_until(lambda: only_generation(path, clusters), 120, "both slots of the second to commit")
                assert begun is not None

                def taken() -> int:
                    return len([g for g in generations(path, clusters).values() if g > begun])

                with frozen(chosen(second, part)):
                    if expected:
                        await_words(first, logs[0], "free again: ")
                    await_more(first, path, clusters)
                    wait_until(lambda: taken() == expected, 120, f"{expected} partitions to be taken over")
                assert taken() == expected
                if expected:
                    await_words(second, logs[1], f"standing by for {expected} of {PARTITIONS} partitions")
                await_more(second, path, clusters)
                with writer.quiet():
                    await_all(second, path, clusters, topic)
                end(second)
            await_more(first, path, clusters)
            with writer.quiet():
                await_all(first, path, clusters, topic)
        end(first)
    pipeline = load_pipeline([path])
    # At-least-once: the frozen one has a producer that nobody fences, perhaps with records in its queue.
    verdict = verify(pipeline, source, target, [topic], zombies=True)
    assert verdict.problems == []
    assert_exact_mappings(pipeline, source, target, topic)
    assert min(copied_by(path, clusters)) > 0
    assert [log.name for log in logs if "Traceback" in log.read_text()] == []
