"""Wrong copies on two real clusters: each kind of fault fails the check that is there for it, and is named.

Each fault has a topic of its own; one evaluation judges all, because that costs seconds of Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.kafka import delete_topic, produce
from k2k_assets_tests.verification.world import NOW, RECORDS, World, noted_alone, without_headers, worlds

pytestmark = [pytest.mark.integration, pytest.mark.spark]

Found = set[tuple[int | None, int | None, str]]
"""Source offset, target offset and words, as an offender has them."""

DIFFERS, MISSING, EMPTY = "differs in content", "was not copied", "no such record on the target"
UNMAPPED, BEYOND = "no source record is mapped to it", "high watermark"
KINDS = (DIFFERS, MISSING, EMPTY, UNMAPPED, BEYOND)


def a_swapped_pair(world: World) -> Found:
    world.source()
    world.target([*RECORDS[:4], RECORDS[5], RECORDS[4], *RECORDS[6:]])
    world.mapped((0, 0, 10))
    return {(4, 4, DIFFERS), (5, 5, DIFFERS)}


def a_missing_record_that_the_mapping_hides(world: World) -> Found:
    """It is covered, but as a hole that is not proven."""
    world.source()
    world.target([*RECORDS[:4], *RECORDS[5:]])
    world.mapped((0, 0, 4), (5, 4, 5))
    return {(4, None, MISSING)}


def a_missing_record_that_the_mapping_does_not_know(world: World) -> Found:
    world.source()
    world.target([*RECORDS[:8], RECORDS[9], RECORDS[9]])
    world.mapped((0, 0, 10))
    return {(8, 8, DIFFERS)}


def each_part_of_a_record(world: World) -> Found:
    changes: list[dict[str, Any]] = [
        {"value": None},
        {"key": b"other"},
        {"headers": [("h", b"1"), ("h", b"1")]},
        {"timestamp": NOW + 99},
    ]
    record = RECORDS[1]._replace(value=b"")
    world.source([record] * len(changes))
    world.target([record._replace(**change) for change in changes])
    world.mapped((0, 0, len(changes)), end=len(changes))
    return {(n, n, DIFFERS) for n in range(len(changes))}


def what_no_setting_explains(world: World) -> Found:
    """Another value is another record, under whichever settings it was copied; without headers it may be the same."""
    world.source()
    world.target([*without_headers(RECORDS[:5]), *RECORDS[5:9], RECORDS[0]])
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 10)], noted=False)
    world.hand.commit(world.topic, 10)
    return {(9, 9, DIFFERS)}


def a_doubled_record_between_two_copies(world: World) -> Found:
    alone = noted_alone(world)
    world.source()
    world.target([*RECORDS[:5], RECORDS[4], *RECORDS[5:]])
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 5), (5, 6, 5)], settings=alone)
    world.hand.commit(world.topic, 10)
    return {(None, 5, UNMAPPED)}


def a_mapped_offset_without_a_record(world: World) -> Found:
    """Nothing compacts this topic."""
    world.source(RECORDS[:2])
    produce(world.clusters.target_servers, world.topic, [RECORDS[0]], partition=0)
    produce(world.clusters.target_servers, world.topic, [RECORDS[1]], partition=0, abort=True)
    world.mapped((0, 0, 2), end=2)
    return {(1, 1, EMPTY)}


def target_offsets_that_are_not_there(world: World) -> Found:
    world.source(RECORDS[:2])
    world.target(RECORDS[:2])
    world.mapped((0, 0, 1), (1, 2, 1), end=2)
    return {(1, 2, BEYOND)}


def overlapping_runs(world: World) -> Found:
    world.source(RECORDS[:3])
    world.target(RECORDS[:3])
    world.mapped((0, 0, 2), (2, 1, 1), end=3)
    return {(2, 1, DIFFERS)}


def a_lost_mapping_record(world: World) -> Found:
    world.source()
    world.target()
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 4)])
    world.hand.mapping(world.topic, (6, 10), [(6, 6, 4)])
    world.hand.commit(world.topic, 10, records=10)
    return set()


def a_deleted_target_topic(world: World) -> Found:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_topic(world.clusters.target_servers, world.topic)
    return set()


FAULTS: list[Callable[[World], Found]] = [
    a_swapped_pair,
    a_missing_record_that_the_mapping_hides,
    a_missing_record_that_the_mapping_does_not_know,
    each_part_of_a_record,
    what_no_setting_explains,
    a_doubled_record_between_two_copies,
    a_mapped_offset_without_a_record,
    target_offsets_that_are_not_there,
    overlapping_runs,
    a_lost_mapping_record,
    a_deleted_target_topic,
]


def test_each_fault_fails_its_checks_and_no_other(clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path) -> None:
    names = [fault.__name__ for fault in FAULTS]
    made = dict(zip(names, worlds(clusters, spark, tmp_path, names), strict=True))
    expected = {name: fault(made[name]) for name, fault in zip(names, FAULTS, strict=True)}
    faults = {name: found for name, found in expected.items() if found}

    verdicts = made[names[0]].verdicts(*CHECKS)

    topics = {world.topic: name for name, world in made.items()}
    assert _offenders(topics, verdicts["content"]) == faults
    without_headers_or_topic = 5 + 10
    assert verdicts["content"].counts["not_comparable"] == without_headers_or_topic
    by_check = {
        "within_watermarks": {"target_offsets_that_are_not_there", "a_deleted_target_topic"},
        "ordered_and_disjoint": {"overlapping_runs"},
        "coverage": {"a_lost_mapping_record"},
        "schema_and_ranges": set(),
    }
    for check, wrong in by_check.items():
        assert {topics[each.topic or each.target_topic or ""] for each in verdicts[check].offenders} == wrong, verdicts[
            check
        ]
        assert verdicts[check].judgement is (Judgement.FAILED if wrong else Judgement.PASSED)
    said = " ".join(each.what for check in by_check for each in verdicts[check].offenders)
    assert "no mapping from 4 to 6" in said
    assert "mapped up to 3, but its high watermark is 2" in said
    assert "does not exist on the target" in said


def _offenders(topics: dict[str, str], verdict: Verdict) -> dict[str, Found]:
    """The offenders of each fault, with the words that tell of which kind they are."""
    found: dict[str, Found] = defaultdict(set)
    for each in verdict.offenders:
        said = next((words for words in KINDS if words in each.what), each.what)
        found[topics[each.topic or each.target_topic or ""]].add((each.source_offset, each.target_offset, said))
    return dict(found)
