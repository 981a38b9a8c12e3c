"""Cases from an adversarial review: each once broke a guarantee."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import connection
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Window
from k2k_assets.replication.slot import session as session_module
from k2k_assets.replication.slot import slot as slot_module
from k2k_assets.replication.slot.read import silent_source
from k2k_assets.replication.slot.task import copy_slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    topics,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    in_threads,
)
from k2k_assets_tests.support.copies.pipelines import MODES, Make, make_pipeline
from k2k_assets_tests.support.copies.sources import WrappedSource, wrap_sources
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

FEATURES = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    def made(names: list[str], mode: str = "enabled", **sections: Any) -> Pipeline:
        features = {**FEATURES, "exactlyOnce": mode}
        return make_pipeline(
            tmp_path, clusters.source_servers, clusters.target_servers, names, features=features, **sections
        )

    return made


def written(clusters: KafkaSandbox, name: str, partitions: int = 1, records: int = 5) -> str:
    """A new source topic with records in each partition."""
    topic = create_topic(clusters.source_servers, unique(name), partitions)
    for partition in range(partitions):
        produce(clusters.source_servers, topic, [b"%d" % i for i in range(records)], partition)
    return topic


def latest() -> dict[str, Any]:
    return {"group.id": unique("latest"), "auto.offset.reset": "latest"}


def test_a_subset_of_the_topics_of_a_shared_target_knows_that_it_is_not_alone(
    clusters: KafkaSandbox, make: Make
) -> None:
    a, b = written(clusters, "a"), written(clusters, "b")
    pipeline = make([a, b], sink={"static": unique("static")})
    copy(pipeline, topics=[a])
    copy(pipeline, topics=[b])
    produce(clusters.source_servers, a, [b"more"])
    assert copy(pipeline, topics=[a]).stopped == {}


def test_a_superseded_driver_does_not_depose_the_newer_one_when_its_job_fails(
    clusters: KafkaSandbox, make: Make
) -> None:
    pipeline = make([written(clusters, "depose", 2)])
    started, go = threading.Event(), threading.Event()
    failures: list[Exception] = []

    def failing(plans: Any) -> Any:
        started.set()
        go.wait(240)
        raise RuntimeError("executor lost")

    def run_old() -> None:
        try:
            copy(pipeline, runner=failing)
        except Exception as error:
            failures.append(error)

    old = threading.Thread(target=run_old, daemon=True)
    old.start()
    assert started.wait(120)
    newer = Running(pipeline, 1)
    wait_until(lambda: newer.copied() == 10, 120, "the newer instance to copy")
    go.set()
    old.join(60)
    newer.stop.set()
    newer.join()
    assert newer.error is None
    assert isinstance(failures[0], Superseded)


def test_latest_holds_for_all_partitions_of_a_new_topic(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "latest", 2)
    copy(make([topic], consumer=latest()), runner=lambda plans: [copy_slot(plan) for plan in plans])
    assert read_all(clusters.target_servers, topic) == []


def test_latest_begins_before_an_open_transaction(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "latest")
    transaction = OpenTransaction(clusters.source_servers, topic, [b"open1", b"open2"])
    pipeline = make([topic], consumer=latest())
    copy(pipeline)
    transaction.commit()
    copy(pipeline)
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"open1", b"open2"]


def test_a_slow_start_is_not_idleness(clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any, **rest: Any) -> Any:
        threading.Event().wait(10.2)
        return read_commit_log(*args, **rest)

    monkeypatch.setattr(session_module, "read_commit_log", slow)
    topic = written(clusters, "window")
    outcome = copy(make([topic]), Window(timedelta(seconds=120), timedelta(seconds=10)))
    assert outcome.topics[topic].records == 5


def test_aborted_records_that_the_target_has_deleted_are_no_foreign_ones(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "retention")
    pipeline = make([topic])
    copy(pipeline)
    produce(clusters.target_servers, topic, [b"aborted"] * 5, 0, abort=True)
    delete_records(clusters.target_servers, topic, 0, end_offsets(clusters.target_servers, topic)[0])
    produce(clusters.source_servers, topic, [b"y"] * 5, 0)
    outcome = copy(pipeline)
    assert outcome.stopped == {}
    assert outcome.topics[topic].records == 5


def test_an_assignment_topic_that_was_lost_is_refused(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "lost")
    pipeline = make([topic])
    for _ in range(3):
        copy(pipeline)
    delete_topic(clusters.target_servers, pipeline.coordination.assignment.topic)
    with pytest.raises(Refused, match="would be generation"):
        copy(pipeline)


def test_an_assignment_topic_that_is_lost_while_an_instance_copies_ends_it(clusters: KafkaSandbox, make: Make) -> None:
    """With the next generation, at the latest: its claims would be looked for in a topic that never held them."""
    topic = written(clusters, "lost")
    pipeline = make([topic], sync={"metadataInterval": "200 milliseconds"})
    for _ in range(3):
        copy(pipeline)
    running = Running(pipeline, 1)
    wait_until(lambda: running.progress, 120, "the copy to begin")
    claims = pipeline.coordination.assignment.topic
    delete_topic(clusters.target_servers, claims)
    create_topic(clusters.target_servers, claims, 1, {"cleanup.policy": "compact"})
    add_partitions(clusters.source_servers, topic, 2)
    produce(clusters.source_servers, topic, [b"new"] * 5, 1)
    wait_until(lambda: running.error, 120, "the instance to end")
    assert isinstance(running.error, Refused)
    assert f"the assignment topic {claims}" in str(running.error)
    assert "Stop all instances of the pipeline, and start again" in str(running.error)
    with pytest.raises(Refused, match="would be generation"):
        copy(pipeline)


def test_commit_records_that_were_deleted_are_no_fresh_start(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "forgotten")
    pipeline = make([topic])
    commits = pipeline.coordination.commit.topic
    create_topic(clusters.target_servers, commits, 1, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})
    copy(pipeline)
    delete_records(clusters.target_servers, commits, 0, end_offsets(clusters.target_servers, commits)[0])
    with pytest.raises(Refused, match="its records were lost"):
        copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_commit_and_assignment_may_share_a_topic(clusters: KafkaSandbox, make: Make) -> None:
    topic, control = written(clusters, "shared"), unique("control")
    pipeline = make([topic], coordination={"commit": {"topic": control}, "assignment": {"topic": control}})
    copy(pipeline)
    produce(clusters.source_servers, topic, [b"more"], 0)
    copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


@MODES
def test_a_commit_has_no_more_records_than_the_file_says(clusters: KafkaSandbox, make: Make, mode: str) -> None:
    """By records; batches go whole, and small ones together."""
    topic = create_topic(clusters.source_servers, unique("many"))
    produce(clusters.source_servers, topic, [b"a"] * 100)
    commit = {"topic": unique("commits"), "batchSize": 20}
    pipeline = make([topic], mode, coordination={"commit": commit}, transport={"form": "records"})
    assert copy(pipeline).stopped == {}
    positions = [record.position for record in commit_records(pipeline, clusters.target_servers)]
    assert (min(positions), max(positions)) == (0, 100)
    assert max(later - earlier for earlier, later in pairwise(positions)) <= 20


@pytest.mark.own_clusters
@pytest.mark.slow
def test_aborted_records_of_a_later_leader_epoch_are_no_truncation(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "epoch")
    pipeline = make([topic])
    copy(pipeline)
    clusters.source.restart()
    produce(clusters.source_servers, topic, [b"aborted"] * 3, 0, abort=True)
    assert copy(pipeline).stopped == {}
    produce(clusters.source_servers, topic, [b"y"] * 3, 0)
    assert copy(pipeline).stopped == {}
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)


@pytest.mark.own_clusters
@pytest.mark.slow
def test_a_source_that_goes_down_ends_a_bounded_run(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 4.0)

    class GoesDown(WrappedSource):
        def assign(
            self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
        ) -> None:
            super().assign(positions, keep_waiting)
            clusters.source.kill()
            monkeypatch.setattr(slot_module, "_PATIENCE_SECONDS", 1.0)
            monkeypatch.setattr(silent_source, "SILENCE_SECONDS", 1.0)

    wrap_sources(monkeypatch, GoesDown)
    pipeline = make([written(clusters, "down")])
    with pytest.raises(ClusterUnreachable, match="the source cluster at"):
        copy(pipeline)


def test_a_control_record_that_is_refused_ends_a_bounded_run(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_module, "_PATIENCE_SECONDS", 1.0)
    pipeline = make([written(clusters, "control")])
    create_topic(clusters.target_servers, pipeline.offset_mapping.topic, 1, {"max.message.bytes": "150"})
    with pytest.raises(K2KError):
        copy(pipeline)


def test_a_topic_that_is_deleted_while_the_job_is_restarted(clusters: KafkaSandbox, make: Make) -> None:
    a, b = written(clusters, "a"), written(clusters, "b")
    lives = 0

    def runner(plans: Any) -> Any:
        nonlocal lives
        lives += 1
        if lives == 1:
            delete_topic(clusters.source_servers, a)
            raise RuntimeError("executor lost")
        return in_threads(plans)

    outcome = copy(make([a, b]), runner=runner)
    assert set(outcome.stopped) == {a}
    assert outcome.topics[b].records == 5


def test_a_task_that_runs_twice_in_one_generation_goes_on_counting(clusters: KafkaSandbox, make: Make) -> None:
    topic = written(clusters, "again")
    pipeline = make([topic])

    def twice(plans: Any) -> Any:
        in_threads(plans)
        produce(clusters.source_servers, topic, [b"2"] * 5, 0)
        return in_threads(plans)

    copy(pipeline, Window(timedelta(seconds=120), timedelta(seconds=10)), runner=twice)
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)
    sequences = [record.sequence for record in commit_records(pipeline, clusters.target_servers)]
    assert sequences == sorted(set(sequences))


def test_a_stop_is_heeded_while_the_commit_topic_is_held_by_somebody_else(
    clusters: KafkaSandbox, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    commits = unique("commits")
    pipeline = make(
        [written(clusters, "held")],
        coordination={"commit": {"topic": commits, "syncTimeout": "12 seconds"}},
        producer={"transaction.timeout.ms": 1000},
        errorHandling={"onCommitSyncTimeout": "ignore"},
    )
    copy(pipeline)
    other = OpenTransaction(clusters.target_servers, commits, [(b'{"group":"other"}', b"{}")])
    running = Running(pipeline, 1)
    running.stop.set()
    running.join()
    other.abort()
    assert running.error is None
    assert "stopped while the commit topic was held" in caplog.text


@pytest.mark.parametrize(
    ("mode", "policy"), [("enabled", "ignore"), *in_storms(("enabled", "fail"), ("disabled", "ignore"))]
)
def test_a_broken_assignment_record_is_told_in_words(
    clusters: KafkaSandbox, make: Make, mode: str, policy: str
) -> None:
    """Whatever the policy: who does not know what others claim may copy nothing."""
    pipeline = make([written(clusters, "broken")], mode, errorHandling={"onControlMessageDeserializationError": policy})
    copy(pipeline)
    key = b'{"kind":"instance","group":"%s"}' % pipeline.group.encode()
    ((_, at),) = produce(clusters.target_servers, pipeline.coordination.assignment.topic, [(key, b"{}")], 0)
    with pytest.raises(Refused, match=rf"assignment record at offset {at}, .*field missing"):
        copy(pipeline)
    assert pipeline.coordination.assignment.topic in topics(clusters.target_servers)
