"""Which pipeline's mappings count where a mapper knows no `group.id`, in whatever order records are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.mapping.algebra.in_memory_mapping import NotInMemory, Placed
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets_tests.support.memory.mapping_topic import CLUSTERS, mapping_record

SOURCE = SourcePartition(CLUSTERS[0], "s", "sid", 0)


def written(group: str, times: Sequence[int]) -> list[tuple[str, Placed]]:
    """Records of one pipeline, which copies five source offsets with each."""
    return [
        (
            group,
            Placed(0, n, mapping_record((1, n), (5 * n, 5 * n + 5), [(5 * n, 100 + 5 * n, 5)], time=time, group=group)),
        )
        for n, time in enumerate(times)
    ]


def read(records: Sequence[tuple[str, Placed]]) -> InMemoryMappings:
    held = InMemoryMappings(ANY_GROUP, mark_every=1)
    held.begin_anew({})
    for group, placed in records:
        held.take({(group, SOURCE): [placed]})
    return held


@pytest.mark.parametrize(
    ("copied", "owner"),
    [
        ({"a": [1, 2, 3]}, "a"),
        ({"a": [1, 2, 3], "b": [4, 5]}, "b"),
        ({"b": [1, 2, 3], "a": [4, 5]}, "a"),
        ({"a": [1, 2, 4], "b": [3, 5]}, "a"),
        ({"a": [1, 2], "b": [2, 5]}, "a"),
        ({"a": [1, 2], "b": [3, 6], "c": [5, 9]}, "b"),
        ({"a": [1, 2], "b": [3, 6], "c": [7]}, "c"),
        ({"a": [1, 9], "b": [3, 6], "c": [7]}, "a"),
    ],
)
def test_of_pipelines_that_followed_each_other_the_last_one_counts(copied: dict[str, list[int]], owner: str) -> None:
    records = [record for group, times in copied.items() for record in written(group, times)]
    held = read(records)
    assert held.group_of(SOURCE) == owner
    assert held.held(SOURCE).covered_end == 5 * len(copied[owner])
    assert held.others_of(SOURCE).keys() == copied.keys() - {owner}


def test_a_pipeline_into_another_topic_did_not_follow() -> None:
    """The partition was idle when the second one began, so the times of their records say nothing."""
    beside = []
    for group, placed in written("b", [5, 6]):
        (target,) = placed.record.targets
        record = replace(placed.record, targets=(structs.replace(target, topic_id="elsewhere"),))
        beside.append((group, placed._replace(record=record)))
    assert read([*written("a", [1, 2]), *beside]).group_of(SOURCE) == "a"
    assert read([*beside, *written("a", [1, 2]), *written("c", [7])]).group_of(SOURCE) == "c"


@given(st.data(), st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_order_of_reading_does_not_matter(data: st.DataObject, times: list[list[int]]) -> None:
    groups = {name: written(name, sorted(of_one)) for name, of_one in zip("abc", times, strict=False)}
    one_by_one = [record for records in groups.values() for record in records]
    mixed, left = [], {name: list(records) for name, records in groups.items()}
    while any(left.values()):
        mixed.append(left[data.draw(st.sampled_from([name for name, records in left.items() if records]))].pop(0))
    first, second = read(one_by_one), read(mixed)
    assert first.group_of(SOURCE) == second.group_of(SOURCE)
    assert first.alone(SOURCE) == second.alone(SOURCE)
    assert first.others_of(SOURCE) == second.others_of(SOURCE)


def test_mappings_that_count_now_and_are_not_whole_are_read_anew() -> None:
    """A record of the second pipeline came out of order while the first one's counted: what there was of it is gone."""
    a, b = written("a", [1, 2]), written("b", [3, 5, 8])
    held = read([*a, b[1]])
    assert held.group_of(SOURCE) == "b"
    held = read([a[0], *written("b", [1])])
    held.take({("b", SOURCE): [Placed(0, 0, mapping_record((0, 0), (0, 5), group="b", time=1))]})
    assert held.others_of(SOURCE) == {}
    with pytest.raises(NotInMemory, match="not whole in memory"):
        held.take({("b", SOURCE): [b[2][1]]})
