"""An open transaction of the dead in the commit topic holds up nobody until its time-out: nobody would wait so long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment.claims import Claims
from k2k_assets.replication.assignment.tail import AssignmentTail
from k2k_assets.replication.plan import transactional_id
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topic_partition import TopicPartition
from k2k_assets.transport.librdkafka_sink import TransactionalSink
from k2k_assets_tests.support.copying import assert_same_content, copy
from k2k_assets_tests.support.kafka import create_topic, produce, unique
from k2k_assets_tests.support.pipelines import make_pipeline

pytestmark = pytest.mark.integration

Die = Callable[[int], None]


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    """One whose transactions outlast any test."""
    topic = create_topic(clusters.source_servers, unique("left"))
    produce(clusters.source_servers, topic, [b"1"] * 5)
    return make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled"},
        coordination={
            "commit": {"topic": unique("commits"), "syncTimeout": "11 minutes"},
            "assignment": {"topic": unique("claims"), "graceWindow": "1 seconds"},
        },
        target={
            "kafka": {
                "common": {"bootstrap.servers": clusters.target_servers},
                "producer": {"transaction.timeout.ms": 600_000},
            }
        },
    )


@pytest.fixture
def die(clusters: KafkaSandbox, pipeline: Pipeline) -> Iterator[Die]:
    """Leaves what a slot of this number leaves that dies before it commits: a claim, and an open transaction."""
    with ExitStack() as stack:
        target = stack.enter_context(Cluster("target", {"bootstrap.servers": clusters.target_servers}))

        def leave(slot: int) -> None:
            topic = (pipeline.selection.literal or ())[0]
            own = transactional_id(pipeline.name, pipeline.group, slot)
            sink = TransactionalSink(pipeline.client_properties("target", "producer"), own, report_each=False)
            stack.callback(sink.close)
            tail = stack.enter_context(AssignmentTail(pipeline, target))
            sink.open()
            claims = Claims(pipeline, tail, sink, own, (0, slot))
            with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
                claims.claim(claims.new({TopicPartition(topic, 0): source.describe([topic])[topic].topic_id}))
            sink.begin()
            sink.write_control(pipeline.coordination.commit.topic, 0, b'{"kind":"left"}', b"{}")
            sink.settle()
            commits = [TopicPartition(pipeline.coordination.commit.topic, 0)]
            assert target.offsets(commits, "stable") != target.offsets(commits, "latest")

        yield leave


@pytest.mark.parametrize("slot", [pytest.param(0, id="at once"), pytest.param(2, id="after the grace window")])
def test_who_comes_after_the_dead_goes_on(clusters: KafkaSandbox, pipeline: Pipeline, die: Die, slot: int) -> None:
    """Whether the next instance has a slot of that number or not."""
    (topic,) = pipeline.selection.literal or ()
    copy(pipeline)
    die(slot)
    produce(clusters.source_servers, topic, [b"2"] * 5)
    assert copy(pipeline, cores=1).topics[topic].lag == 0
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 10
