"""Where replicas are moved to."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.topics.reassignment import reassignment


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, list[list[int]]], list[int]]:
    brokers = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6, unique=True))
    partition = st.lists(st.sampled_from(brokers), min_size=1, unique=True)
    replicas = draw(st.dictionaries(st.sampled_from("abc"), st.lists(partition, min_size=1, max_size=5)))
    return {name: draw(st.integers(1, len(brokers))) for name in replicas}, replicas, brokers


@given(clusters())
def test_each_partition_gets_its_replicas_and_moves_no_more_than_that(
    cluster: tuple[dict[str, int], dict[str, list[list[int]]], list[int]],
) -> None:
    factors, replicas, brokers = cluster
    moved = {
        (p["topic"], p["partition"]): p["replicas"] for p in reassignment(factors, replicas, brokers)["partitions"]
    }
    for topic, partitions in replicas.items():
        for number, has in enumerate(partitions):
            now = moved.get((topic, number), has)
            assert len(now) == len(set(now)) == factors[topic]
            assert set(now) <= set(brokers)
            kept = min(len(has), factors[topic])
            assert now[:kept] == has[:kept]


def test_new_replicas_are_spread() -> None:
    document = reassignment({"t": 2}, {"t": [[1]] * 6}, [1, 2, 3])
    assert Counter(p["replicas"][1] for p in document["partitions"]) == {2: 3, 3: 3}
    assert document["version"] == 1
