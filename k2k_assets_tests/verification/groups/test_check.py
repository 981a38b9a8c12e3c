"""The check on consumer groups on real clusters: right translations pass, and a mapping that is off by one fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.assets.groups.group_sync import limited_to
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.groups import check
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.groups import commit, delete_group
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, delete_records, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

NOW = int(time.time() * 1000) - 60_000
RECORDS = [Record(b"k%d" % i, b"v%d" % i, [("h", b"%d" % i)], NOW + i) for i in range(10)]


def _pipeline(clusters: KafkaSandbox, directory: Path, topics: list[str], **settings: Any) -> Pipeline:
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        features={"offsetMapping": "enabled", "headerReplication": "enabled", **settings.pop("features", {})},
        index={"path": str(directory / "index")},
        **settings,
    )


def _moved(pipeline: Pipeline, source: str, groups: Mapping[str, Mapping[TopicPartition, int]]) -> dict[str, Verdict]:
    for group, offsets in groups.items():
        commit(source, group, offsets)
    result = sync_once(limited_to(pipeline, groups))
    assert not result.failed
    with both_clusters(pipeline) as clusters:
        return check_groups(pipeline, result, *clusters)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("run", "fault"),
    [((0, 1, 9), "skipped"), ((1, 0, 9), "read_again"), ((0, 0, 10), None)],
    ids=["late", "early", "true"],
)
def test_a_mapping_that_is_off_by_one(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, run: tuple[int, int, int], fault: str | None
) -> None:
    topic = unique("off")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
        produce(servers, topic, RECORDS, partition=0)
    hand = HandCopy(_pipeline(clusters, tmp_path, [topic]))
    hand.mapping(topic, (0, 10), [run])
    hand.commit(topic, 10, records=10)
    group = unique("off")
    verdict = _moved(hand.pipeline, clusters.source_servers, {group: {TopicPartition(topic, 0): 5}})[group]
    index = update_index(spark, hand.pipeline, hand.source, hand.target)
    mapped = run_check("content", Evidence(hand.pipeline, spark, index, hand.source, hand.target))
    if fault is None:
        assert verdict.passed, verdict
        assert mapped.passed, mapped
        assert (verdict.counts["compared"], verdict.counts["records"]) == (1, 10)
        return
    assert verdict.judgement is Judgement.FAILED
    assert verdict.counts[fault] == 1
    assert verdict.counts["skipped"] + verdict.counts["read_again"] == 1
    (offender,) = verdict.offenders
    assert (offender.source_offset, offender.target_offset) == ((5, 6) if fault == "skipped" else (4, 4))
    assert mapped.judgement is Judgement.FAILED, "the check on the mappings sees it as well"


def test_who_is_not_looked_at_keeps_the_verdict(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two groups that skip a record, one is looked at in each turn; the other one has not passed."""
    monkeypatch.setattr(check, "MOST_PARTITIONS", 1)
    topic = unique("turns")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
        produce(servers, topic, RECORDS, partition=0)
    hand = HandCopy(_pipeline(clusters, tmp_path, [topic]))
    hand.mapping(topic, (0, 10), [(0, 1, 9)])
    hand.commit(topic, 10, records=10)
    groups = sorted(unique(name) for name in ("turn-a", "turn-b"))
    for group in groups:
        commit(clusters.source_servers, group, {TopicPartition(topic, 0): 5})
    result = sync_once(limited_to(hand.pipeline, groups))
    with both_clusters(hand.pipeline) as (source, target):
        for turn in range(3):
            verdicts = check_groups(hand.pipeline, result, source, target, turn=turn)
            assert {name: v.judgement for name, v in verdicts.items()} == {groups[turn % 2]: Judgement.FAILED}
        delete_group(clusters.target_servers, groups[1])
        verdicts = check_groups(hand.pipeline, result, source, target, turn=0)
        assert verdicts.keys() == set(groups), "what a group does not even hold is seen whosever turn it is"


def test_true_translations_pass_in_every_state(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Gaps of aborts and markers, both ends, ahead of the copy, what retention took, and states that are shown."""
    source, topic = clusters.source_servers, unique("true")
    create_topic(source, topic, 2)
    for turn in range(4):
        values = [b"%d" % n for n in range(turn * 60, turn * 60 + 60)]
        produce(source, topic, values, 0, unique("tx"))
        produce(source, topic, [b"never"] * 70, 0, abort=True)
        produce(source, topic, [b"p1-" + value for value in values], 1)
    pipeline = _pipeline(clusters, tmp_path, [topic], features={"exactlyOnce": "enabled"})
    copy(pipeline)
    end = produce(source, topic, [b"not copied yet"] * 3, 1)[0][1]
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    delete_records(clusters.target_servers, topic, 1, 30)
    names = [unique(name) for name in ("mid", "gap", "start", "ahead", "expired", "foreign")]
    middle, gap, start, ahead, expired, foreign = names
    commit(clusters.target_servers, foreign, {zero: 3}, "of somebody else")
    groups = {
        middle: {zero: 150, one: 100},
        gap: {zero: 100},
        start: {zero: 0},
        ahead: {one: end + 2},
        expired: {one: 12},
        foreign: {zero: 5, one: 60},
    }
    verdicts = _moved(pipeline, source, groups)
    faults = {name: v.summary for name, v in verdicts.items() if v.judgement is Judgement.FAILED}
    assert faults == {}
    assert verdicts[middle].counts["compared"] == 2
    assert verdicts[middle].counts["records"] > 100
    assert verdicts[gap].counts["state_exact"] == 1
    assert verdicts[ahead].counts["state_ahead"] == 1
    assert verdicts[expired].counts["state_expired"] == 1
    assert (verdicts[foreign].counts["state_foreign"], verdicts[foreign].counts["compared"]) == (1, 1)
    assert all(v.counts["skipped"] == v.counts["read_again"] == 0 for v in verdicts.values())


@pytest.mark.slow
def test_headers_that_were_not_copied_then_are_not_asked_for_now(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, topic = clusters.source_servers, unique("headers")
    create_topic(source, topic)
    for values, copied in ((range(60), "disabled"), (range(60, 120), "enabled")):
        produce(source, topic, [Record(b"k", b"%d" % n, [("h", b"%d" % n)]) for n in values], 0)
        pipeline = _pipeline(clusters, tmp_path, [topic], features={"headerReplication": copied})
        copy(pipeline)
    groups = {
        unique(name): {TopicPartition(topic, 0): at} for name, at in (("then", 20), ("between", 60), ("now", 100))
    }
    verdicts = _moved(pipeline, source, groups)
    assert {name: v.summary for name, v in verdicts.items() if not v.passed} == {}
    assert all(verdict.counts["records"] > 40 for verdict in verdicts.values())


@pytest.mark.slow
def test_what_the_target_group_holds_is_what_is_judged(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """A translation that is right helps nobody whose group does not hold it."""
    topic = create_topic(clusters.source_servers, unique("held"))
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(20)], 0)
    pipeline, at = _pipeline(clusters, tmp_path, [topic], features={"exactlyOnce": "enabled"}), TopicPartition(topic, 0)
    copy(pipeline)
    names = [unique(name) for name in ("right", "lost", "older", "newer", "moved")]
    right, lost, older, newer, moved = names
    for group in names:
        commit(clusters.source_servers, group, {at: 10})
    result = sync_once(limited_to(pipeline, names))
    delete_group(clusters.target_servers, lost)
    commit(clusters.target_servers, older, {at: 12}, "k2k_0.1")
    commit(clusters.target_servers, newer, {at: 13}, f"k2k_{result.version.generation}.{result.version.poll + 1}")
    commit(clusters.target_servers, moved, {at: 14}, "its own")
    with both_clusters(pipeline) as both:
        verdicts = check_groups(pipeline, result, *both)
    judgements = {group: verdicts[group].judgement for group in names}
    assert judgements == {
        right: Judgement.PASSED,
        lost: Judgement.FAILED,
        older: Judgement.FAILED,
        newer: Judgement.PASSED,
        moved: Judgement.PASSED,
    }
    assert (
        f"group {lost} holds nothing in {at} on the target, and 10 in {at} on the source is 10"
        in verdicts[lost].summary
    )
    assert "holds 12 (k2k_0.1)" in verdicts[older].summary
    assert [verdicts[group].counts["moved_since"] for group in names] == [0, 0, 0, 1, 1]


@pytest.mark.slow
def test_a_group_ahead_of_the_copy_waits_and_an_unknown_one_is_a_doubt(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """However far ahead it is: nothing around its position is copied yet, and all is well."""
    source, topic = clusters.source_servers, create_topic(clusters.source_servers, unique("ahead"))
    produce(source, topic, [b"before" for n in range(50)], 0)
    pipeline, at = (
        _pipeline(
            clusters,
            tmp_path,
            [topic],
            features={"exactlyOnce": "enabled"},
            consumer={"group.id": unique("k2k"), "auto.offset.reset": "latest"},
        ),
        TopicPartition(topic, 0),
    )
    copy(pipeline)
    produce(source, topic, [b"%d" % n for n in range(100)], 0)
    copy(pipeline)
    produce(source, topic, [b"later %d" % n for n in range(100)], 0)
    waiting, unknown = unique("waiting"), unique("unknown")
    verdicts = _moved(pipeline, source, {waiting: {at: 240}, unknown: {at: 10}})
    assert verdicts[waiting].passed, verdicts[waiting]
    assert "1 ahead: waiting for the copy" in verdicts[waiting].summary
    assert verdicts[unknown].judgement is Judgement.WARNED
    assert verdicts[unknown].summary.startswith("nothing was compared: 1 unknown")


@pytest.mark.slow
def test_a_group_in_a_partition_that_the_copy_has_not_begun_with_waits(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic, source = unique("begins"), clusters.source_servers
    for servers in (source, clusters.target_servers):
        create_topic(servers, topic, 2)
        for partition in range(2):
            produce(servers, topic, RECORDS, partition)
    hand = HandCopy(_pipeline(clusters, tmp_path, [topic]))
    hand.mapping(topic, (0, 10), [(0, 0, 10)])
    hand.commit(topic, 10)
    alone, both = unique("alone"), unique("both")
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    verdicts = _moved(hand.pipeline, source, {alone: {one: 4}, both: {zero: 4, one: 4}})
    assert verdicts[alone].passed, verdicts[alone]
    assert verdicts[alone].counts["state_waiting"] == 1
    assert "1 ahead: waiting for the copy" in verdicts[alone].summary
    assert verdicts[both].passed, verdicts[both]
    assert verdicts[both].counts["compared"] == 1

    hand.mapping(topic, (0, 10), [(0, 0, 10)], partition=1)
    hand.commit(topic, 10, partition=1)
    verdicts = _moved(hand.pipeline, source, {alone: {one: 4}})
    assert verdicts[alone].counts["compared"] == 1


def test_many_to_one_nothing_is_skipped_and_what_is_read_again_is_shown(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, topic = clusters.source_servers, unique("many")
    create_topic(source, topic, 2)
    target = create_topic(clusters.target_servers, unique("one"))
    pipeline = _pipeline(
        clusters, tmp_path, [topic], features={"exactlyOnce": "enabled"}, sink={"static": target}, partition="producer"
    )
    for turn in range(3):
        for partition in range(2):
            produce(source, topic, [b"%d-%d-%d" % (partition, turn, n) for n in range(5)], partition)
        copy(pipeline)
    group = unique("many")
    at = {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 12}
    verdict = _moved(pipeline, source, {group: at})[group]
    assert verdict.passed, verdict
    assert verdict.counts["skipped"] == 0
    assert verdict.counts["read_again"] > 0, "its records lie mixed"
