"""The driver's requests to the clusters for each generation, when a topic has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Hidden, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import ends_of_each_topic
from k2k_assets.replication.driver.planning import ClusterSnapshot, plan_slots
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets.replication.plan import ControlPartitions
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster

P0, P1, HIDDEN, HIDDEN1 = (TopicPartition(topic, p) for topic in ("t", "hidden") for p in range(2))


class Secretive(FakeCluster):
    """A cluster that does not let the topic `hidden` be seen."""

    def describe(self, names: Any) -> dict[str, TopicDescription]:
        if "hidden" in names:
            raise Hidden("it is hidden", "hidden")
        return super().describe(names)

    def describe_async(self, names: Any, partly: bool = False) -> Any:
        return super().describe_async(set(names) - {"hidden"} if partly else names)

    def led_offsets(self, partitions: Any, *rest: Any, **more: Any) -> LedOffsets:
        if HIDDEN in partitions:
            raise Refused("it is hidden")
        return super().led_offsets(partitions, *rest, **more)


def snapshot(*names: str) -> ClusterSnapshot:
    described = {name: TopicDescription(name, f"first {name}", 2) for name in names}
    topics = {name: (name, 2) for name in names}
    return ClusterSnapshot("c", topics, described, described, ControlPartitions(1, 6, "commits"), 1_000_000, True)


def test_one_topic_that_may_not_be_seen_any_more_holds_up_no_others() -> None:
    source: Any = Secretive({"t": ("s-t", 2)}, ends={P0: 10, P1: 20})
    found = ends_of_each_topic(source, [P0, HIDDEN, P1], "latest")
    assert found == ({P0: 10, P1: 20}, {HIDDEN: "it is hidden"})


def test_topics_are_looked_at_again() -> None:
    now: Any = FakeCluster({"t": ("second t", 2)})
    seen = snapshot("t", "gone").seen_again(now, FakeCluster({"t": ("third t", 2)}))  # type: ignore[arg-type]
    assert seen.topic_ids[P0] == "second t"
    assert seen.targets["t"].topic_id == "third t"
    assert seen.topic_ids[TopicPartition("gone", 0)] == "first gone", "its slot tells"


def test_one_that_was_created_anew_with_fewer_partitions_has_no_others() -> None:
    now: Any = FakeCluster({"t": ("second t", 1), "u": ("second u", 3), "v": ("first v", 1)})
    seen = snapshot("t", "u", "v").seen_again(now, now)
    both = [TopicPartition(topic, n) for topic in ("u", "v") for n in range(2)]
    assert seen.partitions == [P0, *both], "what is new is found elsewhere, and a broker may be late to know"


def test_one_that_may_not_be_seen_any_more_stays_as_it_was_alone() -> None:
    """Another one that was created anew, and accepted, is never copied else."""
    secretive: Any = Secretive({"t": ("second t", 2)})
    seen = snapshot("t", "hidden").seen_again(secretive, secretive)
    assert seen.topic_ids == {P0: "second t", P1: "second t", HIDDEN: "first hidden", HIDDEN1: "first hidden"}
    assert {name: target.topic_id for name, target in seen.targets.items()} == {
        "t": "second t",
        "hidden": "first hidden",
    }


def test_what_is_new_is_added_to_what_is_known() -> None:
    both = snapshot("t").with_new(replace(snapshot("u"), batch_bytes=10))
    assert both.topics == {"t": ("t", 2), "u": ("u", 2)}
    assert both.batch_bytes == 10, "the smallest of all"
    assert both.one_to_one


@pytest.mark.parametrize("before", [True, False])
def test_where_several_topics_fed_one_they_may_do_so_again(before: bool) -> None:
    """One that is gone is not counted now, and comes back without being new."""
    assert (
        not replace(snapshot("t"), one_to_one=before).with_new(replace(snapshot("u"), one_to_one=not before)).one_to_one
    )


def test_where_several_feed_one_no_copy_is_alone_on_the_target(tmp_path: Path) -> None:
    """Foreign records cannot be told there, and stop nothing: a check must not call what lies between a fault."""
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features={"exactlyOnce": "enabled"})
    settings = CopySettings.of(pipeline)
    assert settings.alone
    source: Any = FakeCluster({"t": ("first t", 2)}, ends={P0: 10, P1: 20})
    for one_to_one, expected in ((True, settings), (False, replace(settings, alone=False))):
        of_plan = replace(snapshot("t"), one_to_one=one_to_one)
        (plan,) = plan_slots(pipeline, of_plan, source, 1, [[P0, P1]], UntilCaughtUp(), frozenset(), {})
        assert plan.settings == expected.fingerprint
