"""A topic that was copied once, and left the file together with its permissions: no other topic stands still for it.

Kafka does not even tell which groups read a topic that may not be seen. So nothing is known of what it was copied to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.core.errors import Hidden
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.poller import Poller
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.copies.copying import copy

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class _Leaving:
    """Two topics that were copied, into one of their own each or into one, and a group that reads both."""

    def __init__(self, clusters: KafkaSandbox, folder: Path, **sink: Any) -> None:
        self.stage = PermissionsFixture(clusters, folder)
        self.group = kafka.unique("readers")
        self.stays, self.leaves = (
            kafka.create_topic(self.stage.servers("source"), kafka.unique(name)) for name in ("stays", "leaves")
        )
        self.path = self.stage.pipeline_file(
            [self.stays, self.leaves], groups={"consumerGroups": [self.group]}, transform=[], **sink
        )
        self.stage.grant(self.stage.acls(self.path, "replication"))
        for topic in (self.stays, self.leaves):
            kafka.produce(self.stage.servers("source"), topic, [b"%d" % n for n in range(9)], 0)
        self.before = load_pipeline([self.path])
        assert not copy(self.before).stopped
        self.read(3)

    def read(self, to: int) -> None:
        """The group reads both topics up to an offset."""
        at = {TopicPartition(topic, 0): to for topic in (self.stays, self.leaves)}
        commit(self.stage.servers("source"), self.group, at)

    def without(self) -> tuple[Path, Pipeline]:
        """The pipeline file without the topic."""
        document = yaml.safe_load(self.path.read_text())
        (stage,) = (each["source"] for each in document["replication"] if "source" in each)
        assert stage["topic"] == [self.stays, self.leaves]
        stage["topic"] = [self.stays]
        path = self.path.with_name("without.yaml")
        path.write_text(yaml.safe_dump(document))
        return path, load_pipeline([path])

    def target(self, topic: str) -> TopicPartition:
        return TopicPartition(self.before.routing.target_topic(topic), 0)

    def held(self) -> dict[TopicPartition, int]:
        return {tp: at for tp, (at, _) in held(self.stage.servers("target"), self.group).items()}


def test_groups_of_other_topics_move_on(secure_clusters: KafkaSandbox, tmp_path: Path) -> None:
    world = _Leaving(secure_clusters, tmp_path)
    stays, leaves = world.target(world.stays), world.target(world.leaves)
    path, after = world.without()
    world.stage.grant(world.stage.acls(world.path, "mapper"))
    with both_clusters(world.before) as clusters, Poller(world.before, *clusters) as poller:
        poller.start()
        assert poller.poll().committed == {world.group}
        world.stage.grant(world.stage.acls(path, "mapper"))
        world.read(5)
        assert poller.poll().committed == {world.group}, "the mapper that runs"
    translated = translate_offsets(after, world.stays, 0, [3, 5, 7])
    three, five, seven = (row.to_offset or 0 for row in translated)
    assert world.held() == {stays: five, leaves: three}
    world.read(7)
    assert sync_once(after).committed == {world.group}, "one that is started"
    assert world.held() == {stays: seven, leaves: three}

    there = TopicPartition(world.stays, 0)
    assert translate_checkpoint(after, {there: 7}).offsets == {stays: seven}
    with pytest.raises(Hidden, match=world.leaves):
        translate_offsets(after, world.leaves, 0, [7])
    commit(world.stage.servers("target"), world.group, {stays: five, leaves: five})
    world.stage.grant(world.stage.acls(path, "failback"))
    with both_clusters(after) as clusters:
        (plan,) = failback_plans(after, *clusters)
    assert {row.source: (row.decision.value, row.offset) for row in plan.rows} == {there: ("exact", 5)}


def test_where_it_was_copied_beside_others_nothing_is_guessed(secure_clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The group has records of the hidden topic to read there, and Kafka does not tell how many."""
    world = _Leaving(secure_clusters, tmp_path, sink={"static": kafka.unique("all")})
    path, after = world.without()
    into = world.target(world.stays)
    world.stage.grant(world.stage.acls(path, "mapper"))
    result = sync_once(after)
    assert [line.decision.value for line in result.lines(world.group)] == ["unknown"]
    assert re.search(
        rf"the source cluster .* does not let the topic {world.leaves} be seen", result.offline_partitions[into]
    )
    assert world.held() == {}
