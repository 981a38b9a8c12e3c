"""G7: a fault stops its topic with topic, partition, offsets and what to do; the other topics continue."""

from __future__ import annotations

import os
from typing import Any

import pytest

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.followed import FollowedMappings
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import PartitionStopped
from k2k_assets.replication.slot.commit import committer
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Verdict
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    read_all,
    set_config,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    contents,
    copy,
    told,
)
from k2k_assets_tests.support.copies.pipelines import Make
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration


def distinct(records: list[Any]) -> list[Any]:
    """Without what was seen before, by value."""
    return list({(r.partition, r.value): r for r in records}.values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_record_that_is_too_large_stops_its_topic_and_is_copied_once_the_target_takes_it(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str], mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    create_topic(target, bad, 2, {"max.message.bytes": "20000"})
    small = [b"%d" % i for i in range(40)]
    produce(source, bad, [*small[:7], (b"key", os.urandom(50_000)), *small[7:]], 1)
    produce(source, bad, small, 0)
    produce(source, good, small)
    pipeline = make([bad, good], mode)

    first = copy(pipeline)

    assert set(first.stopped) == {bad}
    reason = told(first)[bad]
    assert f"the target refuses the record at {bad}-1 offset 7 (50003 bytes of key and value) for topic {bad}" in reason
    assert f"raise max.message.bytes of {bad}" in reason
    assert first.topics[bad].partitions[1].position <= 7
    assert contents(distinct(read_all(target, good))) == contents(read_all(source, good))
    assert mode == "disabled" or len(read_all(target, good)) == 40
    assert {r.value for r in read_all(target, bad, 1)} <= set(small[:7])
    newest = {r.source: r for r in commit_records(pipeline, target)}
    assert newest[TopicPartition(bad, 1)].reason is not None

    set_config(target, bad, "max.message.bytes", "200000")
    second = copy(pipeline)

    assert second.stopped == {}
    if mode == "enabled":
        assert assert_same_content(source, bad, target) == 81
        assert_exact_mappings(pipeline, source, target, bad)
    else:
        assert contents(distinct(read_all(target, bad))) == contents(read_all(source, bad))


def test_small_records_never_make_a_batch_that_the_smallest_topic_refuses(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str]
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    narrow, wide = two
    create_topic(target, narrow, 2, {"max.message.bytes": "1500"})
    for topic in two:
        produce(source, topic, [os.urandom(100) for _ in range(600)], 0)
    produce(source, wide, [os.urandom(400_000)])
    outcome = copy(make([narrow, wide]))
    assert outcome.stopped == {}
    assert (assert_same_content(source, narrow, target), assert_same_content(source, wide, target)) == (600, 601)


@pytest.mark.slow
@MODES
def test_a_topic_that_is_deleted_during_the_copy(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str], mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    for topic in two:
        produce(source, topic, [b"a"] * 5, 0)
    running = Running(make([bad, good], mode), 1)
    wait_until(lambda: running.copied() == 10, SECONDS, "both topics to be copied")

    delete_topic(source, bad)

    words = wait_until(lambda: running.told(TopicPartition(bad, 0)), SECONDS, "the topic to be stopped") or ""
    assert f"the source topic {bad} is gone." in words or f"the source topic {bad} was deleted while it was" in words
    assert f"k2k-tool set -f FILE -o {bad}:all:earliest --accept-new-topic" in words
    produce(source, good, [b"b"] * 5)
    wait_until(lambda: len(read_all(target, good)) == 10, SECONDS, "the other topic to go on")
    running.stop.set()
    running.join()
    assert running.error is None
    assert_same_content(source, good, target)
    assert [r.value for r in read_all(target, bad)] == [b"a"] * 5


@MODES
def test_topics_that_were_created_anew_or_lost_records_between_two_runs(
    clusters: KafkaSandbox, make: Make, mode: str
) -> None:
    """With `latest`, too, nothing goes on anywhere else than where it was."""
    source, target = clusters.source_servers, clusters.target_servers
    anew, pruned, lost, good = (create_topic(source, unique(n)) for n in ("anew", "pruned", "lost", "good"))
    topics = [anew, pruned, lost, good]
    for topic in topics:
        produce(source, topic, [b"a"] * 3)
    pipeline = make(topics, mode)
    assert copy(pipeline).stopped == {}

    delete_topic(source, anew)
    create_topic(source, anew)
    delete_topic(target, lost)
    create_topic(target, lost)
    for topic in topics:
        produce(source, topic, [b"b"] * 10)
    delete_records(source, pruned, 0, 8)
    second = copy(make(topics, mode, reset="latest"))

    stopped = told(second)
    assert set(stopped) == {anew, pruned, lost}
    assert f"{anew}-0: [source-recreated] the source topic was deleted and created anew (topic id " in stopped[anew]
    deleted = "[records-deleted] records 3 to 7 were deleted from the source before they were copied"
    assert f"{pruned}-0: {deleted}" in stopped[pruned]
    assert f"the target topic {lost} was deleted and created anew (topic id " in stopped[lost]
    assert f"k2k-tool set -f FILE -o {anew}:all:earliest --accept-new-topic" in stopped[anew]
    assert f"k2k-tool set -f FILE -o {pruned}:0:earliest" in stopped[pruned]
    assert f"k2k-tool set -f FILE -o {lost}:all:current --accept-new-topic" in stopped[lost]
    assert [len(read_all(target, topic)) for topic in topics] == [3, 3, 0, 13]
    assert {topic: second.topics[topic].partitions[0].position for topic in topics} == {
        anew: 3, pruned: 3, lost: 3, good: 13,
    }  # fmt: skip
    for reset in ("earliest", "latest"):
        assert set(copy(make(topics, mode, reset=reset)).stopped) == {anew, pruned, lost}, "a stop is not forgotten"


@MODES
def test_a_topic_with_fewer_partitions(clusters: KafkaSandbox, make: Make, two: tuple[str, str], mode: str) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    for topic, partition in ((bad, 0), (bad, 1), (good, 0)):
        produce(source, topic, [b"a"], partition)
    pipeline = make([bad, good], mode)
    assert copy(pipeline).stopped == {}
    delete_topic(source, bad)
    create_topic(source, bad, 1)
    for topic in two:
        produce(source, topic, [b"b"], 0)

    stopped = told(copy(pipeline))

    assert set(stopped) == {bad}
    assert (
        f"{bad}-0: [fewer-partitions] the source topic has only 1 partition left: it was deleted and created anew"
        in stopped[bad]
    )
    assert f"k2k-tool set -f FILE -o {bad}:all:earliest --accept-new-topic" in stopped[bad]
    assert [r.value for r in read_all(target, bad)] == [b"a", b"a"]
    assert assert_same_content(source, good, target) == 2


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("moving", [True, False], ids=["copying", "idle"])
def test_a_target_topic_that_is_deleted_during_the_copy(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, moving: bool, mode: str
) -> None:
    monkeypatch.setattr(committer, "_TOPICS_SECONDS", 0.5)
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    for topic in two:
        produce(source, topic, [b"a"] * 5, 0)
    pipeline = make([bad, good], mode)
    running = Running(pipeline, 1)
    running.await_copied(10)

    delete_topic(target, bad)

    def reason() -> str | None:
        if moving:
            produce(source, bad, [b"more"], 0)
        return running.told(TopicPartition(bad, 0))

    words = wait_until(reason, 2 * SECONDS, "the topic to be stopped", interval=0.2) or ""
    assert f"the target topic {bad} was deleted" in words
    assert f"k2k-tool set -f FILE -o {bad}:all:earliest --accept-new-topic" in words
    produce(source, good, [b"b"] * 5)
    wait_until(lambda: len(read_all(target, good)) == 10, SECONDS, "the other topic to go on")
    running.stop.set()
    running.join()
    assert running.error is None
    assert_same_content(source, good, target)
    assert set(copy(pipeline).stopped) == {bad}, "a new topic of that name is not the one that was copied to"


@MODES
def test_a_source_topic_that_is_created_anew_while_nothing_comes(
    clusters: KafkaSandbox, make: Make, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client says within moments that an offset is out of range; the topic id says why."""
    source = clusters.source_servers
    anew, good = (create_topic(source, unique(name)) for name in ("anew", "good"))
    monkeypatch.setattr(committer, "_TOPICS_SECONDS", 600.0)  # or else it may look while there is none of the name
    running = Running(make([anew, good], mode), 1)
    for topic in (anew, good):
        produce(source, topic, [b"a"] * 5)
    running.await_copied(10)
    delete_topic(source, anew)
    create_topic(source, anew)

    def stops() -> list[PartitionStopped]:
        return [event for event in running.events if isinstance(event, PartitionStopped)]

    wait_until(stops, 120, "the stop")
    produce(source, good, [b"b"])
    running.await_copied(11)
    running.end()
    assert [(stop.partition, stop.reason.code) for stop in stops()] == [(TopicPartition(anew, 0), "source-recreated")]


def test_a_topic_that_is_created_anew_with_fewer_partitions_while_it_is_copied(
    clusters: KafkaSandbox, make: Make
) -> None:
    """Once it is accepted nothing is stopped any more, also none of the partitions that it has no more."""
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = create_topic(source, unique("bad"), 3), create_topic(source, unique("good"))
    pipeline = make([bad, good], "enabled")
    running = Running(pipeline, 1)
    for partition in range(3):
        produce(source, bad, [b"a"] * 2, partition)
    produce(source, good, [b"a"])
    running.await_copied(7)
    delete_topic(source, bad)
    create_topic(source, bad)

    def stopped() -> set[TopicPartition]:
        return {event.partition for event in running.events if isinstance(event, PartitionStopped)}

    wait_until(lambda: len(stopped()) == 3, 120, "the stops")
    assert not _check(pipeline, clusters, bad).passed
    with both_clusters(pipeline) as there:
        accepted = override(pipeline, *there, Request((Wanted(bad, None, "earliest"),), "a test", new_topic=True))
        with CopyReader(pipeline, *there) as reader:
            assert reader.read().lag.unknown == 0, "of what is gone nothing can lag"
        with FollowedMappings(pipeline, *there) as mappings:
            assert set(mappings.mapped) == {TopicPartition(bad, 0), TopicPartition(good, 0)}
    assert [(one.facts.source.partition, one.position) for one in accepted] == [(0, 0), (1, 0), (2, 0)]
    verdict = _check(pipeline, clusters, bad)
    assert verdict.passed, verdict.summary

    running.end()  # else it may copy the next record, and not the one that begins now
    produce(source, bad, [b"b"])
    again = Running(pipeline, 1)
    again.await_copied(1)
    again.end()
    assert sorted(r.value or b"" for r in read_all(target, bad)) == [b"a"] * 6 + [b"b"]
    checkpoint = translate_checkpoint(pipeline, {TopicPartition(bad, 0): 1})
    assert set(checkpoint.offsets) == {TopicPartition(bad, n) for n in range(3)}, "what is gone feeds nothing"
    verdict = _check(pipeline, clusters, bad)
    assert verdict.passed, verdict.summary


def _check(pipeline: Pipeline, clusters: KafkaSandbox, topic: str) -> Verdict:
    with both_clusters(pipeline) as (source, target):
        return check_copies_on(topic, read_commit_log(pipeline, source.cluster_id(), target))
