"""Turns pandera's report on a Spark DataFrame into text."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def broken_rules(frame: DataFrame, model: Any) -> list[str]:
    """The rules that a frame breaks.

    Args:
        frame: The frame to validate; each rule is a Spark job.
        model: A pandera model for PySpark.
    """
    checked: Any = model.to_schema().validate(frame)
    return [
        f"{fault.get('column')}: {fault.get('error') or fault.get('check')}"
        for kind in (checked.pandera.errors or {}).values()  # pandera adds this attribute to pyspark's class
        for reported in kind.values()
        for fault in reported
    ]
