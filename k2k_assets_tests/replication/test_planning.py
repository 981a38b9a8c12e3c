"""What is asked of the clusters for each generation, where one topic is not what it was."""

from __future__ import annotations

from typing import Any

from k2k_assets.errors import NotAllowed, Refused
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.replication.leaderless import ends_of_each_topic
from k2k_assets.replication.plan import ControlTopics
from k2k_assets.replication.planning import Ground
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.support.fake_transport import FakeCluster

P0, P1, HIDDEN = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("hidden", 0)


class Secretive(FakeCluster):
    """A cluster that does not let the topic `hidden` be seen."""

    def describe(self, names: Any) -> dict[str, TopicDescription]:
        if "hidden" in names:
            raise NotAllowed("hidden", "it is hidden")
        return super().describe(names)

    def offsets(self, partitions: Any, *rest: Any, **more: Any) -> dict[TopicPartition, int]:
        if HIDDEN in partitions:
            raise Refused("it is hidden")
        return super().offsets(partitions, *rest, **more)


def ground(*names: str) -> Ground:
    described = {name: TopicDescription(name, f"first {name}", 2) for name in names}
    topics = {name: (name, 2) for name in names}
    return Ground("c", topics, described, described, ControlTopics(1, 6, "commits"), 1_000_000, True)


def test_one_topic_that_may_not_be_seen_any_more_holds_up_no_others() -> None:
    source: Any = Secretive({}, ends={P0: 10, P1: 20})
    unknown: dict[TopicPartition, str] = {}
    assert ends_of_each_topic(source, [P0, HIDDEN, P1], "latest", unknown) == {P0: 10, P1: 20}
    assert unknown == {HIDDEN: "it is hidden"}


def test_topics_are_looked_at_again() -> None:
    now: Any = FakeCluster({"t": ("second t", 2)})
    seen = ground("t", "gone").seen_again(now, FakeCluster({"t": ("third t", 2)}))  # type: ignore[arg-type]
    assert seen.topic_ids[P0] == "second t"
    assert seen.targets["t"].topic_id == "third t"
    assert seen.topic_ids[TopicPartition("gone", 0)] == "first gone", "its slot tells"


def test_where_one_may_not_be_seen_all_stay_as_they_were() -> None:
    before = ground("t", "hidden")
    secretive: Any = Secretive({"t": ("second t", 2)})
    assert before.seen_again(secretive, secretive) is before
