"""The checks compare through the mapping of schema ids, with both registries."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession

from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.schemas import Schema
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.record_pair import RecordPlace, differences_of, facing, record_at
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import MODES, write_pipeline
from k2k_assets_tests.support.copies.schema_records import KINDS
from k2k_assets_tests.support.spark.session import spark
from k2k_assets_tests.verification.test_transformed import ensure_groups_are_exact
from k2k_assets_tests.verification.world import NOW, World

__all__ = ["spark"]
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

Registries = tuple[SandboxRegistry, SandboxRegistry]


@pytest.fixture
def topics(clusters: KafkaSandbox) -> list[str]:
    return [create_topic(clusters.source_servers, unique("orders")) for _ in KINDS]


@pytest.fixture(params=[False, True], ids=["", "normalizing"])
def pipeline(
    request: pytest.FixtureRequest,
    clusters: KafkaSandbox,
    registries: Registries,
    topics: list[str],
    mode: str,
    tmp_path: Path,
) -> Pipeline:
    file = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        registries=(registries[0].url, registries[1].url),
        index={"path": str(tmp_path / "index")},
    )
    document = yaml.safe_load(file.read_text())
    document["target"]["registry"]["config"]["normalize.schemas"] = request.param
    file.write_text(yaml.safe_dump(document))
    return load_pipeline([file])


def verdicts(spark: SparkSession, pipeline: Pipeline) -> dict[str, Verdict]:
    hand = HandCopy(pipeline)
    index = update_index(spark, pipeline, hand.source, hand.target)
    return {name: run_check(name, Evidence(pipeline, spark, index, hand.source, hand.target)) for name in CHECKS}


@MODES
def test_a_copy_with_mapped_ids_passes_every_check_and_groups_are_exact(
    clusters: KafkaSandbox, registries: Registries, spark: SparkSession, pipeline: Pipeline, topics: list[str]
) -> None:
    for kind, topic in zip(KINDS, topics, strict=True):
        write = kind.writer(registries[0].url, topic)
        produce(clusters.source_servers, topic, [write(n) for n in range(20)])
        produce(clusters.source_servers, topic, [b"not framed", (b"a tombstone", None)])
    assert copy(pipeline).stopped == {}
    found = verdicts(spark, pipeline)
    assert {name: each.judgement for name, each in found.items()} == dict.fromkeys(CHECKS, Judgement.PASSED)
    assert found["content"].counts["compared"] == 66
    for topic in topics:
        ensure_groups_are_exact(clusters, pipeline, topic, lambda record: record)


@MODES
def test_a_copy_with_another_schemas_id_fails_the_content_check(
    clusters: KafkaSandbox, registries: Registries, spark: SparkSession, pipeline: Pipeline, topics: list[str]
) -> None:
    source = ConfluentRegistry("source", {"url": registries[0].url}, {})
    target = ConfluentRegistry("target", {"url": registries[1].url}, {})
    topic = topics[0]
    name = unique("s").replace("-", "_")
    right, wrong = (Schema("AVRO", f'{{"type": "fixed", "name": "{name}", "size": {size}}}') for size in (1, 2))
    here = source.register(f"{topic}-value", right)
    there = [target.register(f"{name}-{n}", schema) for n, schema in enumerate((right, wrong))]
    create_topic(clusters.target_servers, topic)
    world = World(clusters, topic, HandCopy(pipeline), spark)

    def framed(schema_id: int) -> bytes:
        return b"\0" + schema_id.to_bytes(4, "big") + b"x"

    world.source([Record(b"k", framed(here), [], NOW + n) for n in range(4)])
    world.target([Record(b"k", framed(there[n == 2]), [], NOW + n) for n in range(4)])
    world.mapped((0, 0, 4), end=4)

    verdict = world.verdict("content")

    assert verdict.judgement is Judgement.FAILED
    assert [offender.source_offset for offender in verdict.offenders] == [2]
    for offset, differs in ((1, []), (2, ["value"])):
        place = RecordPlace.parse(f"{topic}:0:{offset}")
        original = record_at(pipeline, world.hand.source, place)
        mapped = record_at(pipeline, world.hand.target, place)
        assert original is not None
        assert mapped is not None
        assert differences_of(pipeline, place, original, mapped, ClusterIds("a", "b")).parts == differs


@MODES
@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_schema_that_was_deleted_since_makes_no_copy_look_wrong(
    clusters: KafkaSandbox,
    registries: Registries,
    spark: SparkSession,
    pipeline: Pipeline,
    topics: list[str],
    side: int,
) -> None:
    topic = topics[0]
    own = Schema("AVRO", f'{{"type": "fixed", "name": "{unique("s").replace("-", "_")}", "size": 1}}')
    here = ConfluentRegistry("source", {"url": registries[0].url}, {}).register(f"{topic}-value", own)
    produce(clusters.source_servers, topic, [prefix_of(here) + bytes([n]) for n in range(20)])
    produce(clusters.source_servers, topic, [b"not framed"])
    assert copy(pipeline).stopped == {}
    client = SchemaRegistryClient({"url": registries[side].url})
    for permanent in (False, True):  # a soft delete comes first
        client.delete_subject(f"{topic}-value", permanent)

    content = verdicts(spark, pipeline)["content"]

    judged = (Judgement.PASSED, Judgement.WARNED)[side]
    assert (content.judgement, content.counts["offending"]) == (judged, 0), content.summary
    assert content.counts["unknown_to_target"] == 20 * side
    assert (content.counts["without_schema"], content.counts["not_comparable"], content.counts["equal"]) == (20, 20, 1)
    assert "20 records have a schema that a registry, or the file, does not have any more" in content.summary
    ensure_groups_are_exact(clusters, pipeline, topic, lambda record: record)
    with both_clusters(pipeline) as (source, target):
        place = RecordPlace.parse(f"{topic}:0:3")
        there = facing(pipeline, "source", place).place
        assert there is not None
        original, copied = record_at(pipeline, source, place), record_at(pipeline, target, there)
    assert original is not None
    assert copied is not None
    assert differences_of(pipeline, place, original, copied, ClusterIds("a", "b")) == ([], ["value"], [])
