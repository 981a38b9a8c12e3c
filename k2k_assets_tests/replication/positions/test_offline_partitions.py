"""One offline partition on the source or on the target: the others are copied, and it is named."""

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
from k2k_assets.replication.slot.start import offline_partitions
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.librdkafka.at_least_once_sink import AtLeastOnceSink
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.brokers.second_node import TwoNodes, create_on_nodes
from k2k_assets_tests.support.copies.copying import Running, assert_exact_mappings, commit_records, copy, told
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

WINDOW = Window(timedelta(minutes=1), timedelta(seconds=1))
# Longest restart of a node on a busy machine.
SECONDS = 90.0
ONE_SLOT, TWO_SLOTS = (1, WINDOW), (2, UntilCaughtUp())
# The cluster of the partition, and `features.exactlyOnce`.
SOURCE, TARGET = ("source", "enabled"), ("target", "enabled")
SOURCE_AT_LEAST_ONCE, TARGET_AT_LEAST_ONCE = ("source", "disabled"), ("target", "disabled")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with TwoNodes(tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@dataclass
class Fixture:
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
def fixture(
    request: pytest.FixtureRequest, clusters: KafkaSandbox, nodes: TwoNodes, tmp_path: Path
) -> Iterator[Fixture]:
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
    fixture = Fixture(role, nodes, pipeline, source, target, topic, NumberedWriter(source, [], 0))
    fixture.write(0)
    fixture.write(1)
    assert copy(fixture.pipeline).topics[topic].records == 10
    yield fixture
    nodes.up()


@pytest.mark.parametrize(
    ("fixture", "cores", "extent"),
    [
        (TARGET, *ONE_SLOT),
        (SOURCE, *ONE_SLOT),
        (SOURCE, *TWO_SLOTS),
        (TARGET, *TWO_SLOTS),
        (SOURCE_AT_LEAST_ONCE, *TWO_SLOTS),
        (TARGET_AT_LEAST_ONCE, *ONE_SLOT),
    ],
    indirect=["fixture"],
)
@pytest.mark.storm
def test_a_run_with_an_end_stops_it_by_name(
    fixture: Fixture, cores: int, extent: Extent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a leader election; another test checks how long a run waits.
    monkeypatch.setattr(offline_partitions, "_PATIENCE_SECONDS", 5.0)
    monkeypatch.setattr(offline_partitions, "_POLL_SECONDS", 0.1)
    fixture.write(0)
    fixture.write(1)
    fixture.nodes.down()

    whole = copy(fixture.pipeline, extent, cores)
    outcome, words = whole.topics[fixture.topic], told(whole)[fixture.topic]

    assert words.startswith(f"{fixture.lost}: [no-leader] the {fixture.role} cluster ")
    assert f"no leader that answers for {fixture.lost}" in words
    assert (outcome.partitions[0].position, outcome.partitions[1].position) == (10, 5)
    assert {r.source: r.reason for r in commit_records(fixture.pipeline, fixture.target)}[fixture.lost] is None

    fixture.nodes.up()
    outcome = copy(fixture.pipeline).topics[fixture.topic]
    assert (outcome.stopped, outcome.records) == ({}, 5)
    fixture.assert_all_copied(20)


@pytest.mark.parametrize(
    "fixture", in_storms((SOURCE,), (TARGET,), (SOURCE_AT_LEAST_ONCE,), (TARGET_AT_LEAST_ONCE,)), indirect=True
)
def test_a_run_with_an_end_waits_some_time_for_it(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offline_partitions, "_POLL_SECONDS", 0.1)
    caplog.set_level(logging.WARNING, "k2k.replication")
    fixture.write(0)
    fixture.write(1)
    fixture.nodes.down()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(copy, fixture.pipeline, UntilCaughtUp(), 1)
        wait_until(lambda: f"goes on without {fixture.lost}" in caplog.text, SECONDS, "the partition to be left out")
        fixture.nodes.up()
        outcome = running.result(90).topics[fixture.topic]
    assert (outcome.stopped, outcome.records) == ({}, 10)
    fixture.assert_all_copied(20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fixture", [SOURCE, *in_storms((TARGET,), (SOURCE_AT_LEAST_ONCE,), (TARGET_AT_LEAST_ONCE,))], indirect=True
)
def test_a_continuous_copy_goes_on_without_it_and_then_with_it(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offline_partitions, "_POLL_SECONDS", 0.1)
    caplog.set_level(logging.WARNING, "k2k.replication")
    kept = TopicPartition(fixture.topic, 0)
    fixture.write(1)
    fixture.nodes.down()
    running = Running(fixture.pipeline, cores=1)
    try:
        fixture.write(0)
        wait_until(lambda: running.positions().get(kept) == 10, SECONDS, "the others to be copied")
        assert f"goes on without {fixture.lost}" in caplog.text
        assert running.positions()[fixture.lost] == 5
        fixture.nodes.up()
        wait_until(lambda: running.positions()[fixture.lost] == 10, SECONDS, "the rest to be copied")
        fixture.write(0)
        fixture.write(1)
        running.await_copied(20)
    finally:
        running.end()
    fixture.assert_all_copied(30)
    newest = {r.source: r for r in commit_records(fixture.pipeline, fixture.target)}
    assert {tp: (r.kind, r.position, r.reason) for tp, r in newest.items()} == dict.fromkeys(
        (kept, fixture.lost), ("release", 15, None)
    )


@pytest.mark.parametrize("fixture", in_storms((TARGET,), (TARGET_AT_LEAST_ONCE,)), indirect=True)
def test_what_is_on_its_way_to_it_holds_up_no_others(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its leader goes while a copy runs. What is queued for it is aborted; outside transactions it is given up."""
    monkeypatch.setattr(offline_partitions, "_POLL_SECONDS", 0.1)
    monkeypatch.setattr(AtLeastOnceSink.__init__, "__defaults__", (2.0,))
    caplog.set_level(logging.WARNING, "k2k")
    kept = TopicPartition(fixture.topic, 0)
    given_up = "records for 2 s: they are read again", "nobody leads partition 1"  # librdkafka waits, batches do not
    running = Running(fixture.pipeline, cores=1)
    try:
        fixture.write(0)
        fixture.write(1)
        running.await_copied(10)
        fixture.nodes.down()
        fixture.write(1)
        wait_until(lambda: f"goes on without {fixture.lost}" in caplog.text, SECONDS, "the partition to be left out")
        fixture.write(0)
        wait_until(lambda: running.positions().get(kept) == 15, SECONDS, "the others to be copied")
        assert running.positions()[fixture.lost] == 10
        fixture.nodes.up()
        wait_until(lambda: running.positions()[fixture.lost] == 15, SECONDS, "the rest to be copied")
    finally:
        running.end()
    assert fixture.pipeline.features.exactly_once or any(words in caplog.text for words in given_up)
    fixture.assert_all_copied(30)
