"""Groups of topics whose copy begins later than the source: no group moves past records that were not copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_records, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = pytest.mark.integration


class World:
    """A topic of one partition, and groups that stand somewhere in it."""

    def __init__(
        self, clusters: KafkaSandbox, directory: Path, start: object = None, mode: str = "enabled", **consumer: Any
    ) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self.topic = create_topic(self.source, unique("orders"))
        self.at = TopicPartition(self.topic, 0)
        self.groups: dict[str, int] = {}
        self._prefix = unique("readers")
        self.path = write_pipeline(
            directory,
            self.source,
            self.target,
            [self.topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled"},
            groups={"consumerGroups": f"{self._prefix}.*"},
            consumer={"group.id": unique("k2k"), **consumer},
            replication=[
                {"source": {"topic": [self.topic], "start": {self.topic: start} if isinstance(start, dict) else start}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
        )
        self.pipeline = load_pipeline([self.path])

    def write(self, count: int) -> None:
        produce(self.source, self.topic, [b"%d" % n for n in range(count)], 0)

    def stand(self, *positions: int) -> None:
        """One group at each of these positions."""
        for position in positions:
            self.groups[f"{self._prefix}-at-{position}"] = position
            commit(self.source, f"{self._prefix}-at-{position}", {self.at: position})

    def moved(self) -> dict[int, tuple[str, int | None]]:
        """What is said of each group, and where it stands on the target then."""
        result = sync_once(self.pipeline)
        found: dict[int, tuple[str, int | None]] = {}
        for group, position in self.groups.items():
            [line] = result.lines(group)
            there = held(self.target, group).get(self.at)
            found[position] = line.decision.value, there and there[0]
        return found


@pytest.mark.slow
def test_a_copy_that_began_at_the_end_moves_nobody_past_what_it_left_out(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    world = World(clusters, tmp_path, **{"auto.offset.reset": "latest"})
    world.write(20)
    delete_records(world.source, world.topic, 0, 5)
    copy(world.pipeline)
    world.stand(2, 5, 19, 20)
    assert world.moved() == {2: ("unknown", None), 5: ("unknown", None), 19: ("unknown", None), 20: ("exact", 0)}
    world.write(10)
    copy(world.pipeline)
    world.stand(25)
    assert world.moved() == {
        2: ("unknown", None), 5: ("unknown", None), 19: ("unknown", None), 20: ("exact", 0), 25: ("exact", 5),
    }  # fmt: skip


@pytest.mark.parametrize("start", [{0: 12}, "latest", 2_000_000_000_000])
def test_a_copy_that_began_at_a_given_position_moves_nobody_past_what_it_left_out(
    clusters: KafkaSandbox, tmp_path: Path, start: object
) -> None:
    world = World(clusters, tmp_path, start=start)
    world.write(20)
    delete_records(world.source, world.topic, 0, 5)
    copy(world.pipeline)
    world.write(10)
    copy(world.pipeline)
    began, markers = (12, 1) if isinstance(start, dict) else (20, 0)  # that of the first copy, if it had records
    world.stand(2, 5, began - 1, began, began + 5, 30)
    assert world.moved() == {
        2: ("unknown", None), 5: ("unknown", None), began - 1: ("unknown", None),
        began: ("exact", 0), began + 5: ("exact", 5), 30: ("exact", 30 - began + markers),
    }  # fmt: skip


def test_a_copy_that_began_where_the_source_does_moves_those_below_to_its_first_record(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    world = World(clusters, tmp_path)
    world.write(20)
    delete_records(world.source, world.topic, 0, 5)
    copy(world.pipeline)
    world.stand(2, 5, 7)
    assert world.moved() == {2: ("exact", 0), 5: ("exact", 0), 7: ("exact", 2)}


@pytest.mark.slow
def test_a_target_topic_that_was_created_anew_is_nobodys_who_has_not_read_the_former_one(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    world = World(clusters, tmp_path)
    world.write(20)
    copy(world.pipeline)
    world.stand(3, 19, 20)
    assert world.moved() == {3: ("exact", 3), 19: ("exact", 19), 20: ("exact", 20)}

    delete_topic(world.target, world.topic)
    create_topic(world.target, world.topic)
    assert k2k_tool(["set", "-f", str(world.path), "-o", f"{world.topic}:0:current", "--accept-new-topic"]) == 0
    world.write(10)
    copy(world.pipeline)
    world.stand(24)
    words = {position: word for position, (word, _) in world.moved().items()}
    assert words == {3: "unknown", 19: "unknown", 20: "exact", 24: "exact"}
    for group, position in world.groups.items():
        if position >= 20:
            assert held(world.target, group)[world.at][0] == position - 20


@pytest.mark.parametrize("mode", ["enabled", pytest.param("disabled", marks=pytest.mark.slow)])
def test_a_source_topic_that_was_created_anew_begins_behind_the_copies_of_the_former_one(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """No group reads the copies of the former topic again, and none is called exact that would."""
    world = World(clusters, tmp_path, mode=mode)
    world.write(20)
    copy(world.pipeline)
    delete_topic(world.source, world.topic)
    create_topic(world.source, world.topic)
    assert k2k_tool(["set", "-f", str(world.path), "-o", f"{world.topic}:0:0", "--accept-new-topic"]) == 0
    copy(world.pipeline)
    world.stand(0)
    assert world.moved() == {0: ("unknown", None)}, "nothing tells where its first record will lie"
    assert [row.state for row in translate_offsets(world.pipeline, world.topic, 0, [0])] == ["unknown"]
    world.write(5)
    copy(world.pipeline)
    first = 20 if mode == "disabled" else 21  # behind a marker
    assert world.moved() == {0: ("exact", first)}
    [row] = translate_offsets(world.pipeline, world.topic, 0, [0])
    assert (row.state, row.to_offset) == ("exact", first)
