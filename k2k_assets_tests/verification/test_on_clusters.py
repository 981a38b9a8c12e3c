"""The checks on two real clusters: right copies pass, and each kind of wrong copy fails its check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.assignment_records import settings_key, settings_value
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.kafka import (
    OpenTransaction,
    Record,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    set_config,
    unique,
)
from k2k_assets_tests.support.copies.hand_copy import hand_copy
from k2k_assets_tests.support.suite.storms import in_storms
from k2k_assets_tests.verification.world import NOW, RECORDS, World

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.mark.slow
def test_a_true_copy_passes_every_check(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    verdicts = world.verdicts(*CHECKS)
    assert {name: v.summary for name, v in verdicts.items() if not v.passed} == {}
    assert verdicts["content"].counts["equal"] == 10


def test_a_swapped_pair_fails_the_content_check(world: World) -> None:
    world.source()
    world.target([*RECORDS[:4], RECORDS[5], RECORDS[4], *RECORDS[6:]])
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.FAILED
    assert [(o.source_offset, o.target_offset) for o in verdict.offenders] == [(4, 4), (5, 5)]
    assert "differs in content" in verdict.summary


def test_a_missing_record_that_the_mapping_hides_fails_the_content_check(world: World) -> None:
    world.source()
    world.target([*RECORDS[:4], *RECORDS[5:]])
    world.mapped((0, 0, 4), (5, 4, 5))
    verdicts = world.verdicts("content", "coverage", "ordered_and_disjoint")
    assert verdicts["coverage"].passed, "it is covered, but as a hole that is not proven"
    assert verdicts["content"].judgement is Judgement.FAILED
    (offender,) = verdicts["content"].offenders
    assert (offender.source_offset, offender.target_offset) == (4, None)
    assert "was not copied" in offender.what


@pytest.mark.slow
def test_a_missing_record_that_the_mapping_does_not_know_fails_the_content_check(world: World) -> None:
    world.source()
    world.target([*RECORDS[:4], *RECORDS[5:], RECORDS[9]])
    world.mapped((0, 0, 10))
    assert [o.source_offset for o in world.verdict("content").offenders] == [4, 5, 6, 7, 8]


@pytest.mark.slow
def test_a_hole_over_aborted_records_and_markers_is_proven(world: World) -> None:
    world.source(RECORDS[:3])
    produce(world.clusters.source_servers, world.topic, [b"never"] * 2, partition=0, abort=True)
    # The abort's marker may be written before or after these.
    later = world.source(RECORDS[3:5])
    world.target(RECORDS[:5])
    world.mapped((0, 0, 3), *((offset, 3 + i, 1) for i, offset in enumerate(later)), end=later[-1] + 1)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert verdict.counts["equal"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"value": None}, "null and empty"),
        *in_storms(
            ({"key": b"other"}, "key"),
            ({"headers": [("h", b"1"), ("h", b"1")]}, "headers"),
            ({"timestamp": 1}, "timestamp"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_part_of_a_record_counts(world: World, change: dict[str, Any], field: str) -> None:
    world.source([RECORDS[1]._replace(value=b"")])
    world.target([RECORDS[1]._replace(**{"value": b"", **change})])
    world.mapped((0, 0, 1), end=1)
    assert world.verdict("content").judgement is Judgement.FAILED


# -- settings of the copy ---------------------------------------------------------------------------------------


def _without_headers(records: list[Record]) -> list[Record]:
    return [record._replace(headers=None) for record in records]


def _noted(world: World, settings: CopySettings) -> None:
    """As the driver writes it that copied under these settings."""
    pipeline = world.hand.pipeline
    write_record(pipeline, settings_key(pipeline.group, settings.fingerprint), settings_value(settings))


@pytest.mark.slow
def test_a_copy_is_judged_by_the_settings_under_which_it_was_made(world: World) -> None:
    today = CopySettings.of(world.hand.pipeline)
    before = replace(today, headers=False, timestamps=False)
    _noted(world, before)
    world.source()
    later = [record._replace(timestamp=NOW + 99) for record in RECORDS[:5]]
    world.target([*_without_headers(later), *RECORDS[5:]])
    world.hand.mapping(world.topic, (0, 5), [(0, 0, 5)], settings=before)
    world.hand.mapping(world.topic, (5, 10), [(5, 5, 5)])
    world.hand.commit(world.topic, 10)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert verdict.counts["equal"] == 10


@pytest.mark.slow
def test_what_was_aborted_on_the_source_belongs_to_a_copy_that_read_uncommitted(world: World) -> None:
    uncommitted = replace(CopySettings.of(world.hand.pipeline), isolation="read_uncommitted")
    _noted(world, uncommitted)
    produce(world.clusters.source_servers, world.topic, RECORDS[:2], partition=0, abort=True)
    world.source(RECORDS[2:3])
    world.target(RECORDS[:3])
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 2), (3, 2, 1)], settings=uncommitted)
    world.hand.commit(world.topic, 4)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert verdict.counts["equal"] == 3


@pytest.mark.slow
def test_what_other_settings_explain_is_not_comparable_where_none_were_noted(world: World) -> None:
    world.source()
    world.target([*_without_headers(RECORDS[:5]), *RECORDS[5:9], RECORDS[0]])
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 10)], noted=False)
    world.hand.commit(world.topic, 10)
    verdict = world.verdict("content")
    assert (verdict.counts["equal"], verdict.counts["not_comparable"]) == (4, 5)
    assert [offender.source_offset for offender in verdict.offenders] == [9], "another value is another record"


def test_what_an_older_release_may_have_read_uncommitted_is_not_comparable(world: World) -> None:
    produce(world.clusters.source_servers, world.topic, RECORDS[:2], partition=0, abort=True)
    world.source(RECORDS[2:3])
    world.target(RECORDS[:3])
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 2), (3, 2, 1)], noted=False)
    world.hand.commit(world.topic, 4)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert (verdict.counts["equal"], verdict.counts["not_comparable"]) == (1, 2)


def test_settings_that_nobody_knows_any_more_are_said_to_be_so(world: World) -> None:
    world.source()
    world.target([RECORDS[9], *RECORDS[1:]])
    forgotten = replace(CopySettings.of(world.hand.pipeline), isolation="read_uncommitted")
    world.hand.mapping(world.topic, (0, 5), [(0, 0, 5)], settings=forgotten)
    world.hand.mapping(world.topic, (5, 10), [(5, 5, 5)])
    world.hand.commit(world.topic, 10)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert (verdict.counts["equal"], verdict.counts["not_comparable"]) == (5, 5)
    assert "5 were copied under settings that are not known any more" in verdict.summary


def test_a_timestamp_that_the_target_sets_is_not_compared_after_the_topic_was_changed(world: World) -> None:
    set_config(world.clusters.target_servers, world.topic, "message.timestamp.type", "LogAppendTime")
    world.source()
    world.target(RECORDS[:5])
    set_config(world.clusters.target_servers, world.topic, "message.timestamp.type", "CreateTime")
    world.target(RECORDS[5:])
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert verdict.counts["equal"] == 10


# -- records that nothing is mapped to --------------------------------------------------------------------------


def _alone(world: World) -> CopySettings:
    settings = replace(CopySettings.of(world.hand.pipeline), alone=True)
    _noted(world, settings)
    return settings


@pytest.mark.slow
def test_a_doubled_record_between_two_copies_fails(world: World) -> None:
    alone = _alone(world)
    world.source()
    world.target([*RECORDS[:5], RECORDS[4], *RECORDS[5:]])
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 5), (5, 6, 5)], settings=alone)
    world.hand.commit(world.topic, 10)
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.FAILED
    (offender,) = verdict.offenders
    assert (offender.topic, offender.target_offset, offender.source_offset) == (world.topic, 5, None)
    assert "no source record is mapped to it" in verdict.summary


def test_second_copies_are_counted_where_they_may_be_there(world: World) -> None:
    world.source()
    world.target([*RECORDS[:5], RECORDS[4], *RECORDS[5:]])
    world.mapped((0, 0, 5), (5, 6, 5))
    verdict = world.verdict("content")
    assert verdict.passed, "at least once"
    assert verdict.counts["unmapped_on_target"] == 1
    assert "1 record lies between copies on the target without being mapped" in verdict.summary


def test_what_lies_where_a_position_was_set_by_hand_is_no_fault(world: World) -> None:
    """Once it was set back, so the former copies lie there; once a stranger's record was accepted."""
    alone = _alone(world)
    world.source()
    stranger = Record(b"k", b"of a stranger", [], NOW)
    world.target([*RECORDS[:6], *RECORDS[4:8], stranger, *RECORDS[8:]])
    world.hand.mapping(world.topic, (0, 6), [(0, 0, 6)], settings=alone)
    world.hand.override(world.topic, 4)
    world.hand.mapping(world.topic, (4, 8), [(4, 6, 4)], settings=alone)
    world.hand.override(world.topic, 8)
    world.hand.mapping(world.topic, (8, 10), [(8, 11, 2)], settings=alone)
    world.hand.commit(world.topic, 10)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert (verdict.counts["equal"], verdict.counts["unmapped_on_target"]) == (10, 0)


def test_what_cannot_be_compared_in_time_is_left_for_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k2k_assets.verification.content.check.SECONDS", 0.0)
    monkeypatch.setattr("k2k_assets.verification.content.comparison._PIECES_PER_ROUND", 1)
    for servers in (world.clusters.source_servers, world.clusters.target_servers):
        add_partitions(servers, world.topic, 2)
        produce(servers, world.topic, RECORDS, partition=1)
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    world.hand.mapping(world.topic, (0, 10), [(0, 0, 10)], partition=1)
    verdict = world.verdict("content")
    assert verdict.passed
    assert (verdict.counts["equal"], verdict.counts["partitions"], verdict.counts["not_looked_at"]) == (10, 1, 1)
    assert "1 of 2 partitions were not looked at this time" in verdict.summary


def test_a_mapping_of_wrong_target_offsets_fails(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 1, 9), (9, 10, 1))
    verdicts = world.verdicts("content", "within_watermarks")
    assert verdicts["content"].judgement is Judgement.FAILED
    assert verdicts["within_watermarks"].judgement is Judgement.FAILED
    assert "mapped up to 11, but its high watermark is 10" in verdicts["within_watermarks"].summary
    beyond = [o for o in verdicts["content"].offenders if "high watermark" in o.what]
    assert [(o.source_offset, o.target_offset) for o in beyond] == [(9, 10)]


def test_overlapping_runs_fail_the_order_check(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 6), (6, 3, 4))
    assert world.verdict("ordered_and_disjoint").judgement is Judgement.FAILED


def test_a_lost_mapping_record_fails_the_coverage_check(world: World) -> None:
    world.source()
    world.target()
    world.hand.mapping(world.topic, (0, 4), [(0, 0, 4)])
    world.hand.mapping(world.topic, (6, 10), [(6, 6, 4)])
    world.hand.commit(world.topic, 10, records=10)
    verdict = world.verdict("coverage")
    assert verdict.judgement is Judgement.FAILED
    assert "no mapping from 4 to 6" in verdict.summary


def test_what_is_copied_uncommitted_is_compared_uncommitted(
    clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """At least once a source may be read uncommitted: what a transaction holds open there is no fault of the copy."""
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    consumer = {"group.id": unique("uncommitted"), "isolation.level": "read_uncommitted"}
    world = World(clusters, topic, hand_copy(clusters, tmp_path, topic, consumer=consumer), spark)
    world.source(RECORDS[:6])
    world.target()
    held_open = OpenTransaction(clusters.source_servers, topic, RECORDS[6:])
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    held_open.commit()
    assert verdict.judgement is Judgement.PASSED, verdict
    assert verdict.counts["equal"] == 10


@pytest.mark.slow
def test_what_retention_took_is_not_comparable(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_records(world.clusters.target_servers, world.topic, 0, 4)
    verdicts = world.verdicts("content", "within_watermarks")
    assert verdicts["content"].passed
    assert (verdicts["content"].counts["equal"], verdicts["content"].counts["not_comparable"]) == (6, 4)
    assert verdicts["within_watermarks"].counts["partly_expired"] == 1
    delete_records(world.clusters.target_servers, world.topic, 0, 10)
    assert world.verdict("content").judgement is Judgement.WARNED


def test_nothing_left_on_the_source_is_a_doubt(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_records(world.clusters.source_servers, world.topic, 0, 10)
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.WARNED
    assert "nothing could be compared" in verdict.summary


@pytest.mark.parametrize("world", [{"cleanup.policy": "compact"}], indirect=True)
def test_a_record_that_compaction_may_have_taken_is_not_comparable(world: World) -> None:
    world.source(RECORDS[:3])
    # As after compaction: the offset exists, the record does not.
    produce(world.clusters.target_servers, world.topic, [RECORDS[0]], partition=0)
    produce(world.clusters.target_servers, world.topic, [(b"k", b"gone")], partition=0, abort=True)
    (last,) = world.target([RECORDS[2]])
    world.mapped((0, 0, 2), (2, last, 1), end=3)
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert (verdict.counts["equal"], verdict.counts["not_comparable"]) == (2, 1)


def test_a_mapped_offset_without_a_record_fails_where_nothing_compacts(world: World) -> None:
    world.source(RECORDS[:2])
    produce(world.clusters.target_servers, world.topic, [RECORDS[0]], partition=0)
    produce(world.clusters.target_servers, world.topic, [RECORDS[1]], partition=0, abort=True)
    world.mapped((0, 0, 2), end=2)
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.FAILED
    assert "no such record on the target" in verdict.summary


def test_a_deleted_target_topic_is_named(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    delete_topic(world.clusters.target_servers, world.topic)
    verdicts = world.verdicts("content", "within_watermarks")
    assert verdicts["within_watermarks"].judgement is Judgement.FAILED
    assert "does not exist on the target" in verdicts["within_watermarks"].summary
    assert verdicts["content"].judgement is Judgement.WARNED


def test_a_stranger_is_counted_where_a_former_topic_had_a_copy(world: World) -> None:
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
    verdict = world.verdict("content")
    assert verdict.counts["unmapped_on_target"] == 1, verdict


def test_a_topic_that_was_retired_on_both_sides_is_none_of_todays(world: World) -> None:
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    for servers in (world.clusters.source_servers, world.clusters.target_servers):
        delete_topic(servers, world.topic)
    verdict = world.verdict("within_watermarks")
    assert verdict.passed, verdict.summary
    assert verdict.counts["of_former_topics"] == 1


def test_the_first_run_of_a_pipeline_without_data_passes(world: World) -> None:
    verdicts = world.verdicts(*CHECKS)
    assert {name: v.summary for name, v in verdicts.items() if not v.passed} == {}
