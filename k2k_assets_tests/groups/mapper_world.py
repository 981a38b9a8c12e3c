"""A topic that is copied one to one, with mappers, and the results for its groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import Line, PollResult
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.proof.exactness import BothSides

EXACT = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}


@dataclass
class World:
    """A topic that is copied one to one, with markers and gaps."""

    source: str
    target: str
    topic: str
    directory: Path
    path: Path
    written: int = 0

    def at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def write(self, partitions: int = 3) -> None:
        for partition in range(partitions):
            for _ in range(3):
                values = [b"%d" % n for n in range(self.written, self.written + 40)]
                self.written += 40
                produce(self.source, self.topic, values, partition, unique("tx"))
                produce(self.source, self.topic, [b"aborted"] * 3, partition, abort=True)

    def pipeline(self, groups: str | list[str], **settings: Any) -> Pipeline:
        """The pipeline with a filter of groups of its own, and settings of the mapper by the keys of the file."""
        sections: dict[str, dict[str, Any]] = {
            "groups": {"consumerGroups": groups},
            "errorHandling": {},
            "features": {},
        }
        for key, value in settings.items():
            section = {"on": "errorHandling", "apply": "features"}.get(re.split("[A-Z]", key)[0], "groups")
            sections["groups" if key == "onForeignTargetCommit" else section][key] = value
        over = self.directory / f"{unique('over')}.yaml"
        over.write_text(yaml.safe_dump(sections))
        return load_pipeline([self.path, over])

    def best(self, partition: int, position: int) -> int:
        """Where a group at a position on the source belongs on the target, by content."""
        both = BothSides.read(self.source, [self.topic], self.target, [self.topic])
        pairs = both.copies[self.at(partition), self.at(partition)]
        unread = pairs[pairs[:, 0] >= position]
        return int(unread[0, 1] if len(unread) else pairs[-1, 1] + 1)


@pytest.fixture(scope="module")
def world(clusters: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory = tmp_path_factory.mktemp("mapper")
    topic = create_topic(clusters.source_servers, unique("orders"), 3)
    path = write_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features=EXACT,
        index={"path": str(directory / "index")},
        groups={"pollInterval": "200 milliseconds"},
    )
    found = World(clusters.source_servers, clusters.target_servers, topic, directory, path)
    found.write()
    copy(load_pipeline([path]))
    return found


@contextmanager
def polling(pipeline: Pipeline) -> Iterator[Poller]:
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.start()
        yield poller


def line_of(result: PollResult, group: str, partition: TopicPartition) -> Line:
    [found] = [line for line in result.lines(group) if line.partition == partition]
    return found


def words(result: PollResult, group: str) -> dict[int, str]:
    return {line.partition.partition: line.decision.value for line in result.lines(group)}


def await_held(world: World, group: str, **positions: int) -> dict[TopicPartition, str]:
    """Waits until the target holds just where these source positions (`p1=20`) belong; returns the metadata.

    A transaction's offsets become visible a moment after it was committed.
    """
    wanted = {world.at(int(name[1:])): world.best(int(name[1:]), position) for name, position in positions.items()}
    found: dict[TopicPartition, tuple[int, str]] = {}

    def there() -> bool:
        found.clear()
        found.update(held(world.target, group))
        return {at: offset for at, (offset, _) in found.items()} == wanted

    try:
        wait_until(there, 120, f"{wanted}")
    except TimeoutError as error:
        raise AssertionError(f"{error}, found {found}") from None
    return {at: metadata for at, (_, metadata) in found.items()}
