"""The plan: the same everywhere and at any time; each partition is in it once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import is_one_to_one, slot_of, slots_for, spread
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import sources

partitions = st.lists(st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 200)), max_size=60, unique=True)


@given(partitions, st.integers(1, 9))
def test_each_partition_is_in_exactly_the_slot_that_its_name_says(tps: list[TopicPartition], slots: int) -> None:
    shares = spread(tps, slots)

    assert sorted(tp for share in shares for tp in share) == sorted(tps)
    slots_of_shares = [{slot_of(tp, slots) for tp in share} for share in shares]
    assert all(len(of_share) == 1 for of_share in slots_of_shares), "and no share is empty"
    numbers = [min(of_share) for of_share in slots_of_shares]
    assert numbers == sorted(set(numbers))


@pytest.mark.processes
def test_slots_are_the_same_in_another_process_and_in_later_releases() -> None:
    """A hash that changed would let two slots own a partition during an upgrade."""
    code = (
        "from k2k_assets.replication.plan import slot_of\n"
        "from k2k_assets.core.topic_partition import TopicPartition as T\n"
        "print([slot_of(T('orders', p), 5) for p in range(8)])"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    here = [slot_of(tp, 5) for tp in sources("orders", 8)]
    assert there.stdout.strip() == str(here) == "[2, 3, 4, 0, 1, 2, 3, 4]"


@given(st.text(max_size=8), st.integers(1, 60), st.integers(1, 9))
def test_each_slot_gets_its_share_of_each_topic(topic: str, count: int, slots: int) -> None:
    sizes = [len(share) for share in spread(sources(topic, count), slots)]
    assert len(sizes) == min(count, slots)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("configured", "count", "cores", "slots"),
    [(None, 10, 4, 4), (None, 3, 4, 3), (2, 10, 4, 2), (8, 3, 1, 1), (8, 3, 9, 3), (None, 0, 4, 1), (5, 0, 4, 1)],
)
def test_slots_as_configured_else_free_cores_never_more_than_partitions(
    tmp_path: Path, configured: int | None, count: int, cores: int, slots: int
) -> None:
    for sections in ({"configuration": {"partitionParallelism": configured}}, {"spark": {"slots": configured}}):
        pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], **(sections if configured else {}))
        assert slots_for(pipeline, count, cores) == slots
    if not configured:
        pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], spark={"slots": "auto"})
        assert slots_for(pipeline, count, cores) == slots


@pytest.mark.parametrize(
    ("sink", "partition", "answer"),
    [
        ("source", "source", True),
        ({"prefix": "x."}, "source", True),
        ("source", "producer", False),
        ({"static": "all"}, "source", False),
        ({"staticMapping": {"a": "x", "b": "y"}}, "source", True),
        ({"staticMapping": {"a": "x", ".*": "x"}}, "source", False),
    ],
)
def test_one_to_one_is_told_by_the_routing(tmp_path: Path, sink: object, partition: str, answer: bool) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["a", "b"], sink=sink, partition=partition)
    assert is_one_to_one(pipeline, ["a", "b"]) is answer


def test_a_topic_without_a_target_feeds_nothing(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ".*", sink={"staticMapping": {"a": "x"}})
    assert is_one_to_one(pipeline, ["a", "b"])
