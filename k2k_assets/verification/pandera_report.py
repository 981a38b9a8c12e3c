"""What pandera reports of a DataFrame of Spark, in words."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def broken_rules(frame: DataFrame, model: Any) -> list[str]:
    """The rules that a frame breaks.

    Args:
        frame: What to look at; each rule is a Spark job.
        model: A pandera model for PySpark.
    """
    checked: Any = model.to_schema().validate(frame)
    return [
        f"{fault.get('column')}: {fault.get('error') or fault.get('check')}"
        for kind in (checked.pandera.errors or {}).values()  # pyspark's type does not know what pandera adds
        for reported in kind.values()
        for fault in reported
    ]
