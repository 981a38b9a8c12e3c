"""G5, by the cluster's own word: a whole run of everything with a user who can do nothing on the source but read."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession

from k2k_assets.assets.translator import Translator
from k2k_assets.automation.discovery import refresh
from k2k_assets.checks.asset_checks import CHECKS
from k2k_assets.cli import tool
from k2k_assets.definitions import build_definitions
from k2k_assets.pipeline import load_pipeline
from k2k_assets.resources.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.permissions.stage import Stage
from k2k_assets_tests.support import kafka
from k2k_assets_tests.support.copying import assert_same_content
from k2k_assets_tests.support.groups import commit, held

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(300)]

ONLY_READING = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}


def test_copy_index_checks_groups_and_tool_with_what_k2k_acls_prints(
    secure_clusters: KafkaSandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spark: SparkSession,
) -> None:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    stage = Stage(secure_clusters, folder)
    source, target = stage.servers("source"), stage.servers("target")
    topic = kafka.create_topic(source, kafka.unique("whole"), 2)
    for partition in range(2):
        kafka.produce(source, topic, [b"%d" % n for n in range(50)], partition, kafka.unique("tx"))
    group = kafka.unique("group")
    commit(source, group, {TopicPartition(topic, 1): 20})
    path = stage.pipeline_file([topic], groups={"consumerGroups": [group]})
    acls = stage.acls(path)
    assert {acl.operation for acl in acls["source"]} <= ONLY_READING
    stage.grant(acls)
    pipeline = load_pipeline([path])
    names = Translator(pipeline.name)

    with both_clusters(pipeline) as clusters:
        assert set(refresh(pipeline, *clusters).groups) == {group}
    job = build_definitions(folder).resolve_job_def(names.job)
    result = job.execute_in_process(
        run_config={"ops": {names.op("topics"): {"config": {"extent": "caught_up"}}}},
        instance=dg.DagsterInstance.ephemeral(),
    )

    assert result.success
    verdicts = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert verdicts.keys() > CHECKS.keys()
    assert all(verdicts.values()), verdicts
    copied = pipeline.routing.target_topic(topic)
    assert assert_same_content(source, topic, target, copied) == 100
    (offset, _) = held(target, group)[TopicPartition(copied, 1)]
    read = kafka.read_all(target, copied, 1)
    assert next(record.value for record in read if record.offset >= offset) == b"20"
    capsys.readouterr()
    assert tool.run(["translate", "-f", str(path), "--topic", topic, "--partition", "1", "--offset", "20"]) == 0
    assert f"{offset:,}" in capsys.readouterr().out
