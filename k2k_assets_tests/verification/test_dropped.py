"""Records that were left out on purpose: no fault if their rule leaves them out, and a fault if it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.control.mapping_records import DroppedBy
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.assets.groups.group_sync import limited_to
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.content.tally import DROPPED_WRONGLY, NOT_COPIED, NOT_DROPPED
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Verdict
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import Headers, Record, create_topic, read_all, unique
from k2k_assets_tests.support.brokers.raw_records import produce_raw
from k2k_assets_tests.support.copies.both_ways import MARKER, OneWay, both_ways, marks, settle, write_some
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, write_pipeline
from k2k_assets_tests.verification.world import NOW, World

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]


def verdicts(spark: SparkSession, pipeline: Pipeline) -> dict[str, Verdict]:
    with both_clusters(pipeline) as (source, target):
        index = update_index(spark, pipeline, source, target)
        return {name: run_check(name, Evidence(pipeline, spark, index, source, target)) for name in CHECKS}


def ensure_groups_are_exact(way: OneWay, topic: str) -> None:
    """Groups at every fifth position go on at the first record of either side that they have not read."""
    read, there = read_all(way.source, topic), read_all(way.target, topic)
    standing = {unique("readers"): at for at in range(0, read[-1].offset + 1, 5)}
    for group, at in standing.items():
        commit(way.source, group, {TopicPartition(topic, 0): at})
    result = sync_once(limited_to(way.pipeline, standing))
    for group, at in standing.items():
        (row,) = result.decisions[group].rows
        known = {record.value for record in read if record.offset < at}
        unread = [record.offset for record in there if record.value not in known]
        again = sum(record.value in known for record in there if record.offset >= row.offset)
        assert row.offset == min(unread, default=row.offset), (group, at)
        assert (row.decision.value, row.again) == ("may be read again" if again else "exact", again), (group, at)
    with both_clusters(way.pipeline) as clusters:
        found = check_groups(way.pipeline, result, *clusters)
    assert {group: each.summary for group, each in found.items() if not each.passed} == {}


@MODES
def test_checks_and_groups_know_what_was_dropped_in_both_directions(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = unique("shared")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    own: dict[str, Any] = {"features": {"headerReplication": "enabled"}}
    ways = both_ways(clusters, tmp_path, [topic], mode, "cluster", **own)
    for turn in range(3):
        for n, way in enumerate(ways):
            write_some(way, topic, f"{'ab'[n]}{turn}", 12)
        settle(ways, rounds=1)
        if turn < 2:  # the rest is in the mapping topic alone
            for way in ways:
                found = verdicts(spark, way.pipeline)
                assert {name: each.summary for name, each in found.items() if not each.passed} == {}
    settle(ways, rounds=1)
    for way in ways:
        ensure_groups_are_exact(way, topic)
        echoes = [r for r in read_all(way.source, topic) if marks(r.headers)]
        for echo in (echoes[0], echoes[-1]):
            place = ["--topic", topic, "--partition", "0", "--offset", str(echo.offset)]
            capsys.readouterr()
            assert k2k_tool(["translate", "-f", str(way.path), *place, "--json"]) == 0
            (answer,) = json.loads(capsys.readouterr().out)["answers"]
            assert answer["state"] == ("may be read again" if "readAgain" in answer else "exact")
            assert answer["droppedBy"] == "marker"
            assert k2k_tool(["show", "-f", str(way.path), "-o", f"{topic}:0:{echo.offset}"]) == 0
            assert "left out on purpose, by the rule 'marker'" in capsys.readouterr().out
        found = verdicts(spark, way.pipeline)
        assert {name: each.summary for name, each in found.items() if not each.passed} == {}
        assert (found["content"].counts["dropped"], found["content"].counts["still_bad"]) == (36, 0)
        assert "36 were left out on purpose" in found["content"].summary


@MODES
def test_what_was_copied_before_the_marker_was_switched_on_is_judged_by_its_time(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    topic = unique("shared")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    from_, to = clusters.source_servers, clusters.target_servers
    features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
    path = write_pipeline(tmp_path, from_, to, [topic], features=features, index={"path": str(tmp_path / "index")})
    way = OneWay(path, load_pipeline([path]), from_, to)
    name = way.pipeline.name.encode()
    looks_marked = Record(b"k", b"looked like an echo", [(MARKER, name)])
    World(clusters, topic, HandCopy(way.pipeline), spark).source([looks_marked])
    write_some(way, topic, "before", 30)
    copy(way.pipeline)
    path.write_text(path.read_text().replace("exactlyOnce", "bidirectionalReplication: enabled\n  exactlyOnce"))
    way = OneWay(path, load_pipeline([path]), from_, to)
    World(clusters, topic, HandCopy(way.pipeline), spark).source([looks_marked._replace(value=b"an echo")])
    write_some(way, topic, "since", 30)
    copy(way.pipeline)

    found = verdicts(spark, way.pipeline)
    assert {name: each.summary for name, each in found.items() if not each.passed} == {}
    assert (found["content"].counts["equal"], found["content"].counts["dropped"]) == (61, 1)


def test_a_record_whose_headers_cannot_be_read_is_asked_for_them_once(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    """It stops its topic, and lies beside what the checks compare: asked twice, the client would crash the process."""
    topic = unique("shared")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    way, back = both_ways(clusters, tmp_path, [topic], features={"headerReplication": "enabled"})
    write_some(way, topic, "before", 10)
    produce_raw(way.source, topic, 0, [(b"unreadable", [(b"\xff", b"x")])])
    write_some(way, topic, "behind", 5)
    assert topic in copy(way.pipeline).stopped
    assert read_all(way.target, topic)[-1].value == b"before-9"
    found = verdicts(spark, way.pipeline)
    assert found["content"].passed, found["content"].summary
    assert found["content"].counts["equal"] == 10
    group = unique("readers")
    commit(way.source, group, {TopicPartition(topic, 0): 5})
    copy(back.pipeline)
    result = sync_once(limited_to(way.pipeline, [group]))
    with both_clusters(way.pipeline) as both:
        assert check_groups(way.pipeline, result, *both)[group].passed


@MODES
@pytest.mark.parametrize(
    ("runs", "dropped", "faults"),
    [
        ([(0, 0, 2), (4, 2, 6)], [(2, 4)], {}),
        ([(0, 0, 2), (4, 2, 4)], [(2, 4), (8, 10)], {8: DROPPED_WRONGLY, 9: DROPPED_WRONGLY}),
        ([(0, 0, 2), (4, 2, 6)], [], {2: NOT_COPIED, 3: NOT_COPIED}),
        ([(0, 0, 2), (4, 2, 4)], [(2, 4)], {8: NOT_COPIED, 9: NOT_COPIED}),
        ([(0, 0, 10)], [], {2: NOT_DROPPED, 3: NOT_DROPPED}),
    ],
    ids=["right", "dropped wrongly", "not noted", "lost", "echoes copied"],
)
def test_a_record_that_should_have_been_kept_or_dropped_is_found(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, runs: list[tuple[int, int, int]],
    dropped: list[tuple[int, int]], faults: dict[int, str],
) -> None:  # fmt: skip
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features={
            "exactlyOnce": mode, "offsetMapping": "enabled", "bidirectionalReplication": "enabled",
            "headerReplication": "enabled",
        },
    )  # fmt: skip
    mine: Headers = [(MARKER, pipeline.name.encode())]
    world = World(clusters, topic, HandCopy(pipeline), spark)
    records = [Record(b"k", b"%d" % n, mine if n in (2, 3) else [], NOW + n) for n in range(10)]
    world.source(records)
    copied = [n for start, _, count in runs for n in range(start, start + count)]
    world.target([records[n]._replace(headers=[*(records[n].headers or []), *mine]) for n in copied])
    world.hand.mapping(topic, (0, 10), runs, dropped=[DroppedBy("marker", tuple(dropped))] if dropped else ())
    world.hand.commit(topic, 10, records=len(copied))

    verdict = world.verdict("content")

    assert {o.source_offset: o.what.partition(" ")[2] for o in verdict.offenders} == faults
    assert verdict.passed == (not faults)
