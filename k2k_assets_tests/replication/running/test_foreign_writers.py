"""G7: somebody else writes to a target partition that is copied to: the topic stops, or its mapping tells so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot import session
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    create_topic,
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
    flush_transaction,
    told,
)
from k2k_assets_tests.support.copies.interleaving import inside_chunks
from k2k_assets_tests.support.copies.pipelines import Make
from k2k_assets_tests.support.copies.steps import WrappedSink

pytestmark = pytest.mark.integration


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
