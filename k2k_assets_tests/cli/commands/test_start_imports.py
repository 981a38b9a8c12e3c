"""The imports of `k2k start` while Java starts: each forbidden one takes as long as a whole start may take."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# The imports of a start before it starts Java, and all of its imports.
_LIGHT = "import k2k_assets.cli.main, k2k_assets.cli.commands.start"
_ALL = f"""
{_LIGHT}
import k2k_assets.discovery, k2k_assets.cli.commands.progress, k2k_assets.kafka.cluster
import k2k_assets.permissions.topic_check, k2k_assets.replication, k2k_assets.spark.lasting_spark
"""
_WORKER = "import k2k_assets.spark.slot_task, k2k_assets.spark.worker_daemon"


def imported_by(code: str) -> set[str]:
    """The top-level packages, and our own, that a new interpreter holds afterwards."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    names: list[str] = json.loads(said.stdout)
    return {name if name.startswith("k2k_assets.") else name.partition(".")[0] for name in names}


@pytest.mark.parametrize("code", [_ALL, _WORKER], ids=["driver", "worker"])
def test_nothing_of_dagster_and_of_the_sandbox(code: str) -> None:
    found = imported_by(code)
    assert {name for name in found if "dagster" in name} == set()
    assert found.isdisjoint({"cryptography", "trustme", "pandas", "pyarrow", "grpc", "k2k_assets.sandbox.broker"})
    assert "k2k_assets.spark.slot_task" in found, "this test sees what is imported"


def test_java_is_started_before_the_heavy_ones() -> None:
    assert imported_by(_LIGHT).isdisjoint({"confluent_kafka", "numpy", "pyspark", "k2k_assets.replication"})


def test_the_process_that_workers_are_forked_from_has_one_thread() -> None:
    code = (
        "import k2k_assets.spark.worker_daemon, pyspark.worker, k2k_assets.spark.slot_task, os, sys\n"
        "sys.exit(len(os.listdir('/proc/self/task')) - 1 if os.path.isdir('/proc/self/task') else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
