"""The core of the promises on brokers of an older Kafka, alone and together with the newest.

All other tests run on the newest one. `K2K_KAFKA_VERSION` lets them run on another one too (TESTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from k2k_assets.cli.main import run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.groups.mapper_world import World, await_held, polling, words
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, unique
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.killed_instance import run_and_kill
from k2k_assets_tests.support.copies.pipelines import MODES, write_pipeline
from k2k_assets_tests.support.copies.takeovers import Flow, assert_all_copied, topic_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

VERSION = "3.9.2"
PARTITIONS = 2


@dataclass
class Between:
    """Two clusters as `KafkaSandbox` has them, of which each may be an older one."""

    source_servers: str
    target_servers: str


@pytest.fixture(scope="module")
def older() -> Iterator[KafkaSandbox]:
    """Two clusters of an older Kafka."""
    with KafkaSandbox(version=VERSION) as found:
        yield found


def pipeline_file(directory: Path, between: Between | KafkaSandbox, mode: str) -> Path:
    """A pipeline of one topic, with several transactions for what the tests write."""
    return write_pipeline(
        directory,
        between.source_servers,
        between.target_servers,
        [create_topic(between.source_servers, unique("orders"), PARTITIONS)],
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={"commit": {"batchSize": 40}, "assignment": {"graceWindow": "1 second"}},
    )


def assert_goes_on_exactly_where_it_was_killed(between: Between | KafkaSandbox, pipeline: Pipeline) -> None:
    """Kills a copy within its second transaction, and lets the next one copy the rest: contents and mappings fit."""
    flow = Flow(between, topic_of(pipeline), PARTITIONS)  # type: ignore[arg-type]
    flow.write(100)
    run_and_kill(pipeline)
    flow.write(100)
    outcome = copy(pipeline)
    assert told(outcome) == {}
    assert assert_all_copied(between, pipeline, overtaken=True) == flow.written  # type: ignore[arg-type]


@MODES
def test_a_killed_copy_goes_on(tmp_path: Path, older: KafkaSandbox, mode: str) -> None:
    path = pipeline_file(tmp_path, older, mode)
    assert run(["validate", "-f", str(path), "--connect"]) == 0
    assert_goes_on_exactly_where_it_was_killed(older, load_pipeline([path]))


@pytest.mark.parametrize("to_older", [False, True], ids=["to the newest", "from the newest"])
def test_between_two_versions(tmp_path: Path, older: KafkaSandbox, clusters: KafkaSandbox, to_older: bool) -> None:
    source, target = (clusters, older) if to_older else (older, clusters)
    between = Between(source.source_servers, target.target_servers)
    path = pipeline_file(tmp_path, between, "enabled")
    assert_goes_on_exactly_where_it_was_killed(between, load_pipeline([path]))


def test_a_group_is_translated_exactly(tmp_path: Path, older: KafkaSandbox) -> None:
    """Across aborted transactions and markers, forward and back."""
    path = pipeline_file(tmp_path, older, "enabled")
    topic, group = topic_of(load_pipeline([path])), unique("group")
    world = World(older.source_servers, older.target_servers, topic, tmp_path, path)
    world.write(PARTITIONS)
    copy(load_pipeline([path]))
    commit(world.source, group, {TopicPartition(topic, 0): 60, TopicPartition(topic, 1): 5})
    with polling(world.pipeline([group])) as poller:
        assert words(poller.poll(), group) == {0: "exact", 1: "exact"}
        await_held(world, group, p0=60, p1=5)
        commit(world.source, group, {TopicPartition(topic, 0): 10})
        assert poller.poll().committed == {group}
        await_held(world, group, p0=10, p1=5)


def test_a_topic_that_was_created_anew_stops_loudly(tmp_path: Path, older: KafkaSandbox) -> None:
    """It takes topic ids."""
    path = pipeline_file(tmp_path, older, "enabled")
    pipeline = load_pipeline([path])
    topic = topic_of(pipeline)
    Flow(older, topic, PARTITIONS).write()
    copy(pipeline)
    delete_topic(older.source_servers, topic)
    create_topic(older.source_servers, topic, PARTITIONS)
    Flow(older, topic, PARTITIONS).write()
    assert "source-recreated" in told(copy(pipeline))[topic]
