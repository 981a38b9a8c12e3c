"""Clusters of three nodes that restart one after the other, on either side of a copy by batches that never ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.replication.delivery.test_exactly_once import EXACTLY_ONCE
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.brokers.three_nodes import NODES, ThreeNodes
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
)
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PARTITIONS, PREFIX = 3, "copy."


class Copied(NamedTuple):
    """How a copy went.

    Attributes:
        restarts: Why sessions began anew.
        pause: The longest time between two commits, in seconds.
    """

    restarts: list[str]
    pause: float


def _copied_while(
    happening: Iterable[None], source: str, target: str, topic: str, directory: Path, caplog: pytest.LogCaptureFixture
) -> Copied:
    """Copies while something happens, step by step, and compares."""
    pipeline = make_pipeline(
        directory, source, target, [topic],
        sink={"prefix": PREFIX}, features=EXACTLY_ONCE, transport={"form": "batches"},
    )  # fmt: skip
    caplog.set_level("INFO", "k2k")
    running = Running(pipeline, cores=1)
    with NumberedWriter(source, [(topic, partition) for partition in range(PARTITIONS)], 1, pause=0.02).going_on():
        running.await_copied(200)
        for _ in happening:
            running.await_copied(running.copied() + 200)
    running.end()
    times = sorted(record.time for record in commit_records(pipeline, target))
    assert copy(pipeline).topics[topic].lag == 0
    assert assert_same_content(source, topic, target, f"{PREFIX}{topic}") > 200
    assert_exact_mappings(pipeline, source, target, topic)
    said = [record.getMessage() for record in caplog.records]
    assert any("copies by whole batches" in line for line in said)
    pause = max(after - before for before, after in pairwise(times)) / 1000
    return Copied([line for line in said if "starts again" in line], pause)


def _restarted(nodes: ThreeNodes) -> Iterator[None]:
    for node in NODES:
        nodes.restart(node)
        yield


def test_nodes_of_the_target_restart_one_after_the_other(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(clusters.source_servers, unique("moving"), PARTITIONS)
    with ThreeNodes("target", tmp_path / "nodes") as target:
        target.create(f"{PREFIX}{topic}", NODES)
        _copied_while(_restarted(target), clusters.source_servers, target.servers, topic, tmp_path, caplog)


def test_nodes_of_the_source_restart_one_after_the_other(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreeNodes("source", tmp_path / "nodes") as source:
        topic = source.create(unique("moving"), NODES)
        _copied_while(_restarted(source), source.servers, clusters.target_servers, topic, tmp_path, caplog)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
def test_an_answer_that_is_lost_costs_one_session_and_little_time(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: Trouble
) -> None:
    topic = create_topic(clusters.source_servers, unique("cut"), PARTITIONS)
    with Proxy(clusters.target_servers) as proxy:

        def cut() -> Iterator[None]:
            fault = proxy.arm(Fault(Api.PRODUCE, trouble, occurrence=4))
            assert fault.chosen.wait(SECONDS)
            yield

        copied = _copied_while(cut(), clusters.source_servers, proxy.servers, topic, tmp_path, caplog)
    assert len(copied.restarts) == 1
    # Less than one second on a machine that has nothing else to do.
    assert copied.pause < 25, "the next session began at once, not after the thirty seconds of a step"
