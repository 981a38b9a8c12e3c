"""G4: nothing skipped, nothing read again that need not be, at every offset. Copied by the real engine, judged by
content read from both clusters."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.position_translator import PositionTranslator, TranslatedGroups
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.groups import Answer
from k2k_assets_tests.support.brokers import groups
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    Record,
    create_topic,
    delete_records,
    end_offsets,
    producer,
    read_all,
    send,
    set_config,
    speed_up_compaction,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.exactness import BothSides, Positions
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

# The hardest and the simplest case at each change; each mode with each routing in `make storm`.
WORLDS = pytest.mark.parametrize(
    ("mode", "routing"),
    [
        ("enabled", "static"),
        ("disabled", "one to one"),
        *in_storms(("enabled", "one to one"), ("enabled", "keyed"), ("disabled", "static"), ("disabled", "keyed")),
    ],
)
SMALL_BATCHES = {"batchSize": 150}


@dataclass
class World:
    """A pipeline, and what it copies."""

    clusters: KafkaSandbox
    pipeline: Pipeline
    topics: dict[str, int]
    written: int = 0
    producers: tuple[Producer, Producer] | None = None

    @property
    def sources(self) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for topic, count in self.topics.items() for p in range(count)]

    @property
    def target_topics(self) -> list[str]:
        return sorted({self.pipeline.routing.target_topic(topic) for topic in self.topics})

    def write(self, rounds: int, size: int) -> None:
        """Transactions, aborted ones, plain records, in turn: offsets with markers and gaps in between.

        The ends of the log are what they will stay when it returns.
        """
        servers = self.clusters.source_servers
        if self.producers is None:
            self.producers = producer(servers, unique("tx")), producer(servers)
        transactional, plain = self.producers
        for _ in range(rounds):
            for tp in self.sources:
                for records, end in (
                    (self._records(tp, size), transactional.commit_transaction),
                    ([Record(b"key-0", b"aborted")] * 7, transactional.abort_transaction),
                ):
                    transactional.begin_transaction()
                    send(transactional, tp.topic, records, tp.partition)
                    end(SECONDS)
                send(plain, tp.topic, self._records(tp, size // 9), tp.partition)
        wait_until(self._all_has_ended, SECONDS, "the markers of all transactions", interval=0.005)

    def read(self) -> BothSides:
        return BothSides.read(
            self.clusters.source_servers, list(self.topics), self.clusters.target_servers, self.target_topics
        )

    def ends(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, p): end
            for topic in self.topics
            for p, end in end_offsets(self.clusters.source_servers, topic, "read_committed").items()
        }

    def _all_has_ended(self) -> bool:
        """Kafka acknowledges a transaction's end before its markers are in the log: until then it counts as open."""
        servers = self.clusters.source_servers
        return all(
            end_offsets(servers, topic, "read_committed") == end_offsets(servers, topic) for topic in self.topics
        )

    def _records(self, tp: TopicPartition, count: int) -> list[Record]:
        first, self.written = self.written, self.written + count
        return [Record(b"key-%d" % (n % 23), b"%s-%d" % (str(tp).encode(), n)) for n in range(first, first + count)]


def world_of(clusters: KafkaSandbox, directory: Path, mode: str, routing: str) -> World:
    topics = {unique("orders"): 2} if routing != "static" else {unique("a"): 1, unique("b"): 2}
    for topic, count in topics.items():
        create_topic(clusters.source_servers, topic, count)
    rest: dict[str, Any] = {}
    if routing == "static":
        rest["sink"] = {"static": unique("all")}
    if routing == "keyed":
        rest["partition"] = "producer"
        create_topic(clusters.target_servers, next(iter(topics)), 5)
    pipeline = make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        list(topics),
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={
            "commit": {"topic": unique("commits"), **SMALL_BATCHES},
            "assignment": {"topic": unique("claims")},
        },
        index={"path": str(directory / "index")},
        **rest,
    )
    return World(clusters, pipeline, topics)


@contextmanager
def translator_of(pipeline: Pipeline) -> Iterator[PositionTranslator]:
    with (
        both_clusters(pipeline) as (source, target),
        PositionTranslator(pipeline, source, target) as translator,
    ):
        yield translator


def as_groups(positions: list[Positions]) -> dict[str, GroupOffsets]:
    """Groups that nobody needs to commit."""
    return {
        f"g{number}": GroupOffsets(f"g{number}", {tp: CommittedOffset(offset) for tp, offset in at.items()})
        for number, at in enumerate(positions)
    }


def every_offset(ends: dict[TopicPartition, int]) -> list[Positions]:
    """Every offset of every partition at least once, each with a random one of the others."""
    draw = random.Random(1)
    most = max(ends.values()) + 1
    columns = {tp: draw.sample(range(end + 1), end + 1) for tp, end in ends.items()}
    return [{tp: column[n % len(column)] for tp, column in columns.items()} for n in range(most)]


def by_target(answers: list[Answer]) -> dict[TopicPartition, Answer]:
    return {answer.target: answer for answer in answers}


def assert_exact(world: World, both: BothSides, positions: list[Positions], found: TranslatedGroups) -> None:
    """S = 0 everywhere; R = 0 one to one, and the best there is where sources are mixed."""
    by_source = world.pipeline.routing.partition == "source"
    assert len(found.answers) == len(positions)
    for number, at in enumerate(positions):
        answers = by_target(found.answers[f"g{number}"])
        for target, answer in answers.items():
            feeding = dict(answer.sources)
            own = {tp: offset for tp, offset in at.items() if tp in feeding}
            assert answer.state is TranslationState.EXACT, (own, answer)
            assert both.skipped(own, target, answer.offset) == 0, (own, answer)
            if by_source and sum(tp.partition == target.partition for tp in world.sources) == 1:
                assert both.reread(own, target, answer.offset) == 0, (own, answer)
            else:
                assert answer.offset == both.best(own, target, found.target_ends[target].end), (own, answer)


def resumed_at(servers: str, group: str, target: TopicPartition) -> bytes | None:
    """The first record that a consumer of the group gets; None at the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 5,
            "reconnect.backoff.ms": 10,
            "log_level": 0,
        }
    )
    try:
        consumer.list_topics(target.topic, timeout=SECONDS)
        consumer.assign([KafkaTopicPartition(target.topic, target.partition)])
        deadline = Deadline(SECONDS)
        while not deadline.expired():
            message = consumer.poll(0.5)
            if message is not None:
                return None if message.error() else message.value()
        raise TimeoutError(f"{group} got nothing of {target}")
    finally:
        consumer.close()


def assert_consumers_resume(world: World, how_many: int) -> None:
    """Real commits on the source, real consumers on the target; every record from there on is one that was not read."""
    draw = random.Random(2)
    prefix = unique("group")
    ends = world.ends()
    positions = {f"{prefix}-{n}": {tp: draw.randint(0, end) for tp, end in ends.items()} for n in range(how_many)}
    for name, at in positions.items():
        groups.commit(world.clusters.source_servers, name, at)
    selection = world.pipeline.groups.model_copy(update={"consumer_groups": f"{prefix}-.*"})
    polls: list[PollResult] = []
    result = sync_once(world.pipeline.model_copy(update={"groups": selection}), observer=polls.append)

    assert result.committed == set(positions)
    assert result.failed == {}
    versions = {name: poll.version.metadata("k2k_") for poll in polls for name in poll.committed}
    both = world.read()
    for name, at in positions.items():
        held = groups.held(world.clusters.target_servers, name)
        for target, (offset, metadata) in held.items():
            assert metadata == versions[name]
            assert both.skipped(at, target, offset) == 0
        for target in draw.sample(sorted(held), min(2, len(held))):
            first = next((value for where, value in both.records.get(target, ()) if where >= held[target][0]), None)
            assert resumed_at(world.clusters.target_servers, name, target) == first


@pytest.mark.own_clusters
@pytest.mark.slow
@WORLDS
def test_every_offset(clusters: KafkaSandbox, tmp_path: Path, mode: str, routing: str) -> None:
    """Every position of a copy with all kinds of gaps is translated to the first record that was not read."""
    world = world_of(clusters, tmp_path, mode, routing)
    world.write(3, 300)
    first = world.sources[0]
    delete_records(clusters.source_servers, first.topic, first.partition, 140)  # a prefix that is never copied
    copy(world.pipeline)
    with translator_of(world.pipeline) as translator:
        world.write(5, 300)
        copy(world.pipeline)
        both = world.read()
        positions = every_offset(world.ends())
        assert len(positions) > 2500
        found = translator.translate(as_groups(positions))
        assert_exact(world, both, positions, found)
        some: list[Positions] = [{tp: offset} for tp, end in world.ends().items() for offset in range(0, end, 97)]
        if routing == "one to one":
            assert_exact(world, both, some, translator.translate(as_groups(some)))
    assert_consumers_resume(world, 34)
    if (mode, routing) == ("enabled", "static"):
        for broker in (clusters.source, clusters.target):
            broker.kill()
            broker.start()
        with translator_of(world.pipeline) as again:
            assert again.translate(as_groups(positions)).answers == found.answers


@pytest.mark.slow
@WORLDS
def test_while_slots_copy_and_commit_at_different_times(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, routing: str
) -> None:
    """Answers given at any moment, judged when all is over: what was unread then lies at or after the answer."""
    world = world_of(clusters, tmp_path, mode, routing)
    world.write(1, 100)
    copy(world.pipeline)
    running = Running(world.pipeline, 2)
    written, enough = threading.Event(), threading.Event()

    def write() -> None:
        rounds = 0
        try:
            while rounds < 16 or not enough.is_set():
                world.write(1, size=30)
                rounds += 1
        finally:
            written.set()

    writer = threading.Thread(target=write, daemon=True)
    asked: list[tuple[list[Positions], TranslatedGroups]] = []
    with translator_of(world.pipeline) as translator:
        writer.start()
        while not written.is_set() and len(asked) < 100:
            ends = world.ends()
            draw = random.Random(len(asked))
            positions: list[Positions] = [
                {tp: end if draw.random() < 0.5 else draw.randint(0, end) for tp, end in ends.items()}
                for _ in range(12)
            ]
            asked.append((positions, translator.translate(as_groups(positions))))
            if len(asked) >= 4:
                enough.set()
        enough.set()
        writer.join(60)
        ends = world.ends()
        wait_until(lambda: running.positions() == ends, 120, "all to be copied, trailing markers too")
        running.stop.set()
        running.join()
        last = every_offset(world.ends())
        both = world.read()
        assert_exact(world, both, last, translator.translate(as_groups(last)))

    assert running.error is None
    assert len(asked) >= 4
    alone = world.pipeline.routing.partition == "source" and len(world.topics) == 1
    for positions, found in asked:
        for number, at in enumerate(positions):
            for answer in found.answers[f"g{number}"]:
                own = {tp: at[tp] for tp, _ in answer.sources}
                assert answer.state in (TranslationState.EXACT, TranslationState.AHEAD)
                assert answer.offset <= found.target_ends[answer.target].end
                assert both.skipped(own, answer.target, answer.offset) == 0, (own, answer)
                if alone and answer.state is TranslationState.EXACT:
                    assert both.reread(own, answer.target, answer.offset) == 0, (own, answer)


@pytest.mark.slow
@pytest.mark.parametrize("routing", ["one to one", "static"])
def test_after_a_crash_that_leaves_duplicates(clusters: KafkaSandbox, tmp_path: Path, routing: str) -> None:
    """At least once: records that were copied and not yet committed are copied again."""
    world = world_of(clusters, tmp_path, "disabled", routing)
    world.write(2, 300)
    copy(world.pipeline, cores=1, runner=dying_first("settle", 3))

    both = world.read()
    copies = sum(len(pairs) for pairs in both.copies.values())
    assert copies > len({record for of_target in both.records.values() for _, record in of_target}), "no duplicates"
    with translator_of(world.pipeline) as translator:
        positions = every_offset(world.ends())
        found = translator.translate(as_groups(positions))
    for number, at in enumerate(positions):
        for answer in found.answers[f"g{number}"]:
            own = {tp: at[tp] for tp, _ in answer.sources}
            assert both.skipped(own, answer.target, answer.offset) == 0, (own, answer)
            if routing == "one to one":
                assert both.reread(own, answer.target, answer.offset) == 0, (own, answer)


def _is_still(servers: str, topic: str) -> bool:
    before = read_all(servers, topic)
    time.sleep(5)
    return read_all(servers, topic) == before


@pytest.mark.own_clusters
def test_every_offset_of_a_compacted_partition(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source = clusters.source_servers
    compacted = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
    topic = create_topic(source, unique("compacted"), config=compacted)
    create_topic(clusters.target_servers, topic)  # this one keeps everything
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    pipeline = make_pipeline(tmp_path, source, clusters.target_servers, [topic], features=features)
    world = World(clusters, pipeline, {topic: 1})
    speed_up_compaction(source)
    world.write(3, 200)
    written = world.written

    def is_compacted() -> bool:
        world.write(1, 9)  # the segment that is written to is not compacted
        return len(read_all(source, topic)) < written / 2

    wait_until(is_compacted, 120, "the source to be compacted", interval=0.2)
    set_config(source, topic, "min.compaction.lag.ms", str(24 * 3600 * 1000))  # no further compaction
    wait_until(lambda: _is_still(source, topic), 120, "the cleaner to end what it has begun")
    copy(pipeline)
    with translator_of(pipeline) as translator:
        positions = every_offset(world.ends())
        both = world.read()
        assert_exact(world, both, positions, translator.translate(as_groups(positions)))
