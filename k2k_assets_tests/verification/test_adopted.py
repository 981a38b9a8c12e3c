"""What the checks, the index and the groups say of a copy that was adopted, on real clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import MappingIndex, update_index
from k2k_assets.orchestration.assets.groups.group_sync import limited_to
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.overrides.test_adopt import FITS, Migration
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import MODES

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]


@MODES
def test_all_checks_begin_where_it_was_adopted(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any, spark: SparkSession, mode: str
) -> None:
    below, at, behind = (unique(name) for name in ("below", "at", "behind"))
    migration = Migration(clusters, tmp_path, capsys, mode, index={"path": str(tmp_path / "index")})
    document = yaml.safe_load(migration.path.read_text())
    document["groups"] = {"consumerGroups": [below, at, behind]}
    migration.path.write_text(yaml.safe_dump(document))
    pipeline = load_pipeline([migration.path])
    for name, where in {below: (29, 12), at: (30, 12), behind: (35, 12)}.items():
        commit(migration.source, name, {TopicPartition(migration.topic, p): offset for p, offset in enumerate(where)})
    assert migration.adopt("--table", migration.table(*FITS), "--apply")[0] == 0

    for written in (10, 0):
        assert copy(pipeline).stopped == {}
        with both_clusters(pipeline) as (source, target):
            index = update_index(spark, pipeline, source, target)
            evidence = Evidence(pipeline, spark, index, source, target)
            verdicts = {name: run_check(name, evidence) for name in CHECKS}
        assert {name: v.summary for name, v in verdicts.items() if v.judgement is not Judgement.PASSED} == {}
        assert verdicts["content"].counts["equal"] >= 10, "what is new, and perhaps what was looked at before"
        migration.write(0, 40, written)
    noted = {p.partition: (p.began, p.target_began) for p in MappingIndex.open(pipeline).manifest.positions}
    assert noted == {0: (30, 25), 1: (12, 7)}
    # The same from the index as from the mapping topic.
    assert migration.translated(0, 29, 30, 45) == [(None, "unknown"), (25, "exact"), (40 + _markers(mode), "exact")]

    result = sync_once(limited_to(pipeline, [below, at, behind]))
    with both_clusters(pipeline) as (source, target):
        of_groups = check_groups(pipeline, result, source, target)
    assert of_groups[at].judgement is Judgement.PASSED, of_groups[at]
    assert of_groups[behind].judgement is Judgement.PASSED, of_groups[behind]
    assert of_groups[below].judgement is not Judgement.FAILED, of_groups[below]
    assert TopicPartition(migration.topic, 0) not in held(migration.target, below)


def _markers(mode: str) -> int:
    """Of our own transaction between 39 and 40."""
    return 1 if mode == "enabled" else 0
