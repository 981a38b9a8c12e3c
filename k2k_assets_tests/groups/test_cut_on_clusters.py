"""Events between the poll of the groups and the cut do not make answers wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.followed import Changed
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.position_translator import PositionTranslator
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import add_partitions, create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.exactness import BothSides

pytestmark = pytest.mark.integration


class World:
    """Topics that are all copied into one partition."""

    def __init__(self, clusters: KafkaSandbox, directory: Path, mode: str) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self.prefix, self.group = unique("in"), unique("group")
        self.all = TopicPartition(create_topic(self.target, unique("all")), 0)
        self.topics: list[str] = []
        self.written = 0
        self.pipeline = make_pipeline(
            directory,
            self.source,
            self.target,
            f"{self.prefix}.*",
            sink={"static": self.all.topic},
            partition="producer",
            features={"exactlyOnce": mode, "offsetMapping": "enabled"},
            groups={"consumerGroups": [self.group]},
            index={"path": str(directory / "index")},
        )

    def topic(self) -> TopicPartition:
        self.topics.append(create_topic(self.source, f"{self.prefix}.{len(self.topics)}"))
        return TopicPartition(self.topics[-1], 0)

    def write(self, partition: TopicPartition, count: int = 10) -> None:
        values = [b"%d" % n for n in range(self.written, self.written + count)]
        self.written += count
        produce(self.source, partition.topic, values, partition.partition)

    def skipped(self, positions: dict[TopicPartition, int]) -> int:
        both = BothSides.read(self.source, self.topics, self.target, [self.all.topic])
        return both.skipped(positions, self.all, held(self.target, self.group)[self.all][0])


@contextmanager
def polling(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, before_cut: Callable[[], Any]) -> Iterator[Poller]:
    """A poller that finds itself overtaken by something, once, right before it takes a cut."""
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.start()
        waiting = [before_cut]

        def overtaken(ask: Callable[..., Any]) -> Callable[..., Any]:
            def asked(partitions: Any, which: Any, *patience: float) -> Any:
                if which == "stable" and waiting:
                    waiting.pop()()
                return ask(partitions, which, *patience)

            return asked

        monkeypatch.setattr(target, "offsets", overtaken(target.offsets))
        monkeypatch.setattr(target, "led_offsets", overtaken(target.led_offsets))
        yield poller
        assert not waiting


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("what", ["topic", "partition"])
def test_what_is_copied_for_the_first_time_meanwhile(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, what: str
) -> None:
    world = World(clusters, tmp_path, mode)
    first, other = world.topic(), world.topic()
    for partition in (first, other):
        world.write(partition)
    copy(world.pipeline)

    with polling(world.pipeline, monkeypatch, lambda: copy(world.pipeline)) as poller:
        positions = {first: 10, other: 10}
        if what == "topic":
            second = world.topic()
            positions[second] = 3
        else:
            add_partitions(world.source, first.topic, 2)
            second = TopicPartition(first.topic, 1)
        world.write(second)
        commit(world.source, world.group, positions)
        result = poller.poll()
        poller.await_visible(result)
        assert result.failed == {}
        assert world.skipped({second: 0, **positions}) == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_what_is_copied_without_mappings_meanwhile(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    world = World(clusters, tmp_path, mode)
    first = world.topic()
    world.write(first)
    copy(world.pipeline)
    features = world.pipeline.features.model_copy(update={"offset_mapping": False})
    unmapped = world.pipeline.model_copy(update={"features": features})

    with polling(world.pipeline, monkeypatch, lambda: copy(unmapped)) as poller:
        commit(world.source, world.group, {first: 10})
        world.write(first)
        result = poller.poll()
        assert [line.decision for line in result.lines(world.group)] == ["unknown"]
        assert result.committed == frozenset()


def test_a_copy_at_least_once_counts_as_such_whatever_the_mappers_file_says(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    """Its file was changed before the copy is started anew: what was sent and is not mapped yet was passed."""
    world = World(clusters, tmp_path, "disabled")
    first, other = world.topic(), world.topic()
    for partition in (first, other):
        world.write(partition)
    copy(world.pipeline)
    world.write(first, 5)
    produce(world.target, world.all.topic, [b"%d" % n for n in range(20, 25)], world.all.partition)
    positions = {first: 12, other: 10}
    commit(world.source, world.group, positions)
    features = world.pipeline.features.model_copy(update={"exactly_once": True})
    result = sync_once(world.pipeline.model_copy(update={"features": features}))
    assert [line.decision for line in result.lines(world.group)] == ["ahead"]
    assert world.skipped(positions) == 0


def test_a_topic_created_anew_meanwhile(clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = World(clusters, tmp_path, "enabled")
    first = world.topic()
    world.write(first)
    copy(world.pipeline)
    groups = {world.group: GroupOffsets(world.group, {first: CommittedOffset(4)})}
    with (
        both_clusters(world.pipeline) as (source, target),
        PositionTranslator(world.pipeline, source, target) as translator,
    ):
        assert translator.refresh() == {first.topic}
        assert translator.translate(groups).answers[world.group][0].offset == 4
        delete_topic(world.source, first.topic)
        create_topic(world.source, first.topic)
        with pytest.raises(Changed, match=f"created anew.*{first.topic}"):
            translator.translate(groups)
        translator.refresh()
        assert translator.translate(groups).answers == {}


def test_the_look_is_repeated_as_long_as_it_has_to(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(clusters, tmp_path, "enabled")
    first = world.topic()
    world.write(first)
    copy(world.pipeline)
    commit(world.source, world.group, {first: 4})
    looks: list[Cluster] = []
    with both_clusters(world.pipeline) as (source, target), Poller(world.pipeline, source, target) as poller:
        poller.start()
        real = poller._translator.translate

        def translate(groups: Any) -> Any:
            looks.append(source)
            if len(looks) < 3:
                raise Changed("once more")
            return real(groups)

        monkeypatch.setattr(poller._translator, "translate", translate)
        assert poller.poll().committed == {world.group}
        assert len(looks) == 3
