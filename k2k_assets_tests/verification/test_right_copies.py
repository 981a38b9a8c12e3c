"""Right copies on two real clusters pass every check, whatever happened to the topic, or to the settings, meanwhile.

Each kind has a topic of its own; one evaluation judges all, because that costs seconds of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers.kafka import (
    Record,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    set_config,
)
from k2k_assets_tests.verification.world import NOW, RECORDS, World, noted, noted_alone, without_headers, worlds

pytestmark = [pytest.mark.integration, pytest.mark.spark]

EQUAL, NOT_COMPARABLE, UNMAPPED = "equal", "not_comparable", "unmapped_on_target"


def a_true_copy(world: World) -> dict[str, int]:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    return {EQUAL: 10}


def a_hole_over_aborted_records_and_markers(world: World) -> dict[str, int]:
    world.source(RECORDS[:3])
    produce(world.clusters.source_servers, world.topic, [b"never"] * 2, partition=0, abort=True)
    # The abort's marker may be written before or after these.
    later = world.source(RECORDS[3:5])
    world.target(RECORDS[:5])
    world.mapped((0, 0, 3), *((offset, 3 + i, 1) for i, offset in enumerate(later)), end=later[-1] + 1)
    return {EQUAL: 5}


# -- settings of the copy ---------------------------------------------------------------------------------------


def copied_under_other_settings(world: World) -> dict[str, int]:
    before = noted(world, replace(CopySettings.of(world.hand.pipeline), headers=False, timestamps=False))
    world.source()
    later = [record._replace(timestamp=NOW + 99) for record in RECORDS[:5]]
    world.target([*without_headers(later), *RECORDS[5:]])
    world.hand.mapping(world.topic, (0, 5), [(0, 0, 5)], settings=before)
    world.hand.mapping(world.topic, (5, 10), [(5, 5, 5)])
    world.hand.commit(world.topic, 10)
    return {EQUAL: 10}


def aborted_on_the_source_but_read_uncommitted(world: World) -> dict[str, int]:
    uncommitted = noted(world, replace(CopySettings.of(world.hand.pipeline), isolation="read_uncommitted"))
    produce(world.clusters.source_servers, world.topic, RECORDS[:2], partition=0, abort=True)
    world.source(RECORDS[2:3])
    world.target(RECORDS[:3])
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 2), (3, 2, 1)], settings=uncommitted)
    world.hand.commit(world.topic, 4)
    return {EQUAL: 3}


def what_an_older_release_may_have_read_uncommitted(world: World) -> dict[str, int]:
    produce(world.clusters.source_servers, world.topic, RECORDS[:2], partition=0, abort=True)
    world.source(RECORDS[2:3])
    world.target(RECORDS[:3])
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 2), (3, 2, 1)], noted=False)
    world.hand.commit(world.topic, 4)
    return {EQUAL: 1, NOT_COMPARABLE: 2}


def settings_that_nobody_knows_any_more(world: World) -> dict[str, int]:
    world.source()
    world.target([RECORDS[9], *RECORDS[1:]])
    forgotten = replace(CopySettings.of(world.hand.pipeline), isolation="read_uncommitted", timestamps=False)
    world.hand.mapping(world.topic, (0, 5), [(0, 0, 5)], settings=forgotten)
    world.hand.mapping(world.topic, (5, 10), [(5, 5, 5)])
    world.hand.commit(world.topic, 10)
    return {EQUAL: 5, NOT_COMPARABLE: 5}


def a_timestamp_that_the_target_set(world: World) -> dict[str, int]:
    """It is not compared, also after the topic was changed back."""
    set_config(world.clusters.target_servers, world.topic, "message.timestamp.type", "LogAppendTime")
    world.source()
    world.target(RECORDS[:5])
    set_config(world.clusters.target_servers, world.topic, "message.timestamp.type", "CreateTime")
    world.target(RECORDS[5:])
    world.mapped((0, 0, 10))
    return {EQUAL: 10}


# -- records that nothing is mapped to --------------------------------------------------------------------------


def second_copies_where_they_may_be_there(world: World) -> dict[str, int]:
    """At least once."""
    world.source()
    world.target([*RECORDS[:5], RECORDS[4], *RECORDS[5:]])
    world.mapped((0, 0, 5), (5, 6, 5))
    return {EQUAL: 10, UNMAPPED: 1}


def what_lies_where_a_position_was_set_by_hand(world: World) -> dict[str, int]:
    """Once it was set back, so the former copies lie there; once a stranger's record was accepted."""
    alone = noted_alone(world)
    world.source()
    stranger = Record(b"k", b"of a stranger", [], NOW)
    world.target([*RECORDS[:6], *RECORDS[4:8], stranger, *RECORDS[8:]])
    world.hand.mapping(world.topic, (0, 6), [(0, 0, 6)], settings=alone)
    world.hand.override(world.topic, 4)
    world.hand.mapping(world.topic, (4, 8), [(4, 6, 4)], settings=alone)
    world.hand.override(world.topic, 8)
    world.hand.mapping(world.topic, (8, 10), [(8, 11, 2)], settings=alone)
    world.hand.commit(world.topic, 10)
    return {EQUAL: 10}


def a_stranger_where_a_former_topic_had_a_copy(world: World) -> dict[str, int]:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_topic(world.clusters.target_servers, world.topic)
    create_topic(world.clusters.target_servers, world.topic)
    later = [record._replace(timestamp=NOW + n) for n, record in enumerate(RECORDS)]
    world.source(later)
    world.target([*later[:5], Record(b"of", b"a stranger", [], NOW), *later[5:]])
    world.hand.mapping(world.topic, (10, 20), [(10, 0, 5), (15, 6, 5)], generation=2)
    world.hand.commit(world.topic, 20, records=10)
    return {EQUAL: 10, NOT_COMPARABLE: 10, UNMAPPED: 1}


# -- records that are gone --------------------------------------------------------------------------------------


def what_retention_took(world: World) -> dict[str, int]:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_records(world.clusters.target_servers, world.topic, 0, 4)
    return {EQUAL: 6, NOT_COMPARABLE: 4}


def what_compaction_may_have_taken(world: World) -> dict[str, int]:
    """The offset exists, the record does not."""
    set_config(world.clusters.target_servers, world.topic, "cleanup.policy", "compact")
    world.source(RECORDS[:3])
    produce(world.clusters.target_servers, world.topic, [RECORDS[0]], partition=0)
    produce(world.clusters.target_servers, world.topic, [(b"k", b"gone")], partition=0, abort=True)
    (last,) = world.target([RECORDS[2]])
    world.mapped((0, 0, 2), (2, last, 1), end=3)
    return {EQUAL: 2, NOT_COMPARABLE: 1}


def a_topic_that_was_retired_on_both_sides(world: World) -> dict[str, int]:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    for servers in (world.clusters.source_servers, world.clusters.target_servers):
        delete_topic(servers, world.topic)
    return {}


KINDS: list[Callable[[World], dict[str, int]]] = [
    a_true_copy,
    a_hole_over_aborted_records_and_markers,
    copied_under_other_settings,
    aborted_on_the_source_but_read_uncommitted,
    what_an_older_release_may_have_read_uncommitted,
    settings_that_nobody_knows_any_more,
    a_timestamp_that_the_target_set,
    second_copies_where_they_may_be_there,
    what_lies_where_a_position_was_set_by_hand,
    a_stranger_where_a_former_topic_had_a_copy,
    what_retention_took,
    what_compaction_may_have_taken,
    a_topic_that_was_retired_on_both_sides,
]


def test_each_kind_passes_every_check(clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path) -> None:
    made = worlds(clusters, spark, tmp_path, [kind.__name__ for kind in KINDS])
    expected: Counter[str] = Counter()
    for kind, world in zip(KINDS, made, strict=True):
        expected.update(kind(world))

    verdicts = made[0].verdicts(*CHECKS)

    assert {name: v.summary for name, v in verdicts.items() if not v.passed} == {}
    content, watermarks = verdicts["content"], verdicts["within_watermarks"]
    assert {name: content.counts[name] for name in expected} == expected
    assert "5 were copied under settings that are not known any more" in content.summary
    assert "2 records lie between copies on the target without being mapped" in content.summary
    assert watermarks.counts["of_former_topics"] == 2
    assert watermarks.counts["partly_expired"] == 1
