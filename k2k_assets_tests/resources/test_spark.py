"""A pipeline's Spark settings, and that each pipeline of a process gets a session with its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from k2k_assets.resources.spark import spark_conf
from k2k_assets_tests.support.pipelines import make_pipeline

ROOT = Path(__file__).parents[2]


def _conf(tmp_path: Path, **spark: object) -> dict[str, str]:
    return spark_conf(make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark=spark))


def test_what_the_engine_rests_on_cannot_be_set_otherwise(tmp_path: Path) -> None:
    conf = _conf(
        tmp_path, config={"spark.speculation": "true", "spark.task.maxFailures": "4", "spark.ui.enabled": "true"}
    )
    assert (conf["spark.speculation"], conf["spark.task.maxFailures"]) == ("false", "1")
    assert conf["spark.ui.enabled"] == "true", "the rest is the user's"
    assert conf["spark.master"] == "local[*]"
    assert conf["spark.pyspark.python"] == sys.executable


def test_a_connect_address_replaces_the_master_and_what_only_its_server_can_set(tmp_path: Path) -> None:
    config = {"spark.sql.shuffle.partitions": "3"}
    conf = _conf(tmp_path, remote="sc://spark.example:15002", master="local[3]", config=config)
    assert conf["spark.remote"] == "sc://spark.example:15002"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    ours = {"spark.remote", "spark.k2k.settings"}
    assert [name for name in conf.keys() - ours if not name.startswith("spark.sql.")] == []


def test_pipelines_with_the_same_settings_share_a_session(tmp_path: Path) -> None:
    one, other, different = _conf(tmp_path), _conf(tmp_path), _conf(tmp_path, master="local[1]")
    assert one["spark.app.name"] != other["spark.app.name"]
    assert one["spark.k2k.settings"] == other["spark.k2k.settings"] != different["spark.k2k.settings"]


_SESSIONS = """
import json, signal, sys
from pathlib import Path
from k2k_assets.resources.spark import PipelineSparkResource, build_session, spark_conf
from k2k_assets_tests.support.pipelines import make_pipeline

def pipeline(**spark):
    return make_pipeline(Path(sys.argv[1]), "127.0.0.1:1", "127.0.0.1:1", ["a"], spark=spark)

handler = signal.getsignal(signal.SIGINT)
first = build_session(pipeline(master="local[1]"))
same = build_session(pipeline(master="local[1]"))
resource = PipelineSparkResource(spark_config=spark_conf(pipeline(master="local[2]")))
other = resource.session()

def executable(batches):
    import sys
    import pyarrow
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable]})

worker = other.range(1).mapInArrow(executable, "python string").collect()[0]["python"]
back = build_session(pipeline(master="local[1]"))
again = resource.session()
print(json.dumps({
    "shared": first is same,
    "masters": [other.conf.get("spark.master"), again.conf.get("spark.master")],
    "worker": worker,
    "handler": signal.getsignal(signal.SIGINT) == handler,
}))
again.stop()
"""


@pytest.mark.spark
def test_sessions_in_one_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SESSIONS, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert said == {
        "shared": True,
        "masters": ["local[2]", "local[2]"],
        "worker": sys.executable,
        "handler": True,
    }
