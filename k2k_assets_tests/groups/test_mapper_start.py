"""The start of a mapper: refusals, created topics, and no commit before it knows all mappings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k2k_assets.control.control_topics import control_topics
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.mapper_file import load_mapper_pipeline
from k2k_assets.groups.poller import Poller
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.groups.mapper_world import EXACT, World, await_held, polling
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    OpenTransaction,
    Record,
    create_topic,
    end_offsets,
    produce,
    topics,
    unique,
)
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

pytestmark = pytest.mark.integration


def test_without_mappings_or_claims_it_is_refused(clusters: KafkaSandbox, world: World, tmp_path: Path) -> None:
    features = {"autoCreateControlTopics": "disabled", "offsetMapping": "enabled"}
    path = write_pipeline(tmp_path, world.source, world.target, [world.topic], features=features)
    with pytest.raises(Refused, match=r"mapping topic .* does not exist .*'features.offsetMapping: enabled'"):
        sync_once(load_pipeline([path]))
    create_topic(world.target, load_pipeline([path]).offset_mapping.topic)
    with pytest.raises(Refused, match="control topics are missing"):
        sync_once(load_pipeline([path]))


@pytest.mark.slow
@pytest.mark.parametrize("features", [EXACT, None], ids=["the replicator's file", "a file of its own"])
def test_a_mapper_that_is_started_before_the_replicator(
    world: World, tmp_path: Path, features: dict[str, str] | None
) -> None:
    """As when both are deployed at once: it creates the control topics, and goes on when there is something."""
    group, at = unique("early"), TopicPartition(create_topic(world.source, unique("early")), 0)
    produce(world.source, at.topic, [b"%d" % n for n in range(20)], transactional_id=unique("tx"))
    commit(world.source, group, {at: 7})
    path = write_pipeline(
        tmp_path, world.source, world.target, [at.topic], features=EXACT, groups={"consumerGroups": [group]}
    )
    replicator = load_pipeline([path])
    own = yaml.safe_load(path.read_text())
    del own["replication"], own["source"]["kafka"]["consumer"], own["features"]["offsetMapping"]
    mine = tmp_path / "mapper.yaml"
    mine.write_text(yaml.safe_dump(own))
    with polling(load_mapper_pipeline([path if features else mine])) as poller:
        assert set(control_topics(replicator)) <= set(topics(world.target))
        first = poller.poll()
        assert (first.groups, first.failed, first.without_commits) == ([], {}, 1)
        copy(replicator)
        assert poller.poll().committed == {group}
        wait_until(lambda: held(world.target, group), SECONDS, "the commit")
    assert held(world.target, group)[at][0] == 7


def test_a_file_whose_replicator_publishes_nothing_creates_no_topic_for_it(world: World, tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, world.source, world.target, [world.topic])
    with pytest.raises(Refused, match=r"mapping topic .* does not exist .*'features.offsetMapping: enabled'"):
        sync_once(pipeline)
    assert not set(control_topics(pipeline)) & set(topics(world.target))


def test_before_the_mappings_are_read_to_the_end_nothing_is_claimed_or_committed(world: World, tmp_path: Path) -> None:
    """The mapper before goes on meanwhile."""
    pipeline = load_pipeline([world.path])
    group, at = unique("starting"), world.at(0)
    commit(world.source, group, {at: 10})
    chosen = world.pipeline([group])
    claims = TopicPartition(pipeline.coordination.assignment.topic, 0)
    with polling(chosen) as before:
        claimed = end_offsets(world.target, claims.topic)
        hanging = OpenTransaction(world.target, pipeline.offset_mapping.topic, [Record(b"x", b"y")])
        with (
            both_clusters(chosen) as (source, target),
            Poller(chosen, source, target, patience=0.5) as starting,
            pytest.raises(ClusterUnreachable, match=r"was not read to its end: .* a transaction is open there"),
        ):
            starting.start()
        assert end_offsets(world.target, claims.topic) == claimed
        assert held(world.target, group) == {}
        hanging.abort()
        assert before.poll().committed == {group}, "it was not superseded"
    await_held(world, group, p0=10)
