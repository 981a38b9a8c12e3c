"""Who may know whom: the loop knows no Kafka client, the engine no JVM, the core neither. Imports are read, not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "k2k_assets"
LOOP = (
    "replication/slot/session.py",
    "replication/slot/transactions.py",
    "replication/slot/folding.py",
    "replication/slot/partition_state.py",
    "replication/slot/target_chain.py",
    "replication/slot/starting.py",
    "transport/interface.py",
    "transport/chunk.py",
    "stages",
)
CORE = (
    "pipeline",
    "core/naming.py",
    "core/topic_partition.py",
    "replication/plan.py",
    "coordination/rules.py",
    "core/runs.py",
    "mapping/algebra/fold.py",
    "mapping/algebra/partition_map.py",
    "mapping/algebra/translate.py",
    "mapping/algebra/spread.py",
)
# The client library, and the modules that speak for it.
_CLIENTS = re.compile(r"confluent_kafka|k2k_assets\.transport\.(?!interface|chunk|errors)")
_FRAMEWORKS = re.compile(r"(confluent_kafka|dagster\w*|pyspark|py4j|pandas|pyarrow)\b")
# Classic Spark only, and gone in Spark Connect.
_DRIVER_ONLY = {"sparkContext", "SparkContext", "rdd", "_jvm", "_jsc", "_jsparkSession"}


def modules(*parts: str) -> list[Path]:
    paths = [PACKAGE / part for part in parts]
    assert [path for path in paths if not path.exists()] == []
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


def imports(file: Path) -> Iterator[str]:
    """All that a module imports, also inside functions and for type checks, as `module.name`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name(file: Path) -> str:
    return str(file.relative_to(PACKAGE))


@pytest.mark.parametrize("file", modules(*LOOP), ids=name)
def test_the_loop_sees_kafka_through_the_interface_only(file: Path) -> None:
    assert [found for found in imports(file) if _CLIENTS.match(found)] == []


@pytest.mark.parametrize("file", modules(*CORE), ids=name)
def test_the_core_is_pure(file: Path) -> None:
    assert [found for found in imports(file) if _FRAMEWORKS.match(found)] == []


def test_the_engine_needs_no_spark_context() -> None:
    """So it runs on Spark Connect too; only what starts and replaces the JVM looks at one."""
    found = {
        name(file)
        for file in modules("")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in _DRIVER_ONLY)
        or (isinstance(node, ast.Name) and node.id in _DRIVER_ONLY)
    }
    assert {file for file in found if not file.startswith("spark/")} == set()
    assert "spark/lasting_spark.py" in found, "this test sees one"
