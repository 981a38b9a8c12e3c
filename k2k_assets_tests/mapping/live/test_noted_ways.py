"""What mapping records say of pipelines that copy both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k2k_assets.control.mapping_records import BothWays, DroppedBy, MappingRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.noted_ways import NotedWays, is_exactly_once
from k2k_assets_tests.support.memory.plans import commit_record

SOURCE = SourcePartition("c", "t", "id", 0)
RECORD = MappingRecord(
    group="g", topic="t", partition=0, pipeline="p", cluster="c", source_topic_id="id", generation=1, slot=0,
    sequence=1, time=0, covered_from=0, covered_to=1, targets=(),
)  # fmt: skip
ONCE, TWICE = BothWays("pipeline", True, True), BothWays("pipeline", True, False)


def noted(*records: MappingRecord) -> frozenset[BothWays | None]:
    ways = NotedWays()
    for record in records:
        ways.note(SOURCE, record)
    return ways.of("g", SOURCE)


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ((ONCE,), True),
        ((ONCE, ONCE), True),
        ((TWICE,), False),
        ((ONCE, TWICE, ONCE), False),  # what was copied at least once lies there still
        ((ONCE, None), False),  # nobody knows
        ((None,), False),
        ((), False),
    ],
)
def test_exactly_once_is_what_all_records_say(ways: tuple[BothWays | None, ...], expected: bool) -> None:
    found = noted(*(replace(RECORD, both_ways=way) for way in ways))
    assert found == frozenset(ways)
    assert is_exactly_once(found, None) is expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [({}, True), ({"at_least_once": True}, False), ({"at_least_once_below": 0}, False)],
)
def test_a_commit_record_tells_before_any_mapping_record_does(said: dict[str, Any], expected: bool) -> None:
    """What was sent at least once, and is not mapped yet, would count as mapped: groups would pass it."""
    newest = commit_record(TopicPartition("t", 0), 1, **said)
    assert is_exactly_once(noted(replace(RECORD, both_ways=ONCE)), newest) is expected


def test_who_leaves_out_echoes_copies_both_ways_even_where_nothing_is_noted() -> None:
    assert noted(replace(RECORD, dropped=(DroppedBy("marker", ((0, 1),)),))) == {TWICE}
    assert noted(replace(RECORD, dropped=(DroppedBy("no tests", ((0, 1),)),))) == {None}


def test_an_override_has_copied_nothing_and_other_pipelines_do_not_count() -> None:
    assert noted(replace(RECORD, override="anna"), replace(RECORD, group="another")) == frozenset()
    assert is_exactly_once(noted(replace(RECORD, override="anna"), replace(RECORD, both_ways=ONCE)), None)
