"""Mapping records are lost, and the commit record says that another instance has copied since. Without brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate, translate_back
from k2k_assets.mapping.live import copied_positions
from k2k_assets.mapping.live import live as live_mappings
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.mapping.live.not_indexed import AS_INDEXED, mapped_from
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory import plans
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.mapping_topic import (
    CLUSTERS,
    GROUP,
    TOPIC,
    FakeMessage,
    LocalIndex,
    MappingTopic,
    mapping_record,
)
from k2k_assets_tests.support.memory.offset_model import target

SOURCE = SourcePartition(CLUSTERS[0], "s", "sid", 0)


class Target(FakeCluster):
    """The target cluster."""

    def cluster_id(self) -> str:
        return CLUSTERS[1]


@dataclass
class Follower:
    """Follows a topic in memory as `TopicFollower` does; what is deleted before it was read is told as lost."""

    topic: TopicDescription
    log: MappingTopic
    next: dict[int, int]
    lost: list[tuple[int, int, int]] = field(default_factory=list)

    def ends(self) -> dict[TopicPartition, int]:
        return {TopicPartition(self.topic.name, p): 2 * len(log) for p, log in enumerate(self.log.partitions)}

    def read_until(self, ends: Mapping[TopicPartition, int], patience: float) -> Iterator[Sequence[FakeMessage]]:
        for (_, partition), end in ends.items():
            at, start = self.next.get(partition, 0), self.log.starts[partition]
            if at < start:
                self.lost.append((partition, at, start))
            yield [m for m in self.log.partitions[partition] if max(at, start) <= m.offset() < end]
            self.next[partition] = end

    def catch_up(self, patience: float) -> Iterator[Sequence[FakeMessage]]:
        return self.read_until(self.ends(), patience)

    def take_lost(self) -> list[tuple[int, int, int]]:
        lost, self.lost = self.lost, []
        return lost

    def close(self) -> None:
        """Nothing is open."""


class World:
    """A pipeline with an index, whose control topics are in memory."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.pipeline = _pipeline(root)
        self.index = LocalIndex(root / "index")
        self.mappings, self.commits = self.index.topic, MappingTopic()
        commits = self.pipeline.coordination.commit.topic
        logs = {TOPIC: self.mappings, commits: self.commits}
        self.target = Target({TOPIC: (self.mappings.id, 2), commits: ("commits", 2)})

        def followed(topic: TopicDescription, *_: Any, starts: Mapping[int, int] | None = None, **__: Any) -> Follower:
            return Follower(topic, logs[topic.name], dict(starts or {}))

        for module in (live_mappings, copied_positions):
            patch.setattr(module, "TopicFollower", followed)

    def commit(self, position: int, generation: int, target_end: int | None = None, **changed: Any) -> None:
        record = plans.commit_record(
            TopicPartition("s", 0), position, generation=generation, began=0,
            group=GROUP, cluster=CLUSTERS[0], source_topic_id="sid", target_topic="t",
            target_end=target_end, **{"target_topic_id": "tid", "sequence": position, **changed},
        )  # fmt: skip
        self.commits.write_raw(record.key_bytes(), record.value_bytes())

    def live(self) -> LiveMappings:
        return LiveMappings(self.pipeline, CLUSTERS[0], cast("Cluster", self.target))


def _pipeline(root: Path) -> Pipeline:
    return make_pipeline(
        root, "a:1", "b:1", ["s"],
        features={"offsetMapping": "enabled"}, consumer={"group.id": GROUP}, offsetMapping={"topic": TOPIC},
        errorHandling={"onControlMessageDeserializationError": "ignore"},
        index={"path": str(root / "index")},
    )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Source 0 to 99 is copied to target 0 to 99 by generation 1, and indexed."""
    found = World(tmp_path, monkeypatch)
    found.mappings.write(mapping_record((1, 1), (0, 100), [(0, 0, 100)]))
    found.commit(100, generation=1)
    found.index.update()
    return found


def _forth_and_back(live: LiveMappings, lowest: int | None) -> tuple[list[int], list[int]]:
    live.catch_up([])
    known = live.map_of(SOURCE, lowest)
    forth = translate(known, target(0), np.array([50, 100, 101]))
    back = translate_back(known, target(0), np.array([50, 100]))
    assert all(
        (state == TranslationState.UNKNOWN) == (offset < 0)
        for found in (forth, back)
        for offset, state in zip(found.offsets.tolist(), found.states.tolist(), strict=True)
    )
    return forth.offsets.tolist(), back.offsets.tolist()


AS_BEFORE = [50, 100, 100], [50, 100]
UNKNOWN = [-1, -1, -1], [-1, -1]


@pytest.mark.parametrize("when", ["while it is down", "while it runs"])
def test_an_idle_partition_that_was_copied_again_is_not_answered_by_the_former_copies(world: World, when: str) -> None:
    """The target was cut at 40, and 60 to 99 copied to 40 to 79: a group at 50 belongs at 40."""
    before = world.live()
    assert _forth_and_back(before, 0) == AS_BEFORE
    world.mappings.write(mapping_record((3, 1), (60, 100), [(60, 40, 40)]))
    world.commit(100, generation=3, target_end=80)
    world.mappings.expire()
    live = before if when == "while it runs" else world.live()
    assert _forth_and_back(live, 0) == UNKNOWN
    world.mappings.write(mapping_record((3, 2), (100, 120), [(100, 80, 20)]))
    world.commit(120, generation=3)
    live.catch_up([])
    found = translate(live.map_of(SOURCE, 0), target(0), np.array([50, 99, 100, 120]))
    assert found.offsets.tolist() == [-1, -1, 80, 100]


def test_an_index_is_in_doubt_where_its_mapping_topic_is_gone(world: World) -> None:
    """Its last records may never have been read."""
    found = mapped_from(world.pipeline, world.index.reader(), cast("Cluster", Target({})), 10)
    assert found == {SOURCE: AS_INDEXED._replace(is_doubtful=True)}


def test_what_the_same_generation_has_copied_answers_on(world: World) -> None:
    """It never goes back: what is lost was copied behind all that is known, or is another partition's."""
    world.mappings.write(mapping_record((1, 2), (100, 110), [(100, 100, 10)]))
    world.commit(110, generation=1)
    world.mappings.expire()
    assert _forth_and_back(world.live(), 0) == ([50, -1, -1], [50, 100])


@pytest.mark.parametrize("since", [1, 2, None])
def test_restarts_leave_the_answers_if_all_of_them_went_on(world: World, since: int | None) -> None:
    """A mapping record is lost, nobody knows of which partition. Who stops commits idle partitions, too."""
    world.mappings.write(mapping_record((1, 2), (0, 7), [(0, 0, 7)], partition=1))
    world.mappings.expire()
    world.commit(100, generation=3, forward_since=since)
    live = world.live()
    assert _forth_and_back(live, 0) == (AS_BEFORE if since == 1 else UNKNOWN)
    world.mappings.write(replace(mapping_record((3, 2), (100, 120), [(100, 101, 20)]), forward_since=since))
    world.commit(120, generation=3, forward_since=since)
    assert _forth_and_back(live, 0) == (([50, 101, 102], [50, 100]) if since == 1 else ([-1, 101, 102], [-1, -1]))


def test_an_instance_that_has_not_read_all_commits_may_go_back_within_its_generation(world: World) -> None:
    """A later session of it may have begun before the end of an earlier one."""
    world.mappings.write(mapping_record((1, 2), (0, 7), [(0, 0, 7)], partition=1))
    world.mappings.expire()
    world.commit(100, generation=1, sequence=101, forward_since=2)
    live = world.live()
    assert _forth_and_back(live, 0) == UNKNOWN
    world.mappings.write(replace(mapping_record((1, 3), (100, 120), [(100, 101, 20)]), forward_since=2))
    assert _forth_and_back(live, 0) == ([-1, 101, 102], [-1, -1])


def test_behind_a_commit_record_that_cannot_be_read_nothing_is_known(world: World) -> None:
    """A newer release may have set the position back, or copied elsewhere; it wrote the mapping record that is lost."""
    world.mappings.write(mapping_record((1, 2), (0, 7), [(0, 0, 7)], partition=1))
    world.mappings.expire()
    key = world.commits.partitions[0][0].key()
    world.commits.write_raw(key, b'{"version":9}')
    live = world.live()
    assert _forth_and_back(live, 0) == UNKNOWN
    world.commit(100, generation=3, forward_since=1)
    assert _forth_and_back(live, 0) == AS_BEFORE


def test_behind_an_override_answers_stay_as_behind_a_copy(world: World) -> None:
    """It is the first generation of its own."""
    world.mappings.write(replace(mapping_record((2, 1), (100, 110)), override="by hand"))
    world.commit(110, generation=2, kind="override", forward_since=2)
    world.index.update()
    world.mappings.write(mapping_record((1, 2), (0, 7), [(0, 0, 7)], partition=1))
    world.mappings.expire()
    world.mappings.write(replace(mapping_record((3, 1), (110, 120), [(110, 101, 10)]), forward_since=2))
    world.commit(120, generation=3, forward_since=2)
    live = world.live()
    assert _forth_and_back(live, 0) == ([50, 101, 101], [50, 100])


def test_what_was_lost_of_the_same_partition_takes_no_other_answers(world: World) -> None:
    """Generation 2 had begun where 1 had stopped, and 3 where 2 had."""
    world.mappings.write(replace(mapping_record((2, 2), (100, 110), [(100, 101, 10)]), forward_since=1))
    world.mappings.expire()
    world.mappings.write(replace(mapping_record((3, 1), (110, 120), [(110, 112, 10)]), forward_since=1))
    world.commit(120, generation=3, forward_since=1)
    live = world.live()
    assert _forth_and_back(live, 0) == ([50, -1, -1], [50, 100])
    world.index.update()
    assert _forth_and_back(world.live(), 0) == ([50, -1, -1], [50, 100])


def test_where_nothing_is_lost_a_new_instance_changes_nothing(world: World) -> None:
    """It has found nothing to copy."""
    world.commit(100, generation=3)
    assert _forth_and_back(world.live(), 0) == AS_BEFORE


def test_a_position_that_was_set_back_since_leaves_only_that_copies_are_there(world: World) -> None:
    world.mappings.write(mapping_record((3, 1), (20, 20)))
    world.commit(20, generation=3)
    world.mappings.expire()
    live = world.live()
    assert _forth_and_back(live, 0) == UNKNOWN
    assert [run.source_end for run in live.map_of(SOURCE, 0).runs[target(0)]] == [20]
