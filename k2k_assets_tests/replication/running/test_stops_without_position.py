"""The stop of a partition that has no position: told when it happens, noted, and gone once it is put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.positions import PositionUnreadable
from k2k_assets.core.stops.reasons.source_log import StartOutsideLog
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.committed import committed
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import HandedOver, PartitionStopped
from k2k_assets.replication.slot.start import hanging_transactions
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets_tests.support.brokers.kafka import OpenTransaction, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, assert_exact_mappings, commit_records, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.copies.takeovers import assignment_records, assignments, claimed_topics, generations

pytestmark = pytest.mark.integration

GRACE_SECONDS = 3


class World:
    """Topics, the last of which begins where its log holds nothing, and a pipeline."""

    def __init__(self, clusters: KafkaSandbox, directory: Path, *topics: str, mode: str = "enabled") -> None:
        self.clusters = clusters
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self.topics = [create_topic(self.source, unique(name)) for name in topics]
        self.bad = TopicPartition(self.topics[-1], 0)
        for topic in self.topics:
            produce(self.source, topic, [b"a"] * 4, 0)
        self._directory, self._mode, self._group = directory, mode, unique("k2k")
        self.pipeline = self.with_start({self.bad.topic: {0: 99}})

    def with_start(self, start: object) -> Pipeline:
        return make_pipeline(
            self._directory, self.source, self.target, self.topics,
            name=self._group, consumer={"group.id": self._group},
            features={"exactlyOnce": self._mode, "offsetMapping": "enabled"},
            replication=[
                {"source": {"topic": self.topics, "start": start}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
            coordination={
                "commit": {"topic": f"{self._group}-c"},
                "assignment": {"topic": f"{self._group}-a", "graceWindow": f"{GRACE_SECONDS} seconds"},
            },
            offsetMapping={"topic": f"{self._group}-m"},
        )  # fmt: skip

    def log(self) -> CommitLog:
        with both_clusters(self.pipeline) as (source, target):
            return read_commit_log(self.pipeline, source.cluster_id(), target)

    def told(self) -> tuple[StopReason | None, StopReason | None, StopReason | None]:
        """How `k2k status`, `k2k-tool describe` and the commit log tell the stop."""
        with both_clusters(self.pipeline) as (source, target):
            with CopyReader(self.pipeline, source, target) as reader:
                shown = {t.topic: t.stopped.get(0) for t in reader.read().topics}
            described = {p.source: p.stopped for p in committed(self.pipeline, source, target).partitions}
        return shown.get(self.bad.topic), described.get(self.bad), self.log().stopped.get(self.bad)

    def put_right(self) -> None:
        """As `k2k-tool set` does, without force: nobody holds it."""
        with both_clusters(self.pipeline) as (source, target):
            override(self.pipeline, source, target, Request((Wanted(self.bad.topic, 0, "earliest"),), "a test"))

    def copied(self, topic: str) -> int:
        return len(read_all(self.target, topic))


@contextmanager
def running(pipeline: Pipeline) -> Iterator[Running]:
    live = Running(pipeline, 1)
    try:
        yield live
    finally:
        live.end()


def stops(live: Running) -> list[PartitionStopped]:
    return [event for event in live.events if isinstance(event, PartitionStopped)]


def await_that(live: Running, condition: Callable[[], object], what: str) -> None:
    wait_until(lambda: condition() or live.error or live.outcome, 60, what)
    assert live.error is None
    assert live.outcome is None, "it copies on"


@MODES
def test_it_is_told_while_the_others_are_copied_and_goes_away_once_it_is_put_right(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    world = World(clusters, tmp_path, "good", "bad", mode=mode)
    good = world.topics[0]
    why = StartOutsideLog(world.bad, 99, 0, 4)
    with running(world.pipeline) as live:
        await_that(live, lambda: stops(live), "the stop")
        await_that(live, lambda: world.copied(good) == 4, "the other topic")
        assert stops(live) == [PartitionStopped(world.bad, why)]
        assert world.told() == (why, why, why)
        assert world.bad not in world.log().positions, "none is made up"
        await_that(live, lambda: live.told(world.bad), "the progress")
        await_that(live, lambda: world.bad.topic not in claimed_topics(clusters, world.pipeline), "its release")

        world.put_right()
        await_that(live, lambda: world.copied(world.bad.topic) == 4, "what was put right")
        await_that(live, lambda: live.told(world.bad) is None, "the progress")
        assert world.told() == (None, None, None)
        assert world.log().noted == {}
        produce(world.source, good, [b"b"], 0)
        await_that(live, lambda: world.copied(good) == 5, "the other topic to go on")
    assert stops(live) == [PartitionStopped(world.bad, why)], "told once"
    assert live.outcome is not None
    assert live.outcome.stopped == {}
    records = commit_records(world.pipeline, world.target)
    assert [r.overridden.stopped for r in records if r.overridden and r.kind == "override"] == [why]
    for topic in world.topics:
        assert_exact_mappings(world.pipeline, world.source, world.target, topic)


def test_a_transaction_that_hangs_in_the_target_of_a_new_topic(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging_transactions, "patience_seconds", lambda _: 2.0)
    world = World(clusters, tmp_path, "good", "bad")
    pipeline = world.with_start("earliest")
    create_topic(world.target, world.bad.topic)
    hanging = OpenTransaction(world.target, world.bad.topic, [b"?"])
    with running(pipeline) as live:
        await_that(live, lambda: stops(live), "the stop")
        assert [(event.partition, event.reason.code) for event in stops(live)] == [(world.bad, "open-transaction")]
        assert {reason and reason.code for reason in world.told()} == {"open-transaction"}
        await_that(live, lambda: world.copied(world.topics[0]) == 4, "the other topic")
    hanging.abort()
    assert copy(pipeline).stopped == {}, "a new start tries it again"
    assert world.log().noted == {}


def test_a_corrected_file_puts_it_right_too(clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = World(clusters, tmp_path, "good", "bad")
    assert set(copy(world.pipeline).stopped) == {world.bad.topic}
    assert world.log().noted.keys() == {world.bad}
    assert copy(world.with_start({world.bad.topic: {0: 2}})).stopped == {}
    assert world.log().noted == {}
    assert world.copied(world.bad.topic) == 2


def test_a_position_that_cannot_be_read_is_told_while_it_runs(clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = World(clusters, tmp_path, "good", "bad")
    pipeline = world.with_start("earliest").model_copy(
        update={
            "error_handling": world.pipeline.error_handling.model_copy(
                update={"on_control_message_deserialization_error": "ignore"}
            )
        }
    )
    copy(pipeline)
    (key,) = {r.key_bytes() for r in commit_records(pipeline, world.target) if r.source == world.bad}
    produce(world.target, pipeline.coordination.commit.topic, [(key, b"?")], 0)
    with running(pipeline) as live:
        await_that(live, lambda: stops(live), "the stop")
        (told,) = stops(live)
        assert isinstance(told.reason, PositionUnreadable)
        produce(world.source, world.topics[0], [b"b"], 0)
        await_that(live, lambda: world.copied(world.topics[0]) == 5, "the other topic")


# -- all is stopped -------------------------------------------------------------------------------------------------


def heartbeats(world: World) -> int:
    return len(assignment_records(world.clusters, world.pipeline, "beat"))


def test_an_instance_all_of_whose_partitions_are_stopped_stands_by_alive_and_takes_up_what_is_put_right(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    world = World(clusters, tmp_path, "bad")
    with running(world.pipeline) as live:
        await_that(live, lambda: stops(live), "the stop")
        await_that(live, lambda: claimed_topics(clusters, world.pipeline) == set(), "its slots to end")
        since = heartbeats(world)
        await_that(live, lambda: heartbeats(world) >= since + 4, "signs of life for longer than the grace window")
        assert generations(clusters, world.pipeline) == 1, "it does not try again and again"

        world.put_right()
        await_that(live, lambda: world.copied(world.bad.topic) == 4, "what was put right")
        produce(world.source, world.bad.topic, [b"b"], 0)
        await_that(live, lambda: world.copied(world.bad.topic) == 5, "it to be copied on")
        assert generations(clusters, world.pipeline) == 3, "itself, the tool, and itself again"
    assert live.outcome is not None
    assert live.outcome.stopped == {}
    # The last heartbeats may not be acknowledged yet.
    wait_until(lambda: assignments(clusters, world.pipeline).signs == {}, 120, "it to leave no sign of life behind")


def test_a_newer_instance_takes_over_from_one_that_stands_by(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """All is stopped for that one, too; a run of Dagster ends by this, and its successor stays."""
    world = World(clusters, tmp_path, "bad")
    with running(world.pipeline) as first:
        await_that(first, lambda: stops(first), "the stop")
        await_that(first, lambda: claimed_topics(clusters, world.pipeline) == set(), "its slots to end")
        assert set(copy(world.pipeline).stopped) == {world.bad.topic}, "a run with an end, such as a click"
        assert not handed_over(first), "it takes nothing over for good"
        with running(world.pipeline) as second:
            await_that(second, lambda: stops(second), "the stop")
            await_that(first, lambda: handed_over(first), "the first one to be told")
            assert handed_over(first)[-1].nothing_left
            assert set(handed_over(first)[-1].partitions) == {world.bad}
        assert generations(clusters, world.pipeline) == 3


def handed_over(live: Running) -> list[HandedOver]:
    return [event for event in live.events if isinstance(event, HandedOver)]


def test_a_new_topic_ends_the_stand_by(clusters: KafkaSandbox, tmp_path: Path) -> None:
    prefix, source = unique("grown"), clusters.source_servers
    bad = TopicPartition(create_topic(source, f"{prefix}.bad"), 0)
    pipeline = make_pipeline(
        tmp_path, source, clusters.target_servers, f"{prefix}[.].*",
        replication=[
            {"source": {"topic": f"{prefix}[.].*", "start": {bad.topic: {0: 99}}}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
        sync={"metadataInterval": "1 second"},
    )  # fmt: skip
    with running(pipeline) as live:
        await_that(live, lambda: stops(live), "the stop")
        await_that(live, lambda: claimed_topics(clusters, pipeline) == set(), "its slots to end")
        new = create_topic(source, f"{prefix}.new")
        produce(source, new, [b"a"], 0)
        await_that(live, lambda: live.copied() == 1, "the new topic")
        assert [r.value for r in read_all(clusters.target_servers, new)] == [b"a"]
