"""The checks know the headers that a copy got: true ones pass, wrong ones fail, each range has those of its time."""

from __future__ import annotations

from dataclasses import replace
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
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.record_pair import RecordPlace, differences_of, facing, record_at, settings_at
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import MODES, Make, make_pipeline
from k2k_assets_tests.verification.world import NOW, World

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

IDS = ClusterIds("source", "target")


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path) -> Make:
    group = unique("k2k")

    def made(topic: str, mode: str = "enabled", *, own: str = "enabled", tracing: Any = "enabled") -> Pipeline:
        flags = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": own, "tracingHeaders": tracing}
        return make_pipeline(
            tmp_path,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features=flags,
            consumer={"group.id": group},
            index={"path": str(tmp_path / "index")},
            coordination={"commit": {"topic": f"{group}-commits"}, "assignment": {"topic": f"{group}-claims"}},
            offsetMapping={"topic": f"{group}-mappings"},
        )

    return made


def verdicts(spark: SparkSession, pipeline: Pipeline) -> dict[str, Verdict]:
    with both_clusters(pipeline) as (source, target):
        index = update_index(spark, pipeline, source, target)
        return {name: run_check(name, Evidence(pipeline, spark, index, source, target)) for name in CHECKS}


def moved(pipeline: Pipeline, source: str, positions: dict[str, int], topic: str) -> dict[str, Verdict]:
    for group, at in positions.items():
        commit(source, group, {TopicPartition(topic, 0): at})
    result = sync_once(limited_to(pipeline, positions))
    with both_clusters(pipeline) as clusters:
        return check_groups(pipeline, result, *clusters)


@MODES
def test_each_range_is_judged_by_the_headers_of_its_time(
    clusters: KafkaSandbox, spark: SparkSession, make: Make, mode: str
) -> None:
    """Content, mappings and groups are right through every change of the settings; what is shown is that of today."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    settings: list[dict[str, Any]] = [
        {"tracing": "disabled"},
        {"tracing": {"offset": "enabled", "topic": "enabled"}},
        {"own": "disabled"},
        {},
    ]
    for turn, each in enumerate(settings):
        headers = [("a", b"1"), ("a", None), ("__k2k_offset", b"7")]
        produce(clusters.source_servers, topic, [Record(b"k", b"%d-%d" % (turn, n), headers) for n in range(60)], 0)
        pipeline = make(topic, mode, **each)
        assert copy(pipeline).stopped == {}

    found = verdicts(spark, pipeline)
    assert {name: each.summary for name, each in found.items() if not each.passed} == {}
    assert (found["content"].counts["equal"], found["content"].counts["not_comparable"]) == (240, 0)

    positions = {unique(name): at for name, at in (("then", 30), ("between", 60), ("later", 125), ("now", 200))}
    groups = moved(pipeline, clusters.source_servers, positions, topic)
    assert {name: verdict.summary for name, verdict in groups.items() if not verdict.passed} == {}
    assert all(verdict.counts["records"] > 40 for verdict in groups.values())

    with both_clusters(pipeline) as (source, target):
        for offset, differs in ((239, []), (0, ["headers"])):
            place = RecordPlace(TopicPartition(topic, 0), offset)
            there = facing(pipeline, "source", place).place
            assert there is not None
            original, copied = record_at(pipeline, source, place), record_at(pipeline, target, there)
            assert original is not None
            assert copied is not None
            assert differences_of(pipeline, place, original, copied, IDS).parts == differs
            made_under = settings_at(pipeline, place, source, target)
            assert differences_of(pipeline, place, original, copied, IDS, made_under).parts == []
            changed = replace(copied, headers=(*copied.headers, ("more", b"x")))
            assert differences_of(pipeline, place, original, changed, IDS, made_under).parts == ["headers"]


def _traced(topic: str, pipeline: Pipeline, offset: int, own: list[tuple[str, bytes | None]]) -> Record:
    names = ("__k2k_partition", "__k2k_offset", "__k2k_topic", "__k2k_pipeline")
    values = ("0", str(offset), topic, pipeline.name)
    return Record(b"k", b"v", [*own, *zip(names, (each.encode() for each in values), strict=True)], NOW + offset)


@MODES
@pytest.mark.parametrize("own", ["enabled", "disabled"])
def test_a_wrong_tracing_header_is_found_at_its_record(
    clusters: KafkaSandbox, spark: SparkSession, make: Make, own: str, mode: str
) -> None:
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    pipeline = make(topic, mode, own=own)
    world = World(clusters, topic, HandCopy(pipeline), spark)
    kept: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None)]
    world.source([Record(b"k", b"v", kept, NOW + n) for n in range(10)])
    copies = [_traced(topic, pipeline, n, kept if own == "enabled" else []) for n in range(10)]
    wrong = {
        1: _traced(topic, pipeline, 2, kept if own == "enabled" else [])._replace(timestamp=NOW + 1),
        3: copies[3]._replace(headers=(copies[3].headers or [])[:-1]),
        5: copies[5]._replace(headers=[*(copies[5].headers or []), ("c", b"")]),
        7: copies[7]._replace(headers=(copies[7].headers or [])[::-1]),
    }
    world.target([wrong.get(n, record) for n, record in enumerate(copies)])
    world.mapped((0, 0, 10))

    verdict = world.verdict("content")

    assert verdict.judgement is Judgement.FAILED
    assert [offender.source_offset for offender in verdict.offenders] == list(wrong)
    assert verdict.counts["equal"] == 6
    place = RecordPlace(TopicPartition(topic, 0), 1)
    original, copied = record_at(pipeline, world.hand.source, place), record_at(pipeline, world.hand.target, place)
    assert original is not None
    assert copied is not None
    assert differences_of(pipeline, place, original, copied, IDS).parts == ["headers"]
