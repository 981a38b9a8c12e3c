"""Named interleavings of positions: the worst moment of each, with the rule that prevents damage and without it.

The table is in `docs/guarantees.md`. Without its rule each one must cause damage, or the test proves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_record import key_bytes
from k2k_assets.control.partitions import stable_hash
from k2k_assets.coordination import announce
from k2k_assets.coordination.peers import Peers
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered, PartitionMapping, fold
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import generations
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot import session
from k2k_assets.replication.slot.commit import topic_identity
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.start import start_checks
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    OpenTransaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    commit_records,
    copy,
    in_threads,
    mapping_records,
    told,
)
from k2k_assets_tests.support.copies.interleaving import (
    RULE,
    Crash,
    at_step,
    before_the_first_record,
    copy_alone,
    crash,
    cut_log,
    die,
    ends_are,
    pipeline_of,
    values,
)
from k2k_assets_tests.support.copies.sources import WrappedSource, wrap_sources
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration

OLD, NEW = ([b"%s-%d" % (age, n) for n in range(10)] for age in (b"old", b"new"))


# -- between the start and the first record ---------------------------------------------------------------------------


def without_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule: the driver notes where all partitions begin before any slot starts."""
    monkeypatch.setattr(Peers, "first_starts", {})


def without_start_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule: a start position is committed before the first record is read, and noted before."""
    without_notes(monkeypatch)
    real = Transactions.write_commit

    def write_commit(self: Transactions, state: Any, kind: Any) -> None:
        if kind != "start":
            real(self, state, kind)

    monkeypatch.setattr(Transactions, "write_commit", write_commit)


@MODES
@RULE
def test_a_crash_before_the_first_commit_of_a_copy_from_the_latest(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("latest"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode, consumer={"auto.offset.reset": "latest"})
    if not rule:
        without_start_records(monkeypatch)

    def go_on_and_die() -> None:
        produce(source, topic, NEW)
        die()

    before_the_first_record(monkeypatch, go_on_and_die)
    crash(pipeline)
    again = copy_alone(pipeline)

    assert again.stopped == {}
    assert values(target, topic) == (NEW if rule else []), "a second look at the latest skips what was written between"


@MODES
@RULE
def test_a_crash_before_the_first_commit_while_retention_deletes(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("retention"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode)
    if not rule:
        without_start_records(monkeypatch)
    before_the_first_record(monkeypatch, die)
    crash(pipeline)
    delete_records(source, topic, 0, 4)
    again = copy_alone(pipeline)

    if rule:
        assert "records 0 to 3 were deleted from the source before they were copied" in told(again)[topic]
        assert values(target, topic) == []
    else:
        assert again.stopped == {}
        assert values(target, topic) == OLD[4:], "four records are lost, and nobody is told"


@MODES
@RULE
def test_a_crash_between_the_start_positions_of_two_slots_of_a_copy_from_the_latest(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    """One slot has committed where its partition begins, the other one has not: that is no partition added later."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("latest"), 2)
    for partition in range(2):
        produce(source, topic, OLD, partition)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode, consumer={"auto.offset.reset": "latest"})

    def only_the_first(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        in_threads(plans[:1])
        raise Crash("the driver is gone, and with it the other slot")

    crash(pipeline, 2, only_the_first)
    (begun,) = {record.source.partition for record in commit_records(pipeline, target)}
    for partition in range(2):
        produce(source, topic, NEW, partition)
    if not rule:
        without_notes(monkeypatch)
    again = copy(pipeline)

    assert again.stopped == {}
    assert values(target, topic, begun) == NEW
    assert values(target, topic, 1 - begun) == (NEW if rule else OLD + NEW), "it was not to be copied"


# -- a source that is not what it was ---------------------------------------------------------------------------------


@pytest.mark.own_clusters
@pytest.mark.slow
def test_a_source_log_that_was_cut_and_grew_again_is_mixed_in_silence_without_leader_epochs(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log start is the same, and the position lies in the log."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("cut"))
    produce(source, topic, OLD[:6])
    produce(source, topic, OLD[6:])
    pipeline = pipeline_of(clusters, tmp_path, [topic])
    copy_alone(pipeline)
    cut_log(clusters.source, topic, 6)
    produce(source, topic, NEW)
    assert values(source, topic) == OLD[:6] + NEW

    class WithoutEpochs(WrappedSource):
        def assign(
            self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
        ) -> None:
            super().assign({tp: Position(at.offset) for tp, at in positions.items()}, keep_waiting)

    wrap_sources(monkeypatch, WithoutEpochs)
    assert copy_alone(pipeline).stopped == {}
    assert values(target, topic) == OLD + NEW[4:], "four lost, four that are no more"


@MODES
@RULE
def test_a_topic_that_was_created_anew_and_is_longer_than_the_position(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("anew"))
    produce(source, topic, OLD[:3])
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode)
    copy_alone(pipeline)
    delete_topic(source, topic)
    create_topic(source, topic)
    produce(source, topic, NEW)
    if not rule:
        monkeypatch.setattr(start_checks, "_source_reason", lambda *_: None)
    again = copy_alone(pipeline)

    if rule:
        assert "was deleted and created anew (topic id " in told(again)[topic]
        assert values(target, topic) == OLD[:3]
    else:
        assert again.stopped == {}
        assert values(target, topic) == OLD[:3] + NEW[3:], "three lost, two topics mixed in silence"


# -- the commit topic and the assignment topic ------------------------------------------------------------------------


def commit_partition(clusters: KafkaSandbox, pipeline: Pipeline, topic: str, partitions: int) -> int:
    """Where a commit record of the topic's partition 0 is written."""
    key = key_bytes(pipeline.group, clusters.source.cluster_id, TopicPartition(topic, 0))
    spread_by = pipeline.group.encode() if pipeline.features.optimize_offset_commit_partition else key
    return stable_hash(spread_by) % partitions


def only_where_it_would_write(monkeypatch: pytest.MonkeyPatch, commits: TopicPartition) -> None:
    """The rule: the commit topic is read in all its partitions, the newest record counts wherever it lies."""
    real = Cluster.partitions_of

    def partitions_of(self: Cluster, topics: Any) -> list[TopicPartition]:
        return [commits] if list(topics) == [commits.topic] else real(self, topics)

    monkeypatch.setattr(Cluster, "partitions_of", partitions_of)


@MODES
@RULE
@pytest.mark.parametrize("change", ["the feature was switched", "partitions were added"])
def test_commit_records_that_lie_in_another_partition(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    grows = change == "partitions were added"
    before, after = (1, 5) if grows else (5, 5)
    while True:
        topic = unique("spread")
        pipeline = pipeline_of(
            clusters, tmp_path, [topic], mode, mapping="disabled", features={"optimizeOffsetCommitPartition": "enabled"}
        )
        features = pipeline.features.model_copy(update={"optimize_offset_commit_partition": grows})
        changed = pipeline.model_copy(update={"features": features})
        places = commit_partition(clusters, pipeline, topic, before), commit_partition(clusters, changed, topic, after)
        if places[0] != places[1]:
            break
    create_topic(source, topic)
    commits = create_topic(target, pipeline.coordination.commit.topic, before, {"cleanup.policy": "compact"})
    produce(source, topic, OLD)
    copy_alone(pipeline)
    if grows:
        add_partitions(target, commits, after)
    if not rule:
        only_where_it_would_write(monkeypatch, TopicPartition(commits, places[1]))
    produce(source, topic, NEW)
    copy_alone(changed)

    assert values(target, topic) == (OLD + NEW if rule else OLD + OLD + NEW), "ten doubled"
    assert {r.partition for r in read_all(target, commits)} == set(places)


@MODES
@RULE
def test_a_commit_topic_that_was_created_anew(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("lost"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode, mapping="disabled")
    if not rule:  # the rule: an instance notes the id of the commit topic that it used
        monkeypatch.setattr(announce, "_ensure_same_commit_topic", lambda *_: None)
    copy_alone(pipeline)
    delete_topic(target, pipeline.coordination.commit.topic)

    if rule:
        with pytest.raises(Refused, match=r"deleted and created anew .* its positions are lost"):
            copy_alone(pipeline)
        assert values(target, topic) == OLD
    else:
        copy_alone(pipeline)
        assert values(target, topic) == OLD + OLD, "everything doubled"


@MODES
@RULE
def test_a_commit_topic_that_is_created_anew_while_its_instance_copies(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    """The next session of a slot finds no position, and is no new beginning for all that."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("lost"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode=mode, mapping="disabled")
    copy_alone(pipeline)
    produce(source, topic, NEW)

    def lose() -> None:
        delete_topic(target, pipeline.coordination.commit.topic)
        create_topic(target, pipeline.coordination.commit.topic, 1, {"cleanup.policy": "compact"})
        raise Restart("the connection broke")

    at_step(monkeypatch, "before write", lose)
    if rule:
        with pytest.raises(Refused, match=r"deleted and created anew .* its positions are lost"):
            copy_alone(pipeline)
        assert values(target, topic) == OLD
        with pytest.raises(Refused, match=r"deleted and created anew .* its positions are lost"):
            copy_alone(pipeline)
    else:
        monkeypatch.setattr(topic_identity, "_ensure_positions", lambda *_: None)
        copy_alone(pipeline)
        assert values(target, topic) == OLD + OLD + NEW, "ten doubled"


@MODES
@RULE
def test_a_commit_topic_and_an_assignment_topic_that_are_lost_together(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    """Nothing tells the id of the former commit topic any more; but there are mappings."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("lost"))
    produce(source, topic, OLD)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode=mode)
    copy_alone(pipeline)
    for control in (pipeline.coordination.commit.topic, pipeline.coordination.assignment.topic):
        delete_topic(target, control)

    if rule:
        with pytest.raises(Refused, match="its records were lost"):
            copy_alone(pipeline)
        assert values(target, topic) == OLD
    else:
        monkeypatch.setattr(generations, "ensure_new_group", lambda *_: None)
        copy_alone(pipeline)
        assert values(target, topic) == OLD + OLD, "everything doubled"


@MODES
@RULE
def test_an_assignment_topic_that_was_created_anew(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    """Generations start again below the old ones, and of two records the higher generation counts."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("lost"))
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode)
    copy_alone(pipeline)
    produce(source, topic, OLD)
    copy_alone(pipeline)
    delete_topic(target, pipeline.coordination.assignment.topic)
    produce(source, topic, NEW)

    if rule:
        with pytest.raises(Refused, match="would be generation"):
            copy_alone(pipeline)
        assert values(target, topic) == OLD
    else:
        # The rule: the driver and each slot check again after they have read the positions.
        monkeypatch.setattr(Peers, "ensure_not_lost", lambda *_: None)
        monkeypatch.setattr(session, "ensure_newest", lambda *_: None)
        copy_alone(pipeline)
        assert values(target, topic) == OLD + NEW
        covered = fold(PartitionMapping(), mapping_records(pipeline, target)).covered
        assert covered == [Covered(0, 10)], "the mapping of what was copied last counts as older, and is cancelled"


@RULE
def test_a_commit_record_behind_somebody_elses_open_transaction(
    clusters: KafkaSandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rule: bool,
) -> None:
    """It is committed, and a reader of committed records does not see it before that other transaction ends."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("stale"))
    produce(source, topic, OLD)
    policies = {"onCommitSyncTimeout": "ignore"}
    pipeline = _with_sync_timeout(
        pipeline_of(clusters, tmp_path, [topic], partition="producer", errorHandling=policies), 0.3
    )
    commits = create_topic(target, pipeline.coordination.commit.topic, config={"cleanup.policy": "compact"})
    copy_alone(pipeline)
    produce(source, topic, NEW)
    others: list[Any] = []
    at_step(
        monkeypatch, "before write", lambda: others.append(OpenTransaction(target, commits, [(b'{"group":"x"}', b"")]))
    )
    at_step(monkeypatch, "after commit", die)
    crash(pipeline)
    assert values(target, topic) == OLD + NEW
    assert end_offsets(target, commits)[0] > end_offsets(target, commits, "read_committed")[0]

    if rule:
        with caplog.at_level(logging.WARNING, "k2k.commit_log"):
            running = Running(pipeline, 1)
            wait_until(lambda: "; waiting on" in caplog.text, PATIENCE, "the reader to wait")
        others[0].abort()
        wait_until(lambda: running.positions().get(TopicPartition(topic, 0)) == 20, PATIENCE, "the position")
        running.stop.set()
        running.join()
        assert running.error is None
        assert values(target, topic) == OLD + NEW
        assert_exact_mappings(pipeline, source, target, topic)
    else:
        # the rule: the commit topic is read to its high watermarks
        ends_are(monkeypatch, commits, "latest", "stable")
        copy_alone(pipeline)
        others[0].abort()
        assert values(target, topic) == OLD + NEW + NEW, "the stale record below was taken for the newest"
        assert [r.position for r in commit_records(pipeline, target) if r.kind == "commit"] == [10, 20, 20]


def _with_sync_timeout(pipeline: Pipeline, seconds: float) -> Pipeline:
    """Shorter than a file may say under exactly-once: the tests' transactions end when they say so."""
    commit = pipeline.coordination.commit.model_copy(update={"sync_timeout": timedelta(seconds=seconds)})
    return pipeline.model_copy(update={"coordination": pipeline.coordination.model_copy(update={"commit": commit})})
