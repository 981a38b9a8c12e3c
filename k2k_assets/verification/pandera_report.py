"""Validates a Spark DataFrame by a pandera model, and finds the rows that break the model's rules.

On Spark pandera says which rules are broken, not by which rows. The rows are found by the same model: each of its rules
becomes a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from pandera.config import ValidationDepth, config_context
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

# What a value must be, by pandera's name of the rule and its arguments.
_KEPT: dict[str, Callable[[Column, dict[str, Any]], Column]] = {
    "greater_than_or_equal_to": lambda value, rule: value >= rule["min_value"],
    "isin": lambda value, rule: value.isin(list(rule["allowed_values"])),
    "str_matches": lambda value, rule: value.rlike(_text(rule["pattern"])),
}


def broken_rules(frame: DataFrame, model: Any) -> list[str]:
    """The rules that a frame breaks.

    Args:
        frame: The frame to validate; each rule is a Spark job.
        model: A pandera model for PySpark.
    """
    # The environment may turn pandera off, or its rules on data, for other code: these checks would pass, then.
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        checked: Any = model.to_schema().validate(frame)
    return [
        f"{fault.get('column')}: {fault.get('error') or fault.get('check')}"
        for kind in (checked.pandera.errors or {}).values()  # pandera adds this attribute to pyspark's class
        for reported in kind.values()
        for fault in reported
    ]


def offending_rows(frame: DataFrame, model: Any, most: int) -> list[Row]:
    """Rows that break a rule of a model.

    Args:
        frame: The frame.
        model: A pandera model for PySpark. Rules on columns that the frame does not have are left out.
        most: How many rows to return.
    """
    schema = model.to_schema()
    conditions = list(_conditions(schema, frame.columns))
    found = frame.where(reduce(lambda one, other: one | other, conditions)).limit(most).collect() if conditions else []
    key = list(schema.unique or ())
    if len(found) == most or not key or not set(key) <= set(frame.columns):
        return found
    repeated = frame.groupBy(*key).count().where(F.col("count") > 1).drop("count")
    return [*found, *frame.join(repeated, key).select(*frame.columns).limit(most - len(found)).collect()]


def _conditions(schema: Any, columns: list[str]) -> Iterator[Column]:
    for name, column in schema.columns.items():
        if name not in columns:
            continue
        if not column.nullable:
            yield F.col(name).isNull()
        for rule in column.checks:
            yield ~_KEPT[rule.name](F.col(name), rule.statistics)


def _text(pattern: Any) -> str:
    return str(getattr(pattern, "pattern", pattern))
