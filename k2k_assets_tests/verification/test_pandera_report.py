"""The rows that break a model are found by the model's own rules."""

from __future__ import annotations

from typing import Any

import pytest
from pandera.config import config_context
from pyspark.sql import SparkSession

from k2k_assets.mapping.index.schemas import COVERAGE, RUNS
from k2k_assets.verification.models import CommitLogModel, CoverageModel, GroupPositionsModel, RunsModel
from k2k_assets.verification.pandera_report import _KEPT, broken_rules, offending_rows

MODELS = (RunsModel, CoverageModel, CommitLogModel, GroupPositionsModel)
GROUP = {
    "group": "billing",
    "target_topic": "copy.orders",
    "target_partition": 0,
    "target_offset": 5,
    "left_on_target": 3,
    "state": "exact",
    "source_topic": "orders",
    "source_partition": 0,
    "source_offset": 6,
    "left_on_source": 3,
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_rule_of_a_model_finds_rows(model: Any) -> None:
    rules = [rule for column in model.to_schema().columns.values() for rule in column.checks]
    assert rules
    assert {rule.name for rule in rules} <= _KEPT.keys()


def test_the_models_of_the_index_have_its_columns_and_no_others() -> None:
    for model, schema in ((RunsModel, RUNS), (CoverageModel, COVERAGE)):
        columns = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
        assert columns == {field.name: field.dataType for field in schema}


WRONG: list[dict[str, object]] = [
    {"target_partition": -1},
    {"target_offset": -5},
    {"state": "nearly"},
    {"source_topic": "no topic's name"},
    {"group": None},
]


@pytest.mark.spark
def test_rows_that_break_rules_are_found(spark: SparkSession) -> None:
    rows = [GROUP | {"source_partition": n} | wrong for n, wrong in enumerate([{}, *WRONG, {}])]
    frame = spark.createDataFrame(rows, GroupPositionsModel.to_structtype())
    columns = {broken.partition(":")[0] for broken in broken_rules(frame, GroupPositionsModel)}
    assert columns == {name for wrong in WRONG for name in wrong}
    found = offending_rows(frame, GroupPositionsModel, len(rows))
    assert sorted((row.asDict() for row in found), key=lambda row: row["source_partition"]) == rows[1:-1]


@pytest.mark.spark
@pytest.mark.parametrize(
    "setting",
    [{"validation_enabled": False}, {"validation_depth": "SCHEMA_ONLY"}, {"validation_depth": "DATA_ONLY"}],
    ids=str,
)
def test_what_pandera_is_told_for_other_code_turns_no_rule_off(spark: SparkSession, setting: dict[str, Any]) -> None:
    """As `PANDERA_VALIDATION_ENABLED` and `PANDERA_VALIDATION_DEPTH` in the environment do."""
    bad = spark.createDataFrame([GROUP | {"target_offset": -5}], GroupPositionsModel.to_structtype()).drop("state")
    with config_context(**setting):
        said = broken_rules(bad, GroupPositionsModel)
    assert any(rule.startswith("target_offset") for rule in said), said
    assert any("state" in rule for rule in said), said


@pytest.mark.spark
def test_rows_with_the_same_key_are_found(spark: SparkSession) -> None:
    rows = [GROUP, GROUP | {"target_offset": 9}, GROUP | {"group": "shipping"}]
    frame = spark.createDataFrame(rows, GroupPositionsModel.to_structtype())
    assert broken_rules(frame, GroupPositionsModel)
    found = offending_rows(frame, GroupPositionsModel, 5)
    assert sorted(row["target_offset"] for row in found) == [5, 9]
    assert len(offending_rows(frame, GroupPositionsModel, 1)) == 1


@pytest.mark.spark
def test_a_good_frame_breaks_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame([GROUP | {"target_offset": None}], GroupPositionsModel.to_structtype())
    assert broken_rules(frame, GroupPositionsModel) == []
    assert offending_rows(frame, GroupPositionsModel, 5) == []
