"""What the mapping records say of pipelines that copy both ways: who has not their files answers as they do.

Judged by what the topics hold, at every offset; no mapping is used for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli.mapper_commands.group_status import summary
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.mapper_file import load_mapper_pipeline
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.bidirectional import Bidirectional
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import translate_checkpoint, translate_offsets
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import ReadRecord, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.both_ways import (
    OneWay,
    again_and_skipped,
    both_ways,
    groups_everywhere,
    interleave,
    left_behind,
    of_groups,
    prefix_of,
    settle,
    topic_on_both,
    write_some,
)
from k2k_assets_tests.support.copies.copying import copy, dying_first
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def mapper_file(way: OneWay, groups: str, **sections: Any) -> Pipeline:
    """A file for a mapper alone, which says nothing of the pipeline but where its control topics are."""
    coordination, directory = way.pipeline.coordination, way.path.parent
    document: dict[str, Any] = {
        "name": unique("mapper"),
        "features": {"autoCreateControlTopics": "enabled"},
        "source": {"kafka": {"common": {"bootstrap.servers": way.source}}},
        "target": {"kafka": {"common": {"bootstrap.servers": way.target}}},
        "groups": {"consumerGroups": f"{groups}.*"},
        "offsetMapping": {"topic": way.pipeline.offset_mapping.topic},
        "coordination": {
            "commit": {"topic": coordination.commit.topic},
            "assignment": {"topic": unique("claims-of-mapper")},
        },
        **sections,
    }
    path = directory / f"{document['name']}.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_mapper_pipeline([path])


def assert_true(here: list[ReadRecord], there: list[ReadRecord], at: int, offset: int, is_exact: bool) -> None:
    """Nothing that is not read is left behind for good, and what is called exact reads nothing again."""
    assert left_behind(here, there, at, offset) == [], (at, offset)
    again, _ = again_and_skipped(here, there, at, offset)
    assert not is_exact or again == 0, (at, offset, again)


def moved(pipeline: Pipeline, way: OneWay, topic: str, standing: Mapping[str, int]) -> Counter[CommitDecision]:
    """Polls once; each answer has to be true."""
    here, there = read_all(way.target, topic), read_all(way.source, topic)
    result = sync_once(pipeline)
    for group, at in standing.items():
        (line,) = result.lines(group)
        assert line.target, (group, line, result.unproven)
        assert_true(here, there, at, line.target.offset, line.decision is CommitDecision.EXACT)
        assert held(way.target, group)[TopicPartition(topic, 0)][0] == line.target.offset
    return result.decision_counts


def returned(pipeline: Pipeline, way: OneWay, topic: str, reverse: Pipeline | None = None) -> Counter[str]:
    """Plans the return of groups from each offset of the target; each row has to be true."""
    here, there = read_all(way.source, topic), read_all(way.target, topic)
    standing = groups_everywhere(way.target, topic)
    chosen = pipeline.groups.model_copy(update={"consumer_groups": f"{prefix_of(standing)}.*"})
    limited_to = pipeline.model_copy(update={"groups": chosen})
    with both_clusters(limited_to) as (source, target):
        plans = failback_plans(limited_to, source, target, reverse)
    assert len(plans) == len(standing)
    for plan in plans:
        (row,) = plan.rows
        assert row.offset >= 0, plan
        assert_true(here, there, standing[plan.group], row.offset, row.decision in ("exact", "kept"))
    return Counter(str(plan.rows[0].decision) for plan in plans)


@pytest.mark.parametrize("marker", ["pipeline", "cluster"])
def test_a_file_for_the_mapper_alone_learns_that_both_sides_are_written(
    clusters: KafkaSandbox, tmp_path: Path, marker: str
) -> None:
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], marker=marker)
    interleave(ways, topic)
    settle(ways)
    for way in ways:
        standing = groups_everywhere(way.source, topic)
        pipeline = mapper_file(way, prefix_of(standing))
        counts = moved(pipeline, way, topic, standing)
        assert counts.keys() == {CommitDecision.EXACT, CommitDecision.MAY_REPEAT}
        here, there = read_all(way.target, topic), read_all(way.source, topic)
        for answer in translate_offsets(pipeline, topic, 0, standing.values()):
            assert answer.to_offset is not None
            assert_true(here, there, answer.offset, answer.to_offset, answer.state == "exact")
        partition = TopicPartition(topic, 0)
        (row,) = translate_checkpoint(pipeline, {partition: 2}).partitions
        assert row.offset == translate_offsets(pipeline, topic, 0, [2])[0].to_offset
        assert returned(pipeline, way, topic)["unknown"] == 0


def test_without_the_mappings_back_it_says_unknown_and_what_to_write(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = topic_on_both(clusters)
    ways = forth, back = both_ways(clusters, tmp_path, [topic])
    interleave(ways, topic)
    settle(ways)
    # The pipeline back has control topics of other names than the file for the mapper says.
    elsewhere = {"mappingTopic": unique("no-mappings")}
    partition = TopicPartition(topic, 0)
    group = unique("unproven")
    commit(forth.source, group, {partition: 2})
    pipeline = mapper_file(forth, group, bidirectional={"reverse": elsewhere})
    result = sync_once(pipeline)
    assert [line.decision for line in result.lines(group)] == [CommitDecision.UNKNOWN]
    assert held(forth.target, group) == {}
    why = result.unproven[partition]
    assert elsewhere["mappingTopic"] in why
    assert "'bidirectional.reverse'" in why
    assert "'errorHandling.onForeignWriter: fail'" in why
    assert why in summary(pipeline.name, result)
    assert [answer.state for answer in translate_offsets(pipeline, topic, 0, [2])] == ["unknown"]
    commit(forth.target, group, {partition: 3})
    with both_clusters(pipeline) as (source, target):
        (plan,) = failback_plans(pipeline, source, target)
        assert [(row.offset, str(row.decision)) for row in plan.rows] == [(-1, "unknown")]
        (plan,) = failback_plans(pipeline, source, target, back.pipeline)
        assert plan.rows[0].offset >= 0
    reverse = {
        "mappingTopic": back.pipeline.offset_mapping.topic,
        "commitTopic": back.pipeline.coordination.commit.topic,
    }
    told = pipeline.model_copy(update={"bidirectional": Bidirectional.model_validate({"reverse": reverse})})
    assert translate_offsets(told, topic, 0, [2])[0].state in ("exact", "may be read again")
    # Who writes that nobody else writes to the target answers for it.
    alone = mapper_file(forth, group, errorHandling={"onForeignWriter": "fail"})
    assert translate_offsets(alone, topic, 0, [2])[0].state == "exact"


def test_topics_that_are_copied_one_way_beside_it_need_no_mappings_back(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Two pipelines with one mapping topic, of which one copies both ways."""
    topic, single = topic_on_both(clusters), create_topic(clusters.source_servers, unique("single"))
    ways = forth, _ = both_ways(clusters, tmp_path, [topic])
    one_way = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [single],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        offsetMapping={"topic": forth.pipeline.offset_mapping.topic},
        coordination={"commit": {"topic": forth.pipeline.coordination.commit.topic}},
    )  # fmt: skip
    produce(forth.source, single, [(b"k", b"%d" % n) for n in range(5)])
    assert copy(one_way).stopped == {}
    interleave(ways, topic, 1)
    settle(ways)
    group = unique("mixed")
    commit(forth.source, group, {TopicPartition(single, 0): 3, TopicPartition(topic, 0): 3})
    pipeline = mapper_file(forth, group, bidirectional={"reverse": {"mappingTopic": unique("no-mappings")}})
    result = sync_once(pipeline)
    decided = {line.partition.topic: line.decision for line in result.lines(group)}
    assert decided == {single: CommitDecision.EXACT, topic: CommitDecision.UNKNOWN}
    assert result.unproven.keys() == {TopicPartition(topic, 0)}


@pytest.mark.parametrize(
    ("mode", "back_mode"),
    [("enabled", "disabled"), ("disabled", "enabled")],
    ids=["back at least once", "forth at least once"],
)
def test_the_mapping_records_tell_how_the_pipeline_back_copies(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, back_mode: str
) -> None:
    """The one at least once dies after it has sent records: they lie there twice, and nothing maps the first copies."""
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], mode, back_mode=back_mode)
    exactly_once, at_least_once = ways if mode == "enabled" else ways[::-1]
    interleave(ways, topic, 1)
    settle(ways)
    values = write_some(at_least_once, topic, "twice", 5)
    assert copy(at_least_once.pipeline, cores=1, runner=dying_first("settle", 1)).stopped == {}
    there = [record.value for record in read_all(at_least_once.target, topic)]
    assert all(there.count(value) == 2 for value in values)
    write_some(exactly_once, topic, "once", 3)
    settle(ways)
    for way, other in ((exactly_once, at_least_once), (at_least_once, exactly_once)):
        standing = groups_everywhere(way.source, topic)
        pipeline = of_groups(way, prefix_of(standing))
        counts = moved(pipeline, way, topic, standing)
        assert counts[CommitDecision.EXACT]
        assert counts.keys() <= {CommitDecision.EXACT, CommitDecision.MAY_REPEAT}
        result = sync_once(pipeline)
        with both_clusters(pipeline) as (source, target):
            verdicts = check_groups(pipeline, result, source, target)
        assert {verdict.judgement for verdict in verdicts.values()} == {Judgement.PASSED}, verdicts
        found = returned(pipeline, way, topic)
        assert found["unknown"] == 0
        assert returned(pipeline, way, topic, other.pipeline) == found
        here, there_now = read_all(way.source, topic), read_all(way.target, topic)
        places = range(there_now[-1].offset + 2)
        for answer in translate_offsets(pipeline, topic, 0, places, reverse=True):
            assert answer.to_offset is not None
            assert_true(here, there_now, answer.offset, answer.to_offset, answer.state == "exact")
