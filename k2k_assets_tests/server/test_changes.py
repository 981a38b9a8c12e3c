"""What a plan names, so that what is confirmed is what was shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.overrides.decide import Override, PartitionFacts
from k2k_assets.pipeline import Pipeline
from k2k_assets.server.changes import PositionsBody, plan_of
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record

AT = TopicPartition("orders", 0)
LATEST = PositionsBody(offsets=["orders:0:latest"])


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return make_pipeline(tmp_path, "s:1", "t:1", ["orders"])


def _decided(position: int = 20, committed: int = 12, **more: Any) -> Override:
    record = commit_record(AT, committed)
    ids = record.source_topic_id, record.target_topic, record.target_topic_id
    return Override(replace(PartitionFacts(AT, record, None, *ids, 8, 20, 20, None), **more), position, (), False)


def test_it_stays_the_same_while_the_source_is_written(pipeline: Pipeline) -> None:
    assert plan_of(pipeline, [_decided(20)], LATEST) == plan_of(pipeline, [_decided(25)], LATEST)


@pytest.mark.parametrize("more", [{"committed": 13}, {"lost_from": 4}, {"cut_off": 4}])
def test_it_is_another_one_where_more_is_skipped_than_was_shown(more: dict[str, int], pipeline: Pipeline) -> None:
    assert plan_of(pipeline, [_decided(**more)], LATEST) != plan_of(pipeline, [_decided()], LATEST)


def test_with_force_the_copy_may_move_on_and_lose_nothing(pipeline: Pipeline) -> None:
    forced = LATEST.model_copy(update={"force": True})
    first, moved, lost = (
        plan_of(pipeline, [each], forced) for each in (_decided(), _decided(committed=13), _decided(lost_from=4))
    )
    assert first == moved != lost
