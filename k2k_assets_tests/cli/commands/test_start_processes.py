"""`k2k start` as processes on Spark: exit codes, two at once, and killed brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import assert_exact_copy, commit_records, copy
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_words, ensure_running, started
from k2k_assets_tests.support.proof.verifying import verify

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PARTITIONS = 2
# In transactions of one record they take more than a minute, so that faults strike in the middle of a run.
MANY = 10_000


def pipeline_file(
    directory: Path, clusters: KafkaSandbox, names: list[str], mode: str, batch_size: int = 1000, **spark: str
) -> Path:
    name = unique("processes")
    return write_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        names,
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={
            "commit": {"topic": f"{name}-commits", "batchSize": batch_size},
            "assignment": {"topic": f"{name}-claims"},
        },
        spark={"master": f"local[{PARTITIONS}]", "config": spark},
    )


@pytest.fixture
def much(clusters: KafkaSandbox) -> str:
    """A topic with many records."""
    name = create_topic(clusters.source_servers, unique("much"), PARTITIONS)
    for partition in range(PARTITIONS):
        produce(clusters.source_servers, name, [b"%d" % i for i in range(MANY)], partition)
    return name


@pytest.fixture
def swift(tmp_path: Path) -> Path:
    """To be merged over a pipeline file whose transactions are small."""
    path = tmp_path / "swift.yaml"
    path.write_text("coordination: {commit: {batchSize: 1000}}\n")
    return path


def await_begun(process: subprocess.Popen[str], clusters: KafkaSandbox, topic: str) -> None:
    def begun() -> bool:
        ensure_running(process)
        return (
            topic in topics(clusters.target_servers) and max(end_offsets(clusters.target_servers, topic).values()) > 9
        )

    wait_until(begun, 120, f"the first records of {topic}")


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


# -- runs with an end -----------------------------------------------------------------------------------------------


@pytest.mark.storm
def test_a_run_that_another_takes_over_from_ends_with_4_and_the_other_finishes(
    tmp_path: Path, clusters: KafkaSandbox, much: str, swift: Path
) -> None:
    """Each of them runs one Spark job, with a task a slot, after one that starts the workers."""
    events = tmp_path / "events"
    events.mkdir()
    path = pipeline_file(tmp_path, clusters, [much], "enabled", 1, **event_log(events))
    with started("-f", path, "--once") as first:
        await_begun(first, clusters, much)
        with started("-f", path, "-f", swift, "--once") as second:
            _, err = first.communicate(timeout=500)
            assert first.returncode == 4, err
            _, err_of_second = second.communicate(timeout=500)
    assert f"a newer instance has taken over {much}-" in err
    assert f"process {second.pid}" in err
    assert "Traceback" not in err
    assert second.returncode == 0, err_of_second
    assert_exact_copy(clusters, path, much)
    copied = copied_by(path, clusters)
    assert len(copied) == 2
    assert min(copied) > 0
    assert jobs(events) == [[PARTITIONS, PARTITIONS]] * 2


def event_log(directory: Path) -> dict[str, str]:
    """The settings by which Spark writes one file of JSON lines for each application."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": directory.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def jobs(directory: Path) -> list[list[int]]:
    """Of each application: how many tasks each of its jobs had."""
    found = []
    for log in directory.iterdir():
        events = [json.loads(line) for line in log.read_text().splitlines()]
        begun = [event for event in events if event["Event"] == "SparkListenerJobStart"]
        found.append([sum(stage["Number of Tasks"] for stage in event["Stage Infos"]) for event in begun])
    return found


def copied_by(path: Path, clusters: KafkaSandbox) -> list[int]:
    """How many records each generation has copied, the oldest first."""
    pipeline = load_pipeline([path])
    counts: dict[int, dict[object, int]] = {}
    if pipeline.coordination.commit.topic in topics(clusters.target_servers):
        for record in commit_records(pipeline, clusters.target_servers):
            counts.setdefault(record.generation, {})[record.source] = record.records
    return [sum(of_partitions.values()) for _, of_partitions in sorted(counts.items())]


@pytest.mark.storm
def test_a_run_that_is_signalled_in_the_midst_ends_with_6_and_the_next_one_goes_on(
    tmp_path: Path, clusters: KafkaSandbox, much: str, swift: Path
) -> None:
    path = pipeline_file(tmp_path, clusters, [much], "enabled", 1)
    with started("-f", path, "--once") as process:
        await_begun(process, clusters, much)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 6, err
    copied = len(read_all(clusters.target_servers, much))
    left = PARTITIONS * MANY - copied
    assert f"Error: stopped by a signal before it had caught up: lag {left:,}; start it again" in err
    assert "Traceback" not in err
    assert f"lag {left:,}" in out
    rest = copy(load_pipeline([path, swift])).topics[much]
    assert rest.records == left
    assert_exact_copy(clusters, path, much)


@pytest.mark.storm
def test_a_topic_that_stops_ends_a_run_with_5_and_the_other_is_copied(tmp_path: Path, clusters: KafkaSandbox) -> None:
    """At least once."""
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = create_topic(source, unique("bad")), create_topic(source, unique("good"), PARTITIONS)
    create_topic(target, bad, 1, {"max.message.bytes": "20000"})
    produce(source, bad, [b"small", os.urandom(50_000), b"small"])
    writer = NumberedWriter(source, [], 0)
    for partition in range(PARTITIONS):
        for kind in ("plain", "committed", "aborted", "plain"):
            writer.write(100, good, partition, kind)
    path = pipeline_file(tmp_path, clusters, [bad, good], "disabled")
    with started("-f", path, "--once") as process:
        out, err = process.communicate(timeout=500)
    assert process.returncode == 5, err
    _, _, reasons = err.partition("Error: 1 of 2 topics stopped:\n")
    assert reasons.startswith(f"  {bad}: "), err
    assert f"the target refuses the record at {bad}-0 offset 1 (50000 bytes of key and value) " in reasons
    assert "Traceback" not in err
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert rows.keys() == {bad, good}
    assert rows[bad].endswith("  stopped")
    assert rows[good].endswith("lag 0")
    verdict = verify(load_pipeline([path]), source, target, [good])
    assert (verdict.records, verdict.problems) == (PARTITIONS * 300, [])


# -- without an end -------------------------------------------------------------------------------------------------


def await_more(process: subprocess.Popen[str], path: Path, clusters: KafkaSandbox, generations: int = 0) -> None:
    """Waits until a process has copied 50 records more, and there are so many generations that copied some."""

    def counted() -> tuple[int, int]:
        assert process.poll() is None, f"ended with {process.returncode}"
        copied = copied_by(path, clusters)
        return len([count for count in copied if count]), sum(copied)

    before = counted()[1]
    wait_until(lambda: (now := counted())[0] >= generations and now[1] >= before + 50, 120, "50 records more", 0.3)


def await_all(process: subprocess.Popen[str], path: Path, clusters: KafkaSandbox, topic: str) -> None:
    """Waits until all positions are at the ends of the source, which nobody moves."""
    ends = end_offsets(clusters.source_servers, topic)

    def at_the_end() -> bool:
        assert process.poll() is None, f"ended with {process.returncode}"
        records = commit_records(load_pipeline([path]), clusters.target_servers)
        return {record.source.partition: record.position for record in records} == ends

    wait_until(at_the_end, 120, f"{topic} to be copied", interval=0.3)


@pytest.mark.storm
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_the_second_of_two_takes_over_and_the_first_goes_on_after_it(
    tmp_path: Path, clusters: KafkaSandbox, mode: str
) -> None:
    """Somebody writes all the while."""
    topic = create_topic(clusters.source_servers, unique("both"), PARTITIONS)
    path = pipeline_file(tmp_path, clusters, [topic], mode)
    logs = tmp_path / "first.log", tmp_path / "second.log"
    writer = NumberedWriter(clusters.source_servers, [(topic, p) for p in range(PARTITIONS)], 0)
    with started("-f", path, log=logs[0]) as first:
        with writer.going_on():
            await_more(first, path, clusters)
            with started("-f", path, log=logs[1]) as second:
                await_words(first, logs[0], f"standing by for {PARTITIONS} of {PARTITIONS} partitions")
                assert f"process {second.pid}" in logs[0].read_text()
                await_more(second, path, clusters, 2)
                assert first.poll() is None
                end(second)
            await_words(first, logs[0], "free again: ")
            await_more(first, path, clusters, 3)
            with writer.quiet():
                await_all(first, path, clusters, topic)
        end(first)
    # At-least-once: the first has a producer that nobody fences, perhaps with records in its queue.
    verdict = verify(load_pipeline([path]), clusters.source_servers, clusters.target_servers, [topic], zombies=True)
    assert verdict.problems == []
    copied = copied_by(path, clusters)
    assert len(copied) == 3, "nobody had to begin anew"
    assert min(copied) > 0
    assert [log.name for log in logs if "Traceback" in log.read_text()] == []


@pytest.mark.slow
def test_where_all_is_stopped_it_stays_takes_up_what_is_put_right_and_ends_with_5_for_the_rest(
    tmp_path: Path, clusters: KafkaSandbox
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("stopped"), PARTITIONS)
    for partition in range(PARTITIONS):
        produce(source, topic, [b"%d" % i for i in range(5)], partition)
    begins = {"source": {"topic": [topic], "start": {topic: {0: 99, 1: 99}}}}
    stages = [begins, {"sink": {"topic": "source", "partition": "source"}}]
    path = write_pipeline(tmp_path, source, target, [topic], replication=stages, spark={"master": "local[2]"})
    pipeline, log = load_pipeline([path]), tmp_path / "start.log"
    with started("-f", path, log=log) as process:
        await_words(process, log, "2 partitions are stopped, and none is left to copy: standing by")
        with both_clusters(pipeline) as (of_source, of_target):
            override(pipeline, of_source, of_target, Request((Wanted(topic, 0, "earliest"),), "a test"))
        wait_until(lambda: len(read_all(target, topic)) == 5, 120, "it to be copied")
        ensure_running(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 5
    said = log.read_text()
    assert f"1 of 1 topic stopped:\n  {topic}: {topic}-1: [start-outside-log]" in said
    assert "Traceback" not in said


@pytest.mark.own_clusters
@pytest.mark.storm
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_brokers_that_are_killed_are_waited_for(tmp_path: Path, clusters: KafkaSandbox, mode: str) -> None:
    topic = create_topic(clusters.source_servers, unique("gone"), PARTITIONS)
    path = pipeline_file(tmp_path, clusters, [topic], mode)
    log = tmp_path / "start.log"
    writer = NumberedWriter(clusters.source_servers, [(topic, p) for p in range(PARTITIONS)], 0, pause=0.03)
    with started("-f", path, log=log) as process:
        with writer.going_on():
            await_more(process, path, clusters)
            for broker in (clusters.source, clusters.target):
                broker.restart(kill=True)
                await_more(process, path, clusters)
            with writer.quiet():
                await_all(process, path, clusters, topic)
        end(process)
    verdict = verify(load_pipeline([path]), clusters.source_servers, clusters.target_servers, [topic])
    assert verdict.problems == []
    assert verdict.records >= 150
    assert "Traceback" not in log.read_text()
