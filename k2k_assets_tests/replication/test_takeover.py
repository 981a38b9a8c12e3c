"""G6: one instance of a group works at a time; a superseded one can commit nothing and never claims again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from k2k_assets.deadline import wait_until
from k2k_assets.errors import Refused, Superseded
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.announce import announce
from k2k_assets.replication.assignment import AssignmentTail, new_instance, write_instance
from k2k_assets.replication.plan import transactional_id
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topics.control_topics import ensure_control_topics
from k2k_assets.transport.errors import Fenced
from k2k_assets.transport.librdkafka_sink import TransactionalSink
from k2k_assets_tests.support.copying import Running, assert_exact_mappings, assert_same_content, commit_records, copy
from k2k_assets_tests.support.kafka import create_topic, delete_topic, produce, read_all, unique
from k2k_assets_tests.support.pipelines import make_pipeline

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("taken"), 4)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features)


def topic_of(pipeline: Pipeline) -> str:
    assert pipeline.selection.literal
    return pipeline.selection.literal[0]


@pytest.mark.parametrize(("first_slots", "second_slots"), [(2, 2), (3, 1), (1, 3)])
def test_a_second_instance_takes_over(
    clusters: KafkaSandbox, pipeline: Pipeline, first_slots: int, second_slots: int
) -> None:
    topic = topic_of(pipeline)
    for partition in range(4):
        produce(clusters.source_servers, topic, [b"first-%d" % i for i in range(50)], partition)
    first = Running(pipeline, first_slots)
    wait_until(lambda: first.copied() == 200, 60, "the first instance to copy")
    second = Running(pipeline, second_slots)
    first.join()
    for partition in range(4):
        produce(clusters.source_servers, topic, [b"second-%d" % i for i in range(50)], partition)
    wait_until(lambda: second.copied() == 200, 60, "the second instance to copy")
    second.stop.set()
    second.join()

    assert isinstance(first.error, Superseded)
    assert "newer instance" in str(first.error)
    assert second.error is None
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)
    generations = [r.generation for r in commit_records(pipeline, clusters.target_servers)]
    assert generations == sorted(generations)


def test_a_superseded_slot_can_commit_nothing(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """Fencing alone: the old slot's open transaction dies with the announcement of the new instance."""
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        ensure_control_topics(pipeline, target)
        topic_id = target.describe([pipeline.coordination.commit.topic])[pipeline.coordination.commit.topic].topic_id
        announce(pipeline, target, slots=3, commit_topic_id=topic_id)
        properties = pipeline.client_properties("target", "producer")
        old = TransactionalSink(properties, transactional_id(pipeline.name, pipeline.group, 2), report_each=False)
        old.open()
        old.begin()
        old.write_control(pipeline.coordination.commit.topic, 0, b"{}", b"from a zombie")
        announce(pipeline, target, slots=1, commit_topic_id=topic_id)
        with pytest.raises(Fenced):
            old.commit()
        assert read_all(clusters.target_servers, pipeline.coordination.commit.topic) == []


def test_a_slow_older_instance_ends_before_it_reads_a_position(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """It wrote its record, was overtaken, and only then claims its slots: it finds the newer record and ends."""
    topic = topic_of(pipeline)
    produce(clusters.source_servers, topic, [b"x"] * 20, 0)
    released = threading.Event()
    overtaken: list[Exception] = []

    def slow(plans: list) -> list:  # type: ignore[type-arg]
        from k2k_assets_tests.support.copying import in_threads

        released.wait(60)
        return in_threads(plans)

    def run_slow() -> None:
        try:
            copy(pipeline, runner=slow)
        except Exception as error:
            overtaken.append(error)

    thread = threading.Thread(target=run_slow, daemon=True)
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        thread.start()
        wait_until(lambda: _generation(pipeline, target) >= 0, 30, "the slow instance's record")
        newer = Running(pipeline, 2)
        wait_until(lambda: newer.copied() == 20, 60, "the newer instance to copy")
        released.set()
        thread.join(60)
        produce(clusters.source_servers, topic, [b"y"] * 20, 0)
        wait_until(lambda: newer.copied() == 40, 60, "the newer instance to copy on")
        newer.stop.set()
        newer.join()
    assert isinstance(overtaken[0], Superseded)
    assert newer.error is None
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_a_commit_topic_that_was_lost_is_not_a_fresh_start(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    topic = topic_of(pipeline)
    produce(clusters.source_servers, topic, [b"x"] * 20, 0)
    copy(pipeline)
    delete_topic(clusters.target_servers, pipeline.coordination.commit.topic)
    with pytest.raises(Refused, match=r"deleted and created anew.*new group\.id"):
        copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_another_pipeline_of_the_same_group_takes_over_too(
    clusters: KafkaSandbox, pipeline: Pipeline, tmp_path: Path
) -> None:
    """Progress belongs to the group: two pipelines that share one would copy everything twice."""
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        ensure_control_topics(pipeline, target)
        first = Running(pipeline, 1)
        wait_until(lambda: _generation(pipeline, target) >= 0, 30, "the first instance's record")
        other = pipeline.model_copy(update={"name": unique("other")})
        write_instance(other, new_instance(other, 1, "any"))
        first.join()
    assert isinstance(first.error, Superseded)
    assert other.name in str(first.error)


def _generation(pipeline: Pipeline, target: Cluster) -> int:
    if pipeline.coordination.assignment.topic not in target.topics():
        return -1
    with AssignmentTail(pipeline, target) as tail:
        return tail.catch_up().newest()
