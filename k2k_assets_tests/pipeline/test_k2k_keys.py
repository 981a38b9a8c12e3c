"""Every key of K2K's language is accepted; keys of features that are not built, while these are disabled."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.pipeline.files import changed, load_text

COUNTS = {"partitions": 3, "replication": 1, "config": {"min.insync.replicas": 2}}

ACCEPTED: dict[str, object] = {
    "name": "p",
    "license/acceptEula": True,
    "license/token": "t",
    "features/exactlyOnce": "enabled",
    "features/headerReplication": "enabled",
    "features/schemaMapping": "disabled",
    "features/optimizeOffsetCommitPartition": "disabled",
    "features/validateControlTopicSettings": "enabled",
    "features/keepRecordCreationTimestamp": "disabled",
    "features/tracingHeaders": "disabled",
    "features/autoCreateControlTopics": "enabled",
    "features/autoCreateTopics": "disabled",
    "features/checkKafkaConnectionOnStartup": "enabled",
    "features/bidirectionalReplication": "disabled",
    "features/offsetMapping": "enabled",
    "features/applyMappingsGuard": "enabled",
    "features/applyMappingsGuards": "enabled",
    "source/kafka/common/client.id": "c",
    "source/kafka/consumer/auto.offset.reset": "latest",
    "source/kafka/admin/request.timeout.ms": 5000,
    "target/kafka/common/client.id": "c",
    "target/kafka/consumer/fetch.min.bytes": 1,
    "target/kafka/producer/linger.ms": 5,
    "target/kafka/admin/retry.backoff.ms": 100,
    "replication/0/source/name": "s",
    "replication/0/source/topic": ["a", "b"],
    "replication/1/sink/name": "s",
    "replication/1/sink/partition": "producer",
    "coordination/commit/topic": "c",
    "coordination/commit/syncTimeout": "40 seconds",
    "coordination/commit/batchSize": 10,
    "coordination/commit/batchTimeout": "1 second",
    "coordination/assignment/topic": "a",
    "coordination/assignment/graceWindow": "10 seconds",
    "coordination/assignment/fencingMaxParallelism": 2,
    "errorHandling/onCommitSyncTimeout": "ignore",
    "errorHandling/onControlMessageDeserializationError": "ignore",
    "errorHandling/onMultipleTargetCommittedOffsets": "fail",
    "errorHandling/onActiveConsumerGroupCommit": "fail",
    "topicCreation/control/common": COUNTS,
    "topicCreation/control/assignment": COUNTS,
    "topicCreation/control/commit": COUNTS,
    "topicCreation/control/metrics": COUNTS,
    "topicCreation/control/offsetMapping": COUNTS,
    "configuration/autoControlTopicCreationCheckDelay": "1 second",
    "configuration/autoControlTopicCreationMaxAttempts": 3,
    "configuration/pipelineParallelism": 2,
    "configuration/partitionParallelism": 2,
    "offsetMapping/topic": "m",
    "offsetMapping/retention": {"time": "topic", "count": 1000, "schedule": "5 minutes"},
    "groups/pollInterval": "5 seconds",
    "groups/consumerGroups": ".*",
    "groups/offsetGuardPrefix": "k2k_",
    "groups/onForeignTargetCommit": "overwrite",
    "tracing": {"headers": {"partition": "p", "offset": "o", "topic": "t", "pipeline": "n"}},
    "schemaMapping": {"supportedTypes": ["AVRO"], "topics": [{"pattern": ".*", "key": "enabled"}]},
    "schemaMapping/topics": [{"pattern": ".*", "key": "enabled", "unframed": "refused", "nulls": "untouched"}],
    "bidirectional": {"mode": "pipeline", "headers": {"bidirectional": "h"}},
    "source/registry": {"config": {}, "headers": {}, "cacheSize": 31},
    "target/registry": {"config": {}},
    "target/kafka/topicPropsExclusionList": [],
    "topicCreation/replication": {"common": {"partitions": None}, "rules": []},
    "metrics": {"prefix": {"targetConsumer": "a.", "offsetMappingApp": "b."}, "kafka": {"topic": "__k2k_metrics"}},
    "spark": {"slots": 2, "master": "local[1]", "config": {"spark.ui.enabled": False}},
    "sync": {"window": "1 minute", "idle": "1 second", "minCommitInterval": "10 milliseconds"},
    "index": {"path": "/tmp/index", "retention": "720 hours"},
    "errorHandling/onForeignWriter": "ignore",
}


@pytest.mark.parametrize("path", ACCEPTED)
def test_accepted(tmp_path: Path, path: str) -> None:
    load_text(tmp_path, changed({path: ACCEPTED[path]}))


def test_all_accepted_together(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed(ACCEPTED))
    assert pipeline.features.exactly_once
    assert pipeline.coordination.commit.topic == "c"
    assert pipeline.topic_creation.control_topic("offset_mapping").config == {"min.insync.replicas": "2"}


def test_defaults_are_k2ks(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed({"features": {}}))
    features = pipeline.features
    enabled = {name for name in type(features).model_fields if getattr(features, name) is True}
    assert set(features.tracing_headers.model_dump().values()) == {False}
    assert enabled == {
        "apply_mappings_guard",
        "optimize_offset_commit_partition",
        "validate_control_topic_settings",
        "keep_record_creation_timestamp",
        "auto_create_topics",
        "check_kafka_connection_on_startup",
    }
    commit, assignment = pipeline.coordination.commit, pipeline.coordination.assignment
    assert (commit.topic, commit.sync_timeout.seconds, commit.batch_size) == ("__k2k_consumer-offsets", 30, 1000)
    assert commit.batch_timeout.total_seconds() == 2
    assert (assignment.topic, assignment.fencing_max_parallelism) == ("__k2k_assignment", 5)
    assert assignment.grace_window.total_seconds() == 15
    assert pipeline.offset_mapping.topic == "__k2k_offset_mappings"
    assert pipeline.configuration.auto_control_topic_creation_check_delay.total_seconds() == 0.75
    assert pipeline.configuration.auto_control_topic_creation_max_attempts == 10
    assert pipeline.configuration.partition_parallelism is None
    assert pipeline.error_handling.on_commit_sync_timeout == "fail"
    assert pipeline.error_handling.on_foreign_writer is None
    assert (pipeline.spark.master, pipeline.spark.remote) == ("local[*]", None)
    sync = pipeline.sync
    assert (sync.window.total_seconds(), sync.idle.total_seconds(), sync.reports_per_day) == (3600, 5, 1800)
    assert (pipeline.groups.reports_per_day, pipeline.checks.interval.total_seconds()) == (450, 600)
    assert (sync.min_commit_interval.total_seconds(), sync.metadata_interval.total_seconds()) == (0.005, 30)
