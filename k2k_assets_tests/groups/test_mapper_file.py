"""The offset mapper's file: the replicator's, and K2K's shorter one that only a mapper can use."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import PipelineFileError
from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.mapper_file import load_mapper_pipeline, routing_of
from k2k_assets.kafka.groups import Ends
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.sections import routing
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.groups import feeding
from k2k_assets_tests.pipeline.files import TUTORIAL
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

# The example in K2K's documentation.
MAPPER_ONLY = {
    "name": "offset-mapper",
    "license": {"acceptEula": True, "token": "x"},
    "features": {"autoCreateControlTopics": "enabled", "applyMappingsGuard": "enabled"},
    "source": {"kafka": {"common": {"bootstrap.servers": "s:9092"}, "admin": {}}},
    "target": {"kafka": {"common": {"bootstrap.servers": "t:9092"}}},
    "groups": {"pollInterval": "5 seconds", "consumerGroups": ".*", "offsetGuardPrefix": "k2k_"},
    "offsetMapping": {"topic": "m", "retention": {"time": "topic", "count": 1000, "schedule": "5 minutes"}},
    "metrics": {"prefix": {"offsetMappingApp": "k2k.offsetmapping."}, "kafka": {"topic": "__k2k_metrics"}},
    "topicCreation": {"control": {"offsetMapping": {"partitions": 6}, "metrics": {"partitions": 3}}},
    "errorHandling": {"onMultipleTargetCommittedOffsets": "fail", "onActiveConsumerGroupCommit": "fail"},
}


WHOLE_EXAMPLE = """\
name: "offset-mapping-production"
license:
  token: "<your-license-token>"
  acceptEula: true
features:
  autoCreateControlTopics: enabled
  applyMappingsGuard: enabled
source:
  kafka:
    common:
      "bootstrap.servers": "source-kafka:9092"
    admin:
target:
  kafka:
    common:
      "bootstrap.servers": "target-kafka:9093"
    consumer:
    producer:
    admin:
groups:
  pollInterval: "5 seconds"
  consumerGroups: "^my-app-.*"
  offsetGuardPrefix: "k2k_"
offsetMapping:
  topic: "__k2k_offset_mappings"
  retention:
    time: "topic"
    count: 1000
    schedule: "5 minutes"
metrics:
  prefix:
    targetConsumer: "k2k.offsetmapping.consumer.control."
    targetProducer: "k2k.offsetmapping.producer."
    offsetMappingApp: "k2k.offsetmapping."
  kafka:
    topic: "__k2k_metrics"
topicCreation:
  control:
    common:
      partitions: 3
      replication: 3
      config:
        "min.insync.replicas": "2"
    offsetMapping:
      partitions: 6
      replication: 3
      config:
        "cleanup.policy": "delete"
        "retention.ms": "604800000"
    metrics:
      partitions: 3
      replication: 3
      config:
        "cleanup.policy": "delete"
        "retention.ms": "2592000000"
configuration:
  autoControlTopicCreationCheckDelay: "750 milliseconds"
  autoControlTopicCreationMaxAttempts: 10
errorHandling:
  onMultipleTargetCommittedOffsets: fail
  onActiveConsumerGroupCommit: fail
"""


def write(directory: Path, document: object) -> Path:
    path = directory / f"{unique('mapper')}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_whole_example_of_k2ks_page_loads_as_it_stands_alone_and_over_a_replicators_file(tmp_path: Path) -> None:
    over, base = tmp_path / "mapper.yaml", tmp_path / "replicator.yaml"
    over.write_text(WHOLE_EXAMPLE)
    base.write_text(TUTORIAL)
    for pipeline in (load_mapper_pipeline([over]), load_pipeline([base, over])):
        assert pipeline.warnings == ()
        assert pipeline.groups.consumer_groups == "^my-app-.*"
        assert pipeline.topic_creation.control_topic("offset_mapping").partitions == 6


def test_a_file_for_the_mapper_alone_is_enough(tmp_path: Path) -> None:
    pipeline = load_mapper_pipeline([write(tmp_path, MAPPER_ONLY)])
    assert pipeline.group == ANY_GROUP
    assert pipeline.warnings == ()
    with pytest.raises(PipelineFileError, match="replication"):
        load_pipeline([write(tmp_path, MAPPER_ONLY)])
    faulty = {**MAPPER_ONLY, "source": {"kafka": {"common": {}}}, "target": {"kafka": {"common": 5}}}
    path = write(tmp_path, faulty)
    with pytest.raises(PipelineFileError) as error:
        load_mapper_pipeline([path])
    assert f"{path}:" in str(error.value), "faults are shown in the user's file"
    assert "bootstrap.servers" in str(error.value)


def test_the_replicators_file_says_itself_what_it_says(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, "s:9092", "t:9092", ["a"], sink={"prefix": "x."})
    ours, theirs = load_mapper_pipeline([path]), load_pipeline([path])
    assert ours.code_version == theirs.code_version
    assert ours.group == theirs.group
    assert routing_of(ours, []) == theirs.routing


@pytest.mark.parametrize(("to", "partition"), [(0, "source"), (3, "producer")])
def test_where_topics_go_is_what_the_mappings_say(tmp_path: Path, to: int, partition: str) -> None:
    pipeline = load_mapper_pipeline([write(tmp_path, MAPPER_ONLY)])
    runs = {Target("copy.a", "tid", to): RunTable.of([Run(0, 0, 1)])}
    maps = [PartitionMap(SourcePartition("c", topic, "id", 0), 0, (), runs if topic == "a" else {}) for topic in "ab"]
    found = routing_of(pipeline, maps)
    assert (found.target_topic("a"), found.partition) == ("copy.a", partition)
    assert found.topic.target("b") is None


def test_of_a_topic_that_was_routed_otherwise_the_newest_target_counts(tmp_path: Path) -> None:
    pipeline = load_mapper_pipeline([write(tmp_path, MAPPER_ONLY)])
    old, new = (Target(topic, "tid", 0) for topic in ("old", "new"))
    runs = {old: RunTable.of([Run(0, 0, 10)]), new: RunTable.of([Run(10, 0, 1)])}
    for tables in (runs, dict(reversed(runs.items()))):
        mapping = PartitionMap(SourcePartition("c", "a", "id", 0), 0, (), tables)
        assert routing_of(pipeline, [mapping]).target_topic("a") == "new"
    # The other partition has no newer records; its offsets are higher, and its commit record is older.
    other = PartitionMap(
        SourcePartition("c", "a", "id", 1), 0, (), {old._replace(partition=1): RunTable.of([Run(0, 0, 99)])}
    )
    copied = {m.source: _committed(m.source, to, time) for m, to, time in ((mapping, "new", 2), (other, "old", 1))}
    for maps in ([mapping, other], [other, mapping]):
        assert routing_of(pipeline, maps, copied).target_topic("a") == "new"


def _committed(source: SourcePartition, target: str, time: int) -> CommitRecord:
    at = TopicPartition(source.topic, source.partition)
    return CommitRecord("g", "c", at, "commit", "p", 1, None, "id", target, "tid", None, 1, 0, 1, time)


def test_a_topic_is_not_taken_for_another_one(tmp_path: Path) -> None:
    pipeline = load_mapper_pipeline([write(tmp_path, MAPPER_ONLY)])
    runs = {Target("copy.a.b", "tid", 0): RunTable.of([Run(0, 0, 1)])}
    found = routing_of(pipeline, [PartitionMap(SourcePartition("c", "a.b", "id", 0), 0, (), runs)])
    assert found.target_topic("a.b") == "copy.a.b"
    assert found.topic.target("aXb") is None


def test_where_many_topics_go_is_looked_up_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name with a dot was compared with the patterns of all topics, for each partition of its topic."""
    pipeline = load_mapper_pipeline([write(tmp_path, MAPPER_ONLY)])
    at = [TopicPartition(f"a.{n}", p) for n in range(3) for p in range(2)]
    maps = [
        PartitionMap(
            SourcePartition("c", tp.topic, "id", tp.partition),
            0,
            (),
            {Target(f"copy.{tp.topic}", "tid", tp.partition): RunTable.of([Run(0, 0, 1)])},
        )
        for tp in at
    ]
    monkeypatch.setattr(routing, "compile_java", Mock(side_effect=AssertionError))
    found = routing_of(pipeline, maps)
    targets = {TopicPartition(f"copy.{tp.topic}", tp.partition): tp for tp in at}
    assert list(feeding(at, found, dict.fromkeys(targets, Ends(0, 1)))) == [
        ([target], [source]) for target, source in targets.items()
    ]
    assert found.topic.target("b") is None


@pytest.mark.integration
def test_it_translates_by_all_that_the_mapping_topic_holds(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topics = [create_topic(source, unique("orders")) for _ in range(2)]
    shared = {"commit": {"topic": unique("commits")}, "assignment": {"topic": unique("claims")}}
    mappings, group = unique("mappings"), unique("group")
    for number, topic in enumerate(topics):
        produce(source, topic, [b"%d" % n for n in range(30)], transactional_id=unique("tx"))
        pipeline = make_pipeline(
            tmp_path,
            source,
            target,
            [topic],
            sink={"prefix": f"copy{number}."},
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            coordination=shared,
            offsetMapping={"topic": mappings},
        )
        copy(pipeline)
        commit(source, group, {TopicPartition(topic, 0): 10 + number})
    document = {
        **MAPPER_ONLY,
        "source": {"kafka": {"common": {"bootstrap.servers": source}}},
        "target": {"kafka": {"common": {"bootstrap.servers": target}}},
        "groups": {"consumerGroups": [group]},
        "coordination": shared,
        "offsetMapping": {"topic": mappings},
        "index": {"path": str(tmp_path / "index")},
    }
    result = sync_once(load_mapper_pipeline([write(tmp_path, document)]))
    assert result.failed == {}
    assert {tp: offset for tp, (offset, _) in held(target, group).items()} == {
        TopicPartition(f"copy{number}.{topic}", 0): 10 + number for number, topic in enumerate(topics)
    }
