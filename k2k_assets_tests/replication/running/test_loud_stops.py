"""G7: a fault stops its topic with topic, partition, offsets and what to do; the other topics continue."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
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
from k2k_assets.replication.slot import session
from k2k_assets.replication.slot.commit import committer
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
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
    flush_transaction,
    told,
)
from k2k_assets_tests.support.copies.interleaving import inside_chunks
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.steps import WrappedSink
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration

Make = Callable[..., Pipeline]


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    """Pipelines of one group: another one made with the same topics goes on where the last one was."""
    name = unique("group")

    def make_one(topics: list[str], mode: str = "enabled", reset: str = "earliest", **rest: Any) -> Pipeline:
        consumer = {"group.id": name, "auto.offset.reset": reset}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
            consumer=consumer,
            coordination={"commit": {"topic": f"{name}-commits"}, "assignment": {"topic": f"{name}-claims"}},
            offsetMapping={"topic": f"{name}-mappings"},
            **rest,
        )

    return make_one


@pytest.fixture
def two(clusters: KafkaSandbox) -> tuple[str, str]:
    """Two source topics; the second is the one that goes on."""
    source = clusters.source_servers
    return create_topic(source, unique("bad"), 2), create_topic(source, unique("good"))


def distinct(records: list[Any]) -> list[Any]:
    """Without what was seen before, by value."""
    return list({(r.partition, r.value): r for r in records}.values())


# -- what the target refuses ----------------------------------------------------------------------------------------


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


# -- what the source no longer is -----------------------------------------------------------------------------------


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


# -- foreign writers ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_foreign_writer_between_two_transactions(clusters: KafkaSandbox, make: Make, two: tuple[str, str]) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    for topic in two:
        produce(source, topic, [b"a"] * 3, 0)
    strict = make([bad, good])
    copy(strict)
    produce(target, bad, [b"foreign", b"foreign"], 0)
    for topic in two:
        produce(source, topic, [b"b"] * 3, 0)

    outcome = copy(strict)

    assert set(outcome.stopped) == {bad}
    foreign = f"[foreign-records] 2 records at {bad}-0 offsets 3 to 5 were not written by this pipeline"
    assert f"{bad}-0: {foreign}" in told(outcome)[bad]
    assert [r.value for r in read_all(target, bad)] == [b"a"] * 3 + [b"foreign"] * 2
    assert_same_content(source, good, target)

    lenient = make([bad, good], errorHandling={"onForeignWriter": "ignore"})
    assert copy(lenient).stopped == {}
    assert [r.value for r in read_all(target, bad)] == [b"a"] * 3 + [b"foreign"] * 2 + [b"b"] * 3
    assert_exact_mappings(lenient, source, target, bad)


def test_a_foreign_writer_at_least_once(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Between two runs it is named: what a writer that slept had sent looks the same. Within one it stops its topic."""
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = two
    pipeline = make([bad, good], "disabled")
    for topic in two:
        produce(source, topic, [b"a"] * 3, 0)
    copy(pipeline)
    produce(target, bad, [b"foreign"] * 2, 0)
    for topic in two:
        produce(source, topic, [b"b"] * 3, 0)
    running = Running(pipeline, 1)
    running.await_copied(6)  # three of each topic
    named = f"{bad}-0: 2 records at {bad}-0 offsets 3 to 4 were not written by this pipeline, or late by a former owner"
    assert caplog.text.count("were not written by this pipeline") == caplog.text.count(named) == 1

    produce(target, bad, [b"foreign"], 0)
    for topic in two:
        produce(source, topic, [b"c"] * 3, 0)
    at = TopicPartition(bad, 0)
    words = wait_until(lambda: running.told(at), SECONDS, "the stop") or ""
    assert f"1 record at {bad}-0 offsets 8 to 8 was not written by this pipeline" in words
    wait_until(lambda: len(read_all(target, good)) == 9, SECONDS, "the other topic to go on")
    running.end()
    assert_same_content(source, good, target)
    copied = [r.value for r in read_all(target, bad)]
    assert copied == [*[b"a"] * 3, *[b"foreign"] * 2, *[b"b"] * 3, b"foreign", *[b"c"] * 3]
    assert {r.source: r.position for r in commit_records(pipeline, target)}[at] == 6


def behind_chunks(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], times: int) -> Sequence[int]:
    """Does something when a chunk is on the target, and its transaction is open; returns the sizes of these chunks."""
    make_sink, hit = Slot._sink, list[int]()

    class Behind(WrappedSink):
        def write(self, chunk: Chunk) -> Sent:
            sent = super().write(chunk)
            if len(hit) < times:
                flush_transaction(self._sink, SECONDS)
                action()
                hit.append(sent.count)  # not before: where the flush fails, the chunk comes again
            return sent

    monkeypatch.setattr(Slot, "_sink", lambda slot: Behind(make_sink(slot)))
    return hit


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "times"), [("fail", 1), ("ignore", 1), ("ignore", 4)])
@pytest.mark.parametrize("chunk", [1000, 5], ids=["inside a chunk", "between chunks"])
def test_a_foreign_writer_inside_a_transaction(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch, policy: str, times: int, chunk: int
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("inside"))
    create_topic(target, topic)
    produce(source, topic, [b"%d" % i for i in range(5)])
    pipeline = make([topic], errorHandling={"onForeignWriter": policy})
    copy(pipeline)
    for first in range(5, 25, 5):  # batches of their own, so that each may be a chunk
        produce(source, topic, [b"%d" % i for i in range(first, first + 5)])
    hit: Sequence[int] = []

    def foreign() -> object:
        return produce(target, topic, [b"foreign"])

    if chunk == 5:
        monkeypatch.setattr(session, "_CHUNK", chunk)
        hit = behind_chunks(monkeypatch, foreign, times)
    else:
        hit = inside_chunks(monkeypatch, topic, lambda: foreign, times)
    outcome = copy(pipeline)

    copied = [r.value for r in read_all(target, topic)]
    if policy == "fail":
        assert f"{topic}-0: [foreign-records] 1 record at {topic}-0 offsets " in told(outcome)[topic]
        assert "was not written by this pipeline" in told(outcome)[topic]
        assert [value for value in copied if value != b"foreign"] == [b"%d" % i for i in range(5)]
    else:
        assert outcome.stopped == {}
        assert [value for value in copied if value != b"foreign"] == [b"%d" % i for i in range(25)]
        assert copied.count(b"foreign") == len(hit) > 0
        assert_exact_mappings(pipeline, source, target, topic)


def test_aborted_records_of_our_own_are_no_foreign_writer(
    clusters: KafkaSandbox, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("aborts"))
    pipeline = make([topic])
    produce(source, topic, [b"a"] * 5)
    copy(pipeline)
    produce(source, topic, [b"b"] * 5)
    make_sink, failures = Slot._sink, 2

    def failing(self: Slot) -> Any:
        sink = make_sink(self)
        settle = sink.settle

        def settle_and_fail() -> Any:
            nonlocal failures
            settled = settle()
            if settled and failures:
                failures -= 1
                raise Restart("as if the broker had gone")
            return settled

        sink.settle = settle_and_fail  # type: ignore[method-assign]
        return sink

    monkeypatch.setattr(Slot, "_sink", failing)
    assert copy(pipeline).stopped == {}
    assert failures == 0
    assert len(read_all(target, topic, isolation="read_uncommitted")) == 20
    assert assert_same_content(source, topic, target) == 10
    assert_exact_mappings(pipeline, source, target, topic)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["mode", "routing"])
def test_a_pipeline_that_was_changed_is_no_foreign_writer(
    clusters: KafkaSandbox, make: Make, two: tuple[str, str], change: str
) -> None:
    """At-least-once leaves no markers behind; another target topic has an end of its own."""
    source, target = clusters.source_servers, clusters.target_servers
    topics = list(two)
    for topic in topics:
        produce(source, topic, [b"a"] * 5, 0)
    copy(make(topics, "disabled" if change == "mode" else "enabled"))
    for topic in topics:
        produce(source, topic, [b"b"] * 5, 0)

    changed = make(topics, sink="source" if change == "mode" else {"prefix": "new."})
    outcome = copy(changed)

    assert outcome.stopped == {}
    assert sum(t.records for t in outcome.topics.values()) == 10
    if change == "mode":
        assert [assert_same_content(source, topic, target) for topic in topics] == [10, 10]
        assert_exact_mappings(changed, source, target, topics[0])
    else:
        assert [r.value for r in read_all(target, f"new.{topics[0]}")] == [b"b"] * 5


@MODES
def test_a_source_topic_that_is_created_anew_while_nothing_comes(clusters: KafkaSandbox, make: Make, mode: str) -> None:
    """The client says within moments that an offset is out of range; the topic id says why."""
    source = clusters.source_servers
    anew, good = (create_topic(source, unique(name)) for name in ("anew", "good"))
    running = Running(make([anew, good], mode), 1)
    for topic in (anew, good):
        produce(source, topic, [b"a"] * 5)
    running.await_copied(10)
    delete_topic(source, anew)
    create_topic(source, anew)

    def stops() -> list[PartitionStopped]:
        return [event for event in running.events if isinstance(event, PartitionStopped)]

    wait_until(stops, 60, "the stop")
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

    wait_until(lambda: len(stopped()) == 3, 60, "the stops")
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
