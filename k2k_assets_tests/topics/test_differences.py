"""In what a target topic differs from what it has to be like, and what is left alone, without clusters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from k2k_assets.topics.create import WantedTopic
from k2k_assets.topics.differences import Difference, Kind, differences
from k2k_assets.topics.plan import TopicsPlan
from k2k_assets.topics.wanted import MIN_ISR, TargetTopic, TopicSettings

DEFAULTS = {"retention.ms": "604800000", "cleanup.policy": "delete", MIN_ISR: "1", "segment.ms": "60"}


def topic(config: Mapping[str, str], partitions: int = 3, replication: int = 3) -> TopicSettings:
    return TopicSettings(partitions, replication, config, {**DEFAULTS, **config})


def target(
    config: Mapping[str, str] | None = None, *explicit: str, left_out: Mapping[str, str] | None = None
) -> TargetTopic:
    return TargetTopic(WantedTopic("t", 3, 3, config or {}), frozenset(explicit), left_out or {})


def found(
    wanted: TargetTopic, has: TopicSettings, source: TopicSettings | None = None, *excluded: str
) -> list[tuple[Kind, str, str | None, str | None]]:
    model = source or topic(wanted.topic.config)
    return [(d.kind, d.what, d.found, d.wanted) for d in differences(wanted, has, model, excluded)]


def test_a_topic_that_is_as_it_has_to_be() -> None:
    assert found(target({"retention.ms": "5"}), topic({"retention.ms": "5"})) == []


def test_a_topic_that_is_missing() -> None:
    (difference,) = differences(target(), None, topic({}))
    assert (difference.kind, str(difference)) == ("missing", "t is missing")


def test_what_is_in_force_counts_wherever_it_is_set() -> None:
    assert found(target({"retention.ms": "604800000"}), topic({})) == []
    assert found(target(), topic({"segment.ms": "60"})) == [], "the source has the same by default"


def test_configs_of_the_source_and_configs_of_the_target_only() -> None:
    assert found(target({"retention.ms": "5", MIN_ISR: "2"}), topic({"segment.ms": "7"})) == [
        ("min.insync.replicas", MIN_ISR, "1", "2"),
        ("config", "retention.ms", "604800000", "5"),
        ("only on the target", "segment.ms", "7", None),
    ]


def test_what_is_excluded_or_was_left_out_is_not_looked_at() -> None:
    has = topic({"segment.ms": "7", MIN_ISR: "2", "message.timestamp.before.max.ms": "9"})
    assert found(target(left_out={MIN_ISR: "3 of 1 replica"}), has, topic({}), "segment.ms") == []
    assert found(target({"segment.ms": "8"}, "segment.ms"), topic({}), topic({}), "segment.ms") == [
        ("config", "segment.ms", "60", "8")
    ], "the pipeline file says it"


@pytest.mark.parametrize(
    ("explicit", "partitions", "replication", "kinds"),
    [
        ((), 3, 3, []),
        ((), 6, 5, []),
        ((), 2, 1, ["partitions", "replication factor"]),
        (("replication",), 6, 5, ["replication factor"]),
        (("partitions",), 6, 3, []),  # Kafka cannot take partitions away
    ],
)
def test_fewer_partitions_or_replicas_and_replicas_that_the_file_forbids(
    explicit: tuple[str, ...], partitions: int, replication: int, kinds: list[Kind]
) -> None:
    has = topic({}, partitions, replication)
    assert [kind for kind, *_ in found(target({}, *explicit), has)] == kinds


def _difference(kind: Kind, wanted: str | None = "2") -> Difference:
    return Difference("t", kind, kind, "1", wanted)


@pytest.mark.parametrize(
    ("kind", "unasked", "option"),
    [
        ("missing", True, ""),
        ("config", True, ""),
        ("only on the target", False, "--reset-configs"),
        ("min.insync.replicas", False, "--min-insync-replicas"),
        ("partitions", False, "--partitions"),
    ],
)
def test_what_is_done_unasked_and_what_needs_an_option(kind: Kind, unasked: bool, option: str) -> None:
    plan = TopicsPlan({"t": target()}, {"t": topic({})}, [_difference(kind)])
    assert bool(plan.to_do([])) is unasked
    assert option in plan.why_not(plan.differences[0], [])
    assert plan.to_do([kind]) == list(plan.differences)


def test_replicas_are_never_moved_and_no_topic_becomes_one_that_nobody_can_write_to() -> None:
    everything: list[Kind] = ["replication factor", "min.insync.replicas"]
    plan = TopicsPlan({"t": target()}, {"t": topic({}, replication=1)}, [_difference(kind) for kind in everything])
    assert plan.to_do(everything) == []
    assert "nobody could write" in plan.why_not(plan.differences[1], everything)


def test_a_value_of_the_targets_own_is_taken_away_where_that_cannot_forbid_writing() -> None:
    """With the brokers' default, which nobody has asked for, a topic with one replica may take no records any more."""

    def plan(found: str, replicas: int) -> TopicsPlan:
        difference = Difference("t", "min.insync.replicas", MIN_ISR, found, None)
        return TopicsPlan({"t": target()}, {"t": topic({MIN_ISR: found}, replication=replicas)}, [difference])

    asked: list[Kind] = ["min.insync.replicas"]
    assert plan("1", 1).to_do(asked) == []
    assert "nobody could write" in plan("1", 1).why_not(plan("1", 1).differences[0], asked)
    assert plan("2", 1).to_do(asked), "nobody can write now"
    assert plan("1", 3).to_do(asked)
