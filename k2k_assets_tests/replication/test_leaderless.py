"""One partition without a leader, on the source or on the target: the others are copied, and it is named."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from k2k_assets.control.control_topics import control_topics
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Extent, UntilCaughtUp, Window
from k2k_assets.replication.slot import leaderless
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.librdkafka.at_least_once_sink import AtLeastOnceSink
from k2k_assets_tests.support.copying import Running, assert_exact_mappings, commit_records, copy
from k2k_assets_tests.support.kafka import create_topic, produce, unique
from k2k_assets_tests.support.numbered import NumberedWriter
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.second_node import TwoNodes, create_on_nodes
from k2k_assets_tests.support.storms import in_storms
from k2k_assets_tests.support.verifying import verify

pytestmark = pytest.mark.integration

WINDOW = Window(timedelta(minutes=1), timedelta(seconds=1))
# A node that comes back, on a machine that does other things too.
SECONDS = 90.0
ONE_SLOT, TWO_SLOTS = (1, WINDOW), (2, UntilCaughtUp())
# Whose partition, and `features.exactlyOnce`.
SOURCE, TARGET = ("source", "enabled"), ("target", "enabled")
SOURCE_AT_LEAST_ONCE, TARGET_AT_LEAST_ONCE = ("source", "disabled"), ("target", "disabled")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with TwoNodes(tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@dataclass
class Scene:
    """Partition 0 of a topic lies on the node that stays, 1 on the one that goes; five records in each are copied."""

    role: str
    nodes: TwoNodes
    pipeline: Pipeline
    source: str
    target: str
    topic: str
    writer: NumberedWriter

    @property
    def lost(self) -> TopicPartition:
        return TopicPartition(self.topic, 1)

    def write(self, partition: int, count: int = 5) -> None:
        produce(self.source, self.topic, self.writer.records(count, random.Random(partition)), partition)

    def assert_all_copied(self, records: int) -> None:
        verdict = verify(self.pipeline, self.source, self.target, [self.topic])
        assert (verdict.records, verdict.problems) == (records, [])
        assert_exact_mappings(self.pipeline, self.source, self.target, self.topic)


@pytest.fixture
def scene(request: pytest.FixtureRequest, clusters: KafkaSandbox, nodes: TwoNodes, tmp_path: Path) -> Iterator[Scene]:
    role, mode = request.param
    source, target = clusters.source_servers, nodes.servers
    if role == "source":
        source, target = nodes.servers, clusters.target_servers
        topic = create_on_nodes(source, unique("split"), [1, 2])
    else:
        topic = create_on_nodes(target, create_topic(source, unique("split"), 2), [1, 2])
    features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
    pipeline = make_pipeline(tmp_path, source, target, topic, features=features)
    if role == "target":
        for name, wanted in control_topics(pipeline).items():
            create_on_nodes(target, name, [1] * (wanted.partitions or 1), wanted.config)
    scene = Scene(role, nodes, pipeline, source, target, topic, NumberedWriter(source, [], 0))
    scene.write(0)
    scene.write(1)
    assert copy(scene.pipeline).topics[topic].records == 10
    yield scene
    nodes.up()


@pytest.mark.parametrize(
    ("scene", "cores", "extent"),
    [
        (TARGET, *ONE_SLOT),
        (SOURCE, *ONE_SLOT),
        (SOURCE, *TWO_SLOTS),
        (TARGET, *TWO_SLOTS),
        (SOURCE_AT_LEAST_ONCE, *TWO_SLOTS),
        (TARGET_AT_LEAST_ONCE, *ONE_SLOT),
    ],
    indirect=["scene"],
)
@pytest.mark.storm
def test_a_run_with_an_end_stops_it_by_name(
    scene: Scene, cores: int, extent: Extent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a leader that is only elected, or not known yet; how long a run waits is tested elsewhere.
    monkeypatch.setattr(leaderless, "_PATIENCE_SECONDS", 5.0)
    monkeypatch.setattr(leaderless, "_LOOK_SECONDS", 0.1)
    scene.write(0)
    scene.write(1)
    scene.nodes.down()

    outcome = copy(scene.pipeline, extent, cores).topics[scene.topic]

    assert outcome.stopped is not None
    assert outcome.stopped.startswith(f"{scene.lost}: the {scene.role} cluster ")
    assert f"no leader that answers for {scene.lost}" in outcome.stopped
    assert (outcome.partitions[0].position, outcome.partitions[1].position) == (10, 5)
    assert {r.source: r.reason for r in commit_records(scene.pipeline, scene.target)}[scene.lost] is None

    scene.nodes.up()
    outcome = copy(scene.pipeline).topics[scene.topic]
    assert (outcome.stopped, outcome.records) == (None, 5)
    scene.assert_all_copied(20)


@pytest.mark.parametrize(
    "scene", in_storms((SOURCE,), (TARGET,), (SOURCE_AT_LEAST_ONCE,), (TARGET_AT_LEAST_ONCE,)), indirect=True
)
def test_a_run_with_an_end_waits_some_time_for_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaderless, "_LOOK_SECONDS", 0.1)
    caplog.set_level(logging.WARNING, "k2k.replication")
    scene.write(0)
    scene.write(1)
    scene.nodes.down()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(copy, scene.pipeline, UntilCaughtUp(), 1)
        wait_until(lambda: f"goes on without {scene.lost}" in caplog.text, SECONDS, "the partition to be left out")
        scene.nodes.up()
        outcome = running.result(90).topics[scene.topic]
    assert (outcome.stopped, outcome.records) == (None, 10)
    scene.assert_all_copied(20)


@pytest.mark.parametrize(
    "scene", [SOURCE, *in_storms((TARGET,), (SOURCE_AT_LEAST_ONCE,), (TARGET_AT_LEAST_ONCE,))], indirect=True
)
def test_a_continuous_copy_goes_on_without_it_and_then_with_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaderless, "_LOOK_SECONDS", 0.1)
    caplog.set_level(logging.WARNING, "k2k.replication")
    kept = TopicPartition(scene.topic, 0)
    scene.write(1)
    scene.nodes.down()
    running = Running(scene.pipeline, cores=1)
    try:
        scene.write(0)
        wait_until(lambda: running.positions().get(kept) == 10, SECONDS, "the others to be copied")
        assert f"goes on without {scene.lost}" in caplog.text
        assert running.positions()[scene.lost] == 5
        scene.nodes.up()
        wait_until(lambda: running.positions()[scene.lost] == 10, SECONDS, "the rest to be copied")
        scene.write(0)
        scene.write(1)
        running.await_copied(20)
    finally:
        running.end()
    scene.assert_all_copied(30)
    newest = {r.source: r for r in commit_records(scene.pipeline, scene.target)}
    assert {tp: (r.kind, r.position, r.reason) for tp, r in newest.items()} == dict.fromkeys(
        (kept, scene.lost), ("release", 15, None)
    )


@pytest.mark.parametrize("scene", in_storms((TARGET,), (TARGET_AT_LEAST_ONCE,)), indirect=True)
def test_what_is_on_its_way_to_it_holds_up_no_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its leader goes while a copy runs. What is queued for it is aborted; outside transactions it is given up."""
    monkeypatch.setattr(leaderless, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(AtLeastOnceSink.__init__, "__defaults__", (2.0,))
    caplog.set_level(logging.WARNING, "k2k")
    kept = TopicPartition(scene.topic, 0)
    given_up = "records for 2 s: they are read again"
    running = Running(scene.pipeline, cores=1)
    try:
        scene.write(0)
        scene.write(1)
        running.await_copied(10)
        scene.nodes.down()
        scene.write(1)
        wait_until(lambda: f"goes on without {scene.lost}" in caplog.text, SECONDS, "the partition to be left out")
        scene.write(0)
        wait_until(lambda: running.positions().get(kept) == 15, SECONDS, "the others to be copied")
        assert running.positions()[scene.lost] == 10
        scene.nodes.up()
        wait_until(lambda: running.positions()[scene.lost] == 15, SECONDS, "the rest to be copied")
    finally:
        running.end()
    assert (given_up in caplog.text) == (not scene.pipeline.features.exactly_once)
    scene.assert_all_copied(30)
