"""Measures a tick of each sensor where there is much to look at, and what it leaves in its cursor.

    python -m benchmarks.ticks                        # 500 topics of 20 partitions, 1000 groups
    python -m benchmarks.ticks --topics 20 --groups 50   # to try the benchmark itself
    python -m benchmarks.ticks --append               # the same, appended to RESULTS.md

Both clusters have all topics, each partition has a commit record, and each group a commit in all partitions of one
topic, on both clusters. A tick is the sensor's function as Dagster's code server calls it; what the daemon does before
and after it is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import NewTopic

from benchmarks import machine, report
from benchmarks.lab import Lab
from k2k_assets import orchestration
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import refresh
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline, load_pipeline

PARTITIONS = 20
TICKS = 5
GOAL_SECONDS, GOAL_BYTES = 2.0, 64 * 1024
_AT_ONCE = 25
_SECONDS = 120.0


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ticks", description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    with Lab() as lab:
        topics = [f"tick.topic-{number:04}" for number in range(options.topics)]
        groups = {f"tick-group-{n:04}": topics[n % len(topics)] for n in range(options.groups)}
        folder = _prepared(lab, topics, groups)
        rows = _measured(lab.folder, folder)
    title = (
        f"### Ticks\n\n{len(topics)} topics of {PARTITIONS} partitions, {len(groups):,} groups with a commit in each"
    )
    words = "\n".join(f"- {line}" for line in machine.summary())
    sections = [
        f"{title} of one topic\n\n{words}",
        report.table(["sensor", "tick", "seconds", "cursor, bytes", "goal"], rows),
    ]
    report.say("\n\n" + "\n\n".join(sections))
    if options.append:
        report.append(sections)


# -- what the clusters hold --------------------------------------------------------------------------------------------


def _prepared(lab: Lab, topics: Sequence[str], groups: dict[str, str]) -> Path:
    """The clusters' content, and the folder of a pipeline that has copied all of it."""
    for cluster in (lab.source, lab.target):
        report.progress(f"creating {len(topics)} topics on the {cluster.role}")
        _create(cluster, topics)
    folder = lab.folder / "pipelines"
    folder.mkdir()
    on = "enabled"
    document = {
        "name": "ticks",
        "features": {"exactlyOnce": on, "offsetMapping": on, "autoCreateTopics": on, "autoCreateControlTopics": on},
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.source_servers},
                "consumer": {"group.id": "k2k.ticks"},
            }
        },
        "target": {"kafka": {"common": {"bootstrap.servers": lab.sandbox.target_servers}}},
        "replication": [{"source": {"topic": "tick[.].*"}}, {"sink": {"topic": "source", "partition": "source"}}],
        "groups": {"consumerGroups": "tick-.*"},
    }
    (folder / "ticks.yaml").write_text(json.dumps(document))
    os.environ["K2K_HOME"] = str(lab.folder / "home")
    pipeline = load_pipeline([folder / "ticks.yaml"])
    ensure_control_topics(pipeline, lab.target)
    report.progress("writing commit records")
    _commit_positions(lab, pipeline, topics)
    report.progress(f"committing for {len(groups)} groups")
    for cluster in (lab.source, lab.target):
        _commit_groups(cluster, groups)
    refresh(pipeline, lab.source, lab.target)
    return folder


def _create(cluster: Cluster, topics: Sequence[str]) -> None:
    for some in _portions(topics):
        asked = cluster.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in some], request_timeout=_SECONDS)
        for future in asked.values():
            future.result(_SECONDS)
    wait_until(lambda: set(topics) <= set(cluster.topics()), _SECONDS, f"all topics of the {cluster.role}")


def _commit_positions(lab: Lab, pipeline: Pipeline, topics: Sequence[str]) -> None:
    source, target = lab.source.describe(topics), lab.target.describe(topics)
    producer = Producer({"bootstrap.servers": lab.sandbox.target_servers, "linger.ms": 50})
    for number, (name, partition) in enumerate((name, p) for name in topics for p in range(PARTITIONS)):
        record = CommitRecord(
            group=pipeline.group,
            cluster=lab.source.cluster_id(),
            source=TopicPartition(name, partition),
            kind="commit",
            pipeline=pipeline.name,
            position=0,
            leader_epoch=None,
            source_topic_id=source[name].topic_id,
            target_topic=name,
            target_topic_id=target[name].topic_id,
            target_end=None,
            generation=1,
            slot=0,
            sequence=number,
            time=int(time.time() * 1000),
            records=0,
            reason=None,
        )
        producer.produce(pipeline.coordination.commit.topic, record.value_bytes(), record.key_bytes())
        producer.poll(0)
    if producer.flush(_SECONDS):
        raise TimeoutError("the target did not take the commit records")


def _commit_groups(cluster: Cluster, groups: dict[str, str]) -> None:
    for some in _portions(list(groups)):
        asked = [
            cluster.admin.alter_consumer_group_offsets(
                [
                    ConsumerGroupTopicPartitions(
                        group, [KafkaTopicPartition(groups[group], p, 0) for p in range(PARTITIONS)]
                    )
                ],
                request_timeout=_SECONDS,
            )[group]
            for group in some
        ]
        for future in asked:
            future.result(_SECONDS)


def _portions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[first : first + _AT_ONCE] for first in range(0, len(names), _AT_ONCE))


# -- ticks -------------------------------------------------------------------------------------------------------------


def _measured(scratch: Path, folder: Path) -> list[list[str]]:
    home = scratch / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((Path(orchestration.__file__).parent / "dagster.yaml").read_text())
    repository = build_definitions(folder).get_repository_def()
    rows = []
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for name in sorted(sensor.name for sensor in repository.sensor_defs):
            cursor = None
            for number in range(1, TICKS + 1):
                row, cursor = _tick(repository, instance, name, number, cursor)
                rows.append(row)
    return rows


def _tick(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, name: str, number: int, cursor: str | None
) -> tuple[list[str], str | None]:
    sensor: Any = repository.get_sensor_def(name)
    context = dg.build_sensor_context(
        instance=instance, cursor=cursor, repository_def=repository, sensor_name=name, definitions=None
    )
    started = time.perf_counter()
    result = sensor(context)
    seconds = time.perf_counter() - started
    if isinstance(result, dg.SkipReason):
        raise RuntimeError(f"{name} could not look: {result.skip_message}")
    size = len((result.cursor or "").encode())
    report.progress(f"{name}, tick {number}: {seconds:.2f} s, {size} bytes; {result.skip_reason or 'asks for a run'}")
    good = seconds < GOAL_SECONDS and size < GOAL_BYTES
    return [name, str(number), f"{seconds:.2f}", f"{size:,}", "yes" if good else "NO"], result.cursor


if __name__ == "__main__":
    main()
