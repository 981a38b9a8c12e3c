"""The engine needs no SparkContext, so it runs on Spark Connect too; only code that starts the JVM uses one."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "k2k_assets"
# Classic Spark only, and gone in Spark Connect.
_DRIVER_ONLY = {"sparkContext", "SparkContext", "rdd", "_jvm", "_jsc", "_jsparkSession"}


def test_only_the_spark_room_looks_at_one() -> None:
    found = {
        str(file.relative_to(PACKAGE))
        for file in sorted(PACKAGE.rglob("*.py"))
        if any(name in (text := file.read_text(encoding="utf-8")) for name in _DRIVER_ONLY)
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr in _DRIVER_ONLY)
        or (isinstance(node, ast.Name) and node.id in _DRIVER_ONLY)
    }
    assert {file for file in found if not file.startswith("spark/")} == set()
    assert "spark/lasting_spark.py" in found, "this test sees one"
