"""The assets of a real pipeline, materialized through Dagster from a source cluster to a target cluster."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.naming import escape
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.kafka import connection
from k2k_assets.orchestration import metadata as keys
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.tables.commit_log import read_commit_log_table
from k2k_assets.tables.group_positions import read_group_positions_table
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers.groups import commit, held, member
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, produce, read_all, set_config
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_copied, started
from k2k_assets_tests.support.dagster.fixture import DagsterFixture, failure_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def _verdicts(result: dg.ExecuteInProcessResult, key: dg.AssetKey | None = None) -> dict[str, bool]:
    evaluations = result.get_asset_check_evaluations()
    return {e.check_name: e.passed for e in evaluations if key is None or e.asset_key == key}


def _passed(fixture: DagsterFixture) -> dict[str, bool]:
    return {topic: evaluation.passed for topic, evaluation in fixture.check_topics().items()}


@pytest.mark.slow
def test_everything_of_a_pipeline(clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession) -> None:
    topics = [f"{prefix}.x", f"{prefix}-x"]
    for topic, partitions in zip(topics, (1, 3), strict=True):
        create_topic(clusters.source_servers, topic, partitions)
        produce(clusters.source_servers, topic, [(b"%d" % i, b"value %d" % i) for i in range(100)])
    one, three = (TopicPartition(topics[0], 0), TopicPartition(topics[1], 1))
    middle, late = f"{prefix}.g", f"{prefix}-g"
    commit(clusters.source_servers, middle, {one: 40, three: 10})
    commit(clusters.source_servers, late, {one: 100})
    fixture = DagsterFixture(clusters, place, topics, f"{prefix}.*")
    assert set(fixture.discover().groups) == {middle, late}
    names = fixture.names
    result = fixture.run()
    assert result.success
    for topic, partitions in zip(topics, (1, 3), strict=True):
        shown = fixture.metadata(names.topic_key(topic))
        assert (shown[keys.RECORDS], shown[keys.LAG], shown[keys.TARGET_TOPIC]) == (100, 0, topic)
        assert shown[keys.TRANSPORT_FORM] == "batches"
        assert len(shown[keys.POSITIONS].records) == partitions
        assert len(read_all(clusters.target_servers, topic)) == 100
        assert fixture.is_synced(names.topic_key(topic))
    log = fixture.metadata(names.commit_log_key)
    assert (log[keys.PARTITIONS], log[keys.LAG], log[keys.STOPPED]) == ("4 partitions of 2 topics", 0, 0)
    table = {
        (row.topic, row.partition): row
        for row in read_commit_log_table(SparkSession.active(), fixture.pipeline).collect()
    }
    assert len(table) == 4
    assert sum(row.position for row in table.values()) == 200
    assert {row.lag for row in table.values()} == {0}
    index = fixture.metadata(names.offset_mappings_key)
    assert index[keys.MAPPED] == 200
    assert {row.data["topic"] for row in index[keys.COVERAGE].records} == set(topics)
    (segment,) = (row.data for row in index[keys.SEGMENTS].records)
    assert (segment["offset ranges"], segment["mapped records"]) == (index[keys.OFFSET_RANGES], 200)
    assert index[keys.PRUNED].records == []
    on_mappings, on_groups = _verdicts(result, names.offset_mappings_key), _verdicts(result)
    assert on_mappings == dict.fromkeys(CHECKS, True)
    assert on_groups.items() >= {f"resumes_exactly_{escape(group)}": True for group in (middle, late)}.items()
    steps = [event.step_key for event in result.all_events if event.is_step_start]
    assert set(steps[-2:]) == {names.op("consumer_groups"), names.op("group_positions")}, "after the checks"
    assert steps[-3] == names.mapping_checks_op
    positions = fixture.metadata(names.group_positions_key)
    assert (positions[keys.GROUPS_EXACT], positions[keys.GROUPS_AHEAD], positions[keys.GROUPS_UNKNOWN]) == (2, 0, 0)
    belongs = {
        (row.group, row.source_topic, row.source_partition): (row.source_offset, row.target_offset, row.state)
        for row in read_group_positions_table(SparkSession.active(), fixture.pipeline).collect()
    }
    assert belongs == {
        (middle, *one): (40, 40, "exact"),
        (middle, *three): (10, 10, "exact"),
        (late, *one): (100, 100, "exact"),
    }

    group = fixture.metadata(names.consumer_group_key(middle))
    assert (group[keys.PARTITIONS], group[keys.STATE], group[keys.COMMITTED]) == ("2 partitions", "2 exact", True)
    rows = {row.data["source"]: row.data for row in group[keys.POSITIONS].records}
    assert (rows[str(one)]["source offset"], rows[str(one)]["target offset"]) == (40, 40)
    assert (rows[str(one)]["left on source"], rows[str(one)]["state"]) == (60, "exact")
    assert rows[str(one)]["left on target"] == end_offsets(clusters.target_servers, topics[0])[0] - 40
    assert {at: offset for at, (offset, _) in held(clusters.target_servers, middle).items()} == {one: 40, three: 10}
    assert held(clusters.target_servers, late)[one][0] == 100

    # One group alone; the other one stays where it is.
    commit(clusters.source_servers, middle, {one: 30})
    commit(clusters.source_servers, late, {one: 70})
    moved = fixture.move(names.consumer_group_key(middle))
    assert moved.success
    assert [e.asset_key for e in moved.get_asset_materialization_events()] == [names.consumer_group_key(middle)]
    assert _verdicts(moved) == {f"resumes_exactly_{escape(middle)}": True}
    assert held(clusters.target_servers, middle)[one][0] == 30
    assert held(clusters.target_servers, late)[one][0] == 100
    assert fixture.metadata(names.consumer_group_key(middle))[keys.COMMITTED]

    # The failure of a policy has a clear message.
    with member(clusters.target_servers, middle, topics[0], "classic"):
        commit(clusters.source_servers, middle, {one: 20})
        refused = fixture.move(names.consumer_group_key(middle))
    assert not refused.success
    words = failure_of(refused)
    assert f"group {middle} has members on the target cluster" in words
    assert fixture.move(names.consumer_group_key(late)).success
    assert held(clusters.target_servers, late)[one][0] == 70

    produce(clusters.source_servers, topics[0], [b"more"] * 7)
    again = fixture.run([names.topic_key(topics[0])])
    assert again.success
    assert [e.asset_key for e in again.get_asset_materialization_events()] == [names.topic_key(topics[0])]
    assert fixture.metadata(names.topic_key(topics[0]))[keys.RECORDS] == 7
    assert all(fixture.is_synced(names.topic_key(topic)) for topic in topics)
    assert fixture.run([names.commit_log_key]).success
    for key in (names.offset_mappings_key, names.consumer_group_key(late)):
        assert fixture.is_synced(key), "records went on, and no answer that it has given has changed"


@pytest.mark.slow
def test_by_mappings_that_are_wrong_no_group_is_moved(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    """A check on the mappings that fails ends the run before the groups."""
    topic, group = create_topic(clusters.source_servers, f"{prefix}.t"), f"{prefix}.group"
    at = TopicPartition(topic, 0)
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(50)])
    commit(clusters.source_servers, group, {at: 10})
    fixture = DagsterFixture(clusters, place, [topic], [group])
    fixture.discover()
    assert fixture.run().success
    assert held(clusters.target_servers, group)[at][0] == 10
    HandCopy(fixture.pipeline).mapping(topic, (50, 60), [(50, 5000, 10)], generation=10**9)
    commit(clusters.source_servers, group, {at: 20})
    result = fixture.run()
    assert not result.success
    assert not _verdicts(result)["within_watermarks"]
    steps = {event.step_key for event in result.all_events if event.is_step_start}
    assert fixture.names.mapping_checks_op in steps
    assert fixture.names.op("consumer_groups") not in steps
    assert held(clusters.target_servers, group)[at][0] == 10


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_two_pipelines_that_map_the_same_records(
    clusters: KafkaSandbox, place: Path, tmp_path: Path, prefix: str, policy: str
) -> None:
    """`onMultipleTargetCommittedOffsets` for a group's asset."""
    topic = create_topic(clusters.source_servers, f"{prefix}.twice")
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(20)])
    group, at = f"{prefix}.group", TopicPartition(topic, 0)
    commit(clusters.source_servers, group, {at: 11})
    fixture = DagsterFixture(
        clusters, place, [topic], [group], errorHandling={"onMultipleTargetCommittedOffsets": policy}
    )
    shared = fixture.pipeline.offset_mapping.topic
    second = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        sink={"prefix": "second."},
        features={"offsetMapping": "enabled"},
        offsetMapping={"topic": shared},
    )
    for pipeline in (fixture.pipeline, load_pipeline([second])):
        copy(pipeline)
    assert fixture.discover().groups == (group,)
    key = fixture.names.consumer_group_key(group)
    result = fixture.move(key)
    if policy == "ignore":
        assert result.success
        assert held(clusters.target_servers, group)[at][0] == 11
        return
    words = failure_of(result)
    assert f"the position of group {group} in {at} (offset 11) has two mappings: to {at} offset 11, and by" in words
    assert f"to second.{at} offset 11" in words
    assert "errorHandling.onMultipleTargetCommittedOffsets: ignore" in words
    assert held(clusters.target_servers, group) == {}


@pytest.mark.slow
def test_before_discovery_one_asset_finds_and_copies_all(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    for topic in ("one", "two"):
        create_topic(clusters.source_servers, f"{prefix}.{topic}")
        produce(clusters.source_servers, f"{prefix}.{topic}", [b"1", b"2"])
    fixture = DagsterFixture(clusters, place, f"{prefix}[.].*", f"{prefix}.*")
    key = fixture.names.undiscovered_key(f"{prefix}[.].*")
    for_groups = fixture.names.undiscovered_groups_key(f"{prefix}.*")
    group, at = f"{prefix}.group", TopicPartition(f"{prefix}.two", 0)
    assert fixture.run([key]).success
    commit(clusters.source_servers, group, {at: 1})
    assert fixture.move(for_groups).success
    assert fixture.metadata(key)[keys.RECORDS] == 4
    assert fixture.metadata(for_groups)[keys.PARTITIONS] == "1 partition"
    assert fixture.metadata(fixture.names.consumer_group_key(group))[keys.STATE] == "1 exact"
    assert held(clusters.target_servers, group)[at][0] == 1
    for topic in ("one", "two"):
        assert fixture.metadata(fixture.names.topic_key(f"{prefix}.{topic}"))[keys.RECORDS] == 2
    graph = build_definitions(fixture.folder).resolve_asset_graph()
    assert fixture.names.topic_key(f"{prefix}.one") in graph.materializable_asset_keys
    assert fixture.names.consumer_group_key(group) in graph.materializable_asset_keys
    assert not graph.materializable_asset_keys & {key, for_groups}


@pytest.mark.slow
def test_a_topic_that_was_found_since_is_copied_too(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    names = [f"{prefix}.known", f"{prefix}.new"]
    for topic in names:
        create_topic(clusters.source_servers, topic)
        produce(clusters.source_servers, topic, [b"1"])
    fixture = DagsterFixture(clusters, place, names)
    result = fixture.run([fixture.names.topic_key(names[0])], also=[names[1]])
    assert result.success
    assert fixture.metadata(fixture.names.topic_key(names[1]))[keys.RECORDS] == 1


@pytest.mark.slow
def test_a_stopped_topic_fails_by_name_and_the_others_materialize(
    clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession
) -> None:
    good, bad = f"{prefix}.good", f"{prefix}.bad"
    for topic in (good, bad):
        create_topic(clusters.source_servers, topic)
        produce(clusters.source_servers, topic, [os.urandom(5000)])  # does not compress
    create_topic(clusters.target_servers, bad, config={"max.message.bytes": "1000"})
    fixture = DagsterFixture(clusters, place, [good, bad])
    result = fixture.run([fixture.names.topic_key(good), fixture.names.topic_key(bad)])
    assert not result.success
    assert [e.asset_key for e in result.get_asset_materialization_events()] == [fixture.names.topic_key(good)]
    words = failure_of(result)
    assert bad in words
    assert good not in words

    # Its check fails at once; alone it reports the same from the commit log, and passes when the topic continues.
    shown = fixture.shown_check(bad)
    assert shown is not None
    assert not shown.passed
    assert f"1 of 1 partition is stopped: {bad}-0: [record-refused] the target refuses the record" in (
        shown.description or ""
    )
    assert f"raise max.message.bytes of {bad}" in (shown.description or "")
    assert _passed(fixture) == {good: True, bad: False}
    set_config(clusters.target_servers, bad, "max.message.bytes", "100000")
    assert fixture.run([fixture.names.topic_key(bad)]).success
    assert _passed(fixture) == {good: True, bad: True}


@pytest.mark.storm
def test_a_run_beside_k2k_start(clusters: KafkaSandbox, place: Path, prefix: str, spark: SparkSession) -> None:
    """The newer instance takes over; the older one stands by, and goes on when that has ended."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, f"{prefix}.shared", 2)
    produce(source, topic, [(b"%d" % i, b"first") for i in range(100)])
    fixture = DagsterFixture(clusters, place, [topic])
    (path,) = place.iterdir()
    with started("-f", path) as process:
        await_copied(process, target, topic, 100)
        produce(source, topic, [(b"%d" % i, b"second") for i in range(100)])
        assert fixture.run().success
        assert len(read_all(target, topic)) == 200
        produce(source, topic, [(b"%d" % i, b"third") for i in range(100)])
        await_copied(process, target, topic, 300)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert said.count("INFO    generation ") == 2, said  # before the run, and after it
    assert assert_same_content(source, topic, target) == 300
    assert_exact_mappings(fixture.pipeline, source, target, topic)


@pytest.mark.slow
def test_an_unreachable_cluster_fails_in_words(
    place: Path, clusters: KafkaSandbox, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 2.0)
    fixture = DagsterFixture(clusters, place, ["any"])
    (path,) = place.glob("*.yaml")
    path.write_text(path.read_text().replace(clusters.source_servers, "127.0.0.1:1"))
    result = fixture.run([fixture.names.topic_key("any")])
    assert not result.success
    words = failure_of(result)
    assert "source cluster at 127.0.0.1:1 does not answer" in words
