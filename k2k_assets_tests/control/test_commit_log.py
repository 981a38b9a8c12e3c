"""The commit topic: the newest record counts at any place, and an unreadable record never counts as absent."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_log import CommitLogBlocked, read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    OpenTransaction,
    Record,
    create_topic,
    delete_topic,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    mapping_records,
    told,
)
from k2k_assets_tests.support.copies.pipelines import Make, make_pipeline
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    """Pipelines of one group with one commit topic."""
    name = unique("group")

    def make_one(
        topics: list[str],
        mode: str = "enabled",
        partitions: int = 1,
        timeout: float | None = None,
        optimized: str = "enabled",
        reset: str = "earliest",
        **policies: str,
    ) -> Pipeline:
        consumer = {"group.id": name, "auto.offset.reset": reset}
        is_short = timeout is not None and mode == "disabled"
        short = {"syncTimeout": f"{round((timeout or 0) * 1000)} milliseconds"} if is_short else {}
        pipeline = make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features={
                "exactlyOnce": mode,
                "offsetMapping": "enabled",
                "headerReplication": "enabled",
                "optimizeOffsetCommitPartition": optimized,
            },
            consumer=consumer,
            coordination={"commit": {"topic": f"{name}-commits", **short}, "assignment": {"topic": f"{name}-claims"}},
            offsetMapping={"topic": f"{name}-mappings"},
            topicCreation={"control": {"commit": {"partitions": partitions}}},
            errorHandling=policies,
        )
        return pipeline if timeout is None or is_short else with_sync_timeout(pipeline, timeout)

    return make_one


def with_sync_timeout(pipeline: Pipeline, seconds: float) -> Pipeline:
    """Shorter than a file may say under exactly-once: the tests' transactions end when they say so."""
    commit = pipeline.coordination.commit.model_copy(update={"sync_timeout": timedelta(seconds=seconds)})
    coordination = pipeline.coordination.model_copy(update={"commit": commit})
    return pipeline.model_copy(update={"coordination": coordination})


def commit_topic(pipeline: Pipeline) -> str:
    return pipeline.coordination.commit.topic


@pytest.mark.slow
def test_the_newest_record_counts_wherever_it_lies(clusters: KafkaSandbox, make: Make) -> None:
    """Records of one key lie in several partitions once the feature was switched; offsets say nothing then."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("spread"), 12)
    counts = []
    for optimized in ("enabled", "disabled", "enabled"):
        for partition in range(12):
            produce(source, topic, [b"a"] * 3, partition)
        pipeline = make([topic], partitions=3, optimized=optimized)
        counts.append(copy(pipeline).topics[topic].records)
    old = read_all(target, commit_topic(pipeline))
    assert len({r.partition for r in old}) > 1
    # The last record everywhere is from an old writer.
    stale = min((r for r in old if json.loads(r.value or b"")["kind"] == "commit"), key=lambda r: r.timestamp)
    produce(target, commit_topic(pipeline), [Record(stale.key, stale.value, partition=p) for p in range(3)])

    counts.append(copy(pipeline).topics[topic].records)

    assert counts == [36, 36, 36, 0]
    assert assert_same_content(source, topic, target) == 108
    assert_exact_mappings(pipeline, source, target, topic)


@pytest.mark.slow
@MODES
def test_somebody_elses_open_transaction_is_named_or_waited_for(
    clusters: KafkaSandbox, make: Make, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """At least once nobody waits: what was committed behind that transaction is copied again."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("blocked"))
    produce(source, topic, [b"a"] * 3)
    strict = make([topic], mode, timeout=0.5)
    copy(strict)
    produce(source, topic, [b"b"] * 3)
    hanging = OpenTransaction(target, commit_topic(strict), [(b"?", b"?")])

    with pytest.raises(CommitLogBlocked) as blocked:
        copy(strict)
    words = str(blocked.value)
    assert f"was not read to its end within 0.5 s ({commit_topic(strict)}-0 at " in words
    assert "another writer holds a transaction open" in words
    first = end_offsets(target, commit_topic(strict))[0] - 1
    assert f"abort --topic {commit_topic(strict)} --partition 0 --start-offset {first}." in words
    assert "onCommitSyncTimeout: ignore" in words

    lenient = make([topic], mode, timeout=0.5, onCommitSyncTimeout="ignore")
    with both_clusters(lenient) as (of_source, of_target):
        cluster_id = of_source.cluster_id()
        if mode == "enabled":  # as in a check or a sensor: a reader neither waits forever nor guesses
            with pytest.raises(CommitLogBlocked, match=r"within 0\.3 s"):
                read_commit_log(lenient, cluster_id, of_target, patience=0.3)
        else:
            assert read_commit_log(lenient, cluster_id, of_target).positions
    with caplog.at_level(logging.WARNING, "k2k.commit_log"):
        if mode == "enabled":
            waits_for_the_end_of(hanging, clusters, lenient, topic, caplog)
        else:
            starts_from_what_was_read(hanging, clusters, lenient, topic, caplog)


def test_the_commit_topic_is_read_for_as_long_as_the_file_says(clusters: KafkaSandbox, make: Make) -> None:
    topic = create_topic(clusters.source_servers, unique("blocked"))
    copy(make([topic], "disabled"))
    pipeline = make([topic], "disabled", timeout=1.5)
    hanging = OpenTransaction(clusters.target_servers, commit_topic(pipeline), [(b"?", b"?")])
    with both_clusters(pipeline) as (source, target), pytest.raises(CommitLogBlocked, match=r"its end within 1\.5 s"):
        read_commit_log(pipeline, source.cluster_id(), target)
    hanging.abort()


def waits_for_the_end_of(
    hanging: OpenTransaction, clusters: KafkaSandbox, pipeline: Pipeline, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    running = Running(pipeline, 1)
    wait_until(lambda: caplog.text.count("; waiting on") >= 2, PATIENCE, "two rounds of waiting")
    assert len(read_all(target, topic)) == 3, "a position that cannot be seen is not guessed"
    hanging.abort()
    wait_until(lambda: running.copied() == 3, PATIENCE, "the copy to go on")
    running.stop.set()
    running.join()
    assert running.error is None
    assert assert_same_content(source, topic, target) == 6
    assert_exact_mappings(pipeline, source, target, topic)


def starts_from_what_was_read(
    hanging: OpenTransaction, clusters: KafkaSandbox, pipeline: Pipeline, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The second run cannot see what the first has committed; the third, with nothing open, sees all."""
    target = clusters.target_servers

    def copied_after_a_run() -> int:
        copy(pipeline)
        return len(read_all(target, topic))

    assert [copied_after_a_run(), copied_after_a_run()] == [6, 9]
    assert "starting from what was read: records may be copied twice" in caplog.text
    hanging.abort()
    assert copied_after_a_run() == 9
    assert [r.value for r in read_all(target, topic)] == [b"a"] * 3 + [b"b"] * 3 + [b"b"] * 3
    assert newest_mappings(pipeline, target) == {0: 0, 1: 1, 2: 2, 3: 6, 4: 7, 5: 8}


def newest_mappings(pipeline: Pipeline, target: str) -> dict[int, int]:
    """The target offset of each source offset of partition 0; a copy that starts again has the last word."""
    return {
        run.source_start + i: run.target_start + i
        for record in mapping_records(pipeline, target)
        if record.partition == 0
        for part in record.targets
        for run in part.runs
        for i in range(run.count)
    }


@pytest.mark.slow
def test_a_record_that_cannot_be_read_is_refused_or_stops_its_partition_only(
    clusters: KafkaSandbox, make: Make
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, other = create_topic(source, unique("garbage"), 2), create_topic(source, unique("other"))
    strict = make([topic, other])
    for partition in range(2):
        produce(source, topic, [b"a"] * 3, partition)
    copy(strict)
    keys = {json.loads(r.key or b"")["partition"]: r.key for r in read_all(target, commit_topic(strict))}
    produce(target, commit_topic(strict), [(keys[1], b"{garbage"), (b"no key of ours", b"1")], 0)
    for partition in range(2):
        produce(source, topic, [b"b"] * 3, partition)
    produce(source, other, [b"b"])

    with pytest.raises(Refused, match=rf"control record cannot be read: {commit_topic(strict)}-0@\d+.*is not JSON"):
        copy(strict)

    lenient = make([topic, other], onControlMessageDeserializationError="ignore")
    outcome = copy(lenient)
    stopped_partition = json.loads(keys[1] or b"")["partition"]
    assert set(outcome.stopped) == {json.loads(keys[1] or b"")["topic"]}
    assert "is not JSON" in next(iter(told(outcome).values()))
    assert len(read_all(target, topic, stopped_partition)) == 3
    assert len(read_all(target, topic, 0)) == 6
    assert_same_content(source, other, target)

    careless = make([topic, other], "disabled", onControlMessageDeserializationError="ignore")
    assert copy(careless).stopped == {}
    copied = [r.value for r in read_all(target, topic, 1)]
    assert copied == [b"a"] * 3 + [b"a"] * 3 + [b"b"] * 3, "at-least-once: from the start again, nothing lost"


@pytest.mark.storm
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("partitions", [2, 1])
def test_a_record_that_cannot_be_read_is_refused_or_means_copying_again_at_least_once(
    clusters: KafkaSandbox, make: Make, partitions: int, reset: str
) -> None:
    """Refused with its offset, and nothing is written; or its partition is copied from the start, and mapped anew.

    The same whether another partition's position can still be read or none, and with `latest`: nothing is lost.
    """
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("garbage"), partitions)
    for partition in range(partitions):
        produce(source, topic, [b"a"] * 3, partition)
    strict = make([topic], "disabled")
    copy(strict)
    keys = {json.loads(r.key or b"")["partition"]: r.key for r in read_all(target, commit_topic(strict))}
    produce(target, commit_topic(strict), [(keys[0], b"{garbage")], 0)
    produce(source, topic, [b"b"] * 3, 0)

    with pytest.raises(Refused, match=rf"control record cannot be read: {commit_topic(strict)}-0@\d+.*is not JSON"):
        copy(strict)
    assert len(read_all(target, topic, 0)) == 3

    lenient = make([topic], "disabled", reset=reset, onControlMessageDeserializationError="ignore")
    assert copy(lenient).stopped == {}
    assert [r.value for r in read_all(target, topic, 0)] == [b"a"] * 3 + [b"a"] * 3 + [b"b"] * 3
    assert newest_mappings(lenient, target) == {n: 3 + n for n in range(6)}


@MODES
def test_a_target_that_goes_while_positions_are_read_is_waited_for_and_not_called_held(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Neither is it a reason to end, nor, at least once, to start from what was read."""
    pipeline = make([create_topic(clusters.source_servers, unique("gone"))], mode, onCommitSyncTimeout="ignore")
    copy(pipeline)
    offsets = Cluster.offsets

    def gone(self: Cluster, partitions: Any, which: str, *rest: Any) -> Any:
        if which == "stable":
            raise ClusterUnreachable("nobody answers")
        return offsets(self, partitions, which, *rest)  # type: ignore[arg-type]

    def never(self: LogReader, ends: Any, _: Any) -> Any:
        raise NotReadToTheEnd({tp: (0, end) for tp, end in ends.items()})

    monkeypatch.setattr(Cluster, "offsets", gone)
    monkeypatch.setattr(LogReader, "read_until", never)
    with both_clusters(pipeline) as (source, target), pytest.raises(ClusterUnreachable, match="nobody answers"):
        read_commit_log(pipeline, source.cluster_id(), target, keep_waiting=lambda: None)


@pytest.mark.parametrize("comes_on", [True, False])
def test_a_target_that_was_away_and_is_back_is_not_called_held(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch, comes_on: bool
) -> None:
    """Its last stable offset is the end. It is read on as long as something comes; else with another client."""
    topic = create_topic(clusters.source_servers, unique("back"))
    produce(clusters.source_servers, topic, [b"a"] * 3)
    pipeline = make([topic])
    copy(pipeline)
    read_until, calls = LogReader.read_until, 0

    def slow(self: LogReader, ends: Any, deadline: Any) -> Any:
        nonlocal calls
        calls += 1
        if comes_on and calls == 4:
            return read_until(self, ends, deadline)
        raise NotReadToTheEnd({tp: (calls if comes_on else 0, end) for tp, end in ends.items()})

    monkeypatch.setattr(LogReader, "read_until", slow)
    with both_clusters(pipeline) as (source, target):
        if comes_on:
            assert [r.position for r in read_commit_log(pipeline, source.cluster_id(), target).positions.values()] == [
                3
            ]
        else:
            with pytest.raises(ClusterUnreachable, match="no transaction holds it"):
                read_commit_log(pipeline, source.cluster_id(), target)
            assert calls == 2
        calls = 0
        with pytest.raises(ClusterUnreachable, match="no transaction holds it"):
            read_commit_log(pipeline, source.cluster_id(), target, patience=1)
        assert calls == 1, "who has little patience reads on no more"


def test_a_commit_topic_that_was_created_anew_is_no_reason_to_copy_everything_again(
    clusters: KafkaSandbox, make: Make
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("lost"))
    produce(source, topic, [b"a"] * 3)
    pipeline = make([topic])
    copy(pipeline)
    delete_topic(target, commit_topic(pipeline))
    with pytest.raises(Refused, match=r"was deleted and created anew since group .* its positions are lost"):
        copy(pipeline)
    with pytest.raises(Refused, match=r"use a new group\.id"):
        copy(pipeline)
    assert len(read_all(target, topic)) == 3


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_control_records_are_plain_json_and_commit_and_mapping_tell_the_same(
    clusters: KafkaSandbox, make: Make, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("json"), 2)
    for partition in range(2):
        produce(source, topic, [b"a"] * 3, partition, unique("tx"))
    pipeline = make([topic], mode)
    copy(pipeline)
    produce(source, topic, [b"b"] * 3, 0)
    copy(pipeline)

    names = [commit_topic(pipeline), pipeline.coordination.assignment.topic, pipeline.offset_mapping.topic]
    documents: list[dict[str, Any]] = []
    for name in names:
        for record in read_all(target, name):
            assert isinstance(json.loads(record.key or b""), dict)
            if record.value is not None:
                documents.append(json.loads(record.value))
    assert {d["version"] for d in documents} == {1}

    commits = {(r.generation, r.slot, r.sequence, r.source.partition): r for r in commit_records(pipeline, target)}
    mappings = mapping_records(pipeline, target)
    assert len(mappings) >= 3
    for mapping in mappings:
        commit = commits[mapping.generation, mapping.slot, mapping.sequence, mapping.partition]
        assert commit.position == mapping.covered_to
        last_run = mapping.targets[0].runs[-1] if mapping.targets else None
        assert last_run is None or commit.target_end == last_run.target_end
        assert (commit.source_topic_id, commit.pipeline) == (mapping.source_topic_id, mapping.pipeline)
    moved = [r for r in commits.values() if r.kind == "commit"]
    assert {(r.generation, r.slot, r.sequence, r.source.partition) for r in moved} <= {
        (m.generation, m.slot, m.sequence, m.partition) for m in mappings
    }
