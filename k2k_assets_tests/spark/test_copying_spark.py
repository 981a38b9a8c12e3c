"""Spark in a run of Dagster: one Java process for the copy and the later steps, which ends with the run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from k2k_assets_tests.support.copies.processes import is_alive

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
_HEAD = """
import json, sys, time
from pathlib import Path
import psutil
from pyspark import SparkContext
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets_tests.support.copies.pipelines import make_pipeline

def pipeline(master):
    return make_pipeline(Path(sys.argv[1]), "127.0.0.1:1", "127.0.0.1:1", ["a"], spark={"master": master})

def resource(of):
    return PipelineSparkResource(spark_config=spark_conf(of))

def javas():
    return [child.pid for child in psutil.Process().children() if child.name() == "java"]
"""
_STEPS = """
one, two = pipeline("local[1]"), pipeline("local[2]")
with resource(one).copying(one):
    pass
first, context = javas(), SparkContext._active_spark_context
session = resource(one).session()
with resource(one).copying(one):
    pass
kept = SparkContext._active_spark_context is context is session.sparkContext
with resource(two).copying(two):
    pass
print(json.dumps({
    "kept": kept,
    "then": SparkContext._active_spark_context.master,
    "session": resource(two).session().conf.get("spark.master"),
    "back": resource(one).session().conf.get("spark.master"),
    "java": len(first) == 1 and javas() == first,
}))
SparkContext._active_spark_context.stop()
"""
_KILLED = """
one = pipeline("local[1]")
with resource(one).copying(one) as spark:
    if sys.argv[2] == "started":
        spark.await_start()
    print(json.dumps(psutil.Process().children()[0].pid), flush=True)
    time.sleep(120)
"""


def _running(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HEAD + code, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_copies_and_sessions_share_what_has_the_same_settings(tmp_path: Path) -> None:
    said, _ = _running(_STEPS, tmp_path).communicate(timeout=500)
    assert json.loads(said.strip().splitlines()[-1]) == {
        "kept": True,
        "then": "local[2]",
        "session": "local[2]",
        "back": "local[1]",
        "java": True,
    }


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting", "started"])
def test_a_process_that_is_killed_leaves_no_java(tmp_path: Path, when: str) -> None:
    with _running(_KILLED, tmp_path, when) as run:
        try:
            assert run.stdout is not None
            java = psutil.Process(json.loads(run.stdout.readline()))
            family = [java, *java.children(recursive=True)]
        finally:
            run.kill()
    psutil.wait_procs(family, 120)
    assert not any(map(is_alive, family))
