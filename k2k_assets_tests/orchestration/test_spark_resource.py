"""A pipeline's Spark settings, and that each pipeline of a process gets a session with its own."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException

from k2k_assets.core.cores import usable_cores
from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets.spark import lasting_spark
from k2k_assets.spark.lasting_spark import LastingSpark, say_less_of_broken_connections
from k2k_assets.spark.sessions import not_started
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets_tests.support.copies.pipelines import make_pipeline

ROOT = Path(__file__).parents[2]


def _conf(tmp_path: Path, **spark: object) -> dict[str, str]:
    return spark_conf(make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark=spark))


def test_what_the_engine_rests_on_cannot_be_set_otherwise(tmp_path: Path) -> None:
    conf = _conf(
        tmp_path, config={"spark.speculation": "true", "spark.task.maxFailures": "4", "spark.ui.enabled": "true"}
    )
    assert (conf["spark.speculation"], conf["spark.task.maxFailures"]) == ("false", "1")
    assert conf["spark.ui.enabled"] == "true", "the rest is the user's"
    assert conf["spark.master"] == f"local[{usable_cores()}]"
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


IN_JAVA = Py4JError(
    "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
    ": org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n\tat org.apache.spark.SparkContext"
)
WHY_IN_JAVA = (
    "Spark did not start with spark.master local[x]: "
    "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"
)


def _refusing(error: Exception) -> Callable[..., object]:
    def refuse(*_: object) -> object:
        raise error

    return refuse


def test_a_master_that_spark_refuses_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark={"master": "local[x]"})
    monkeypatch.setattr(lasting_spark, "build_engine", _refusing(IN_JAVA))
    monkeypatch.setattr(lasting_spark, "_jvm_ends", lambda: False)
    with pytest.raises(K2KError) as caught:
        LastingSpark(pipeline)
    assert str(caught.value) == WHY_IN_JAVA

    monkeypatch.setattr(PipelineSparkResource, "started", _refusing(IN_JAVA))
    with pytest.raises(K2KError) as caught:
        PipelineSparkResource(spark_config=spark_conf(pipeline)).session()
    assert str(caught.value) == WHY_IN_JAVA


def test_a_connect_server_that_does_not_answer_is_named_at_once_without_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = "sc://spark.example:15002/;user_id=k2k;token=hunter2"
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark={"remote": remote})
    tries: list[object] = []

    def unreachable(given: object, *_: object) -> object:
        tries.append(given)
        raise PySparkException(f"[RETRIES_EXCEEDED] No answer from {remote}: hunter2")

    monkeypatch.setattr(lasting_spark, "build_engine", unreachable)
    monkeypatch.setattr(lasting_spark, "_jvm_ends", lambda: True)  # there is none
    with pytest.raises(K2KError) as caught:
        LastingSpark(pipeline)
    assert len(tries) == 1
    assert str(caught.value) == (
        "Spark did not start on the server spark.example:15002 (spark.remote): "
        "[RETRIES_EXCEEDED] No answer from ...: ..."
    )


@pytest.mark.parametrize(
    ("remote", "server"),
    [("sc://host:1", "host:1"), ("sc://me:hunter2@host/;a=b://c", "host"), ("host;token=hunter2", "host")],
)
def test_a_connect_server_is_its_host_and_port(remote: str, server: str) -> None:
    said = str(not_started({"spark.remote": remote}, OSError(f"no {remote}")))
    assert said == f"Spark did not start on the server {server} (spark.remote): no ..."


def test_the_details_of_a_failed_call_are_its_cause() -> None:
    call = '<_InactiveRpcError of RPC that terminated with:\n\tstatus = UNAVAILABLE\n\tdetails = "refused"\n>'
    assert str(not_started({"spark.remote": "sc://h"}, PySparkException(call))).endswith(": refused")
    assert str(not_started({"spark.master": "local"}, OSError())).endswith(": OSError")


@pytest.mark.parametrize(("error", "loud"), [(EOFError(), False), (ConnectionError(), False), (KeyError(), True)])
def test_a_killed_jvm_leaves_no_traceback_of_the_accumulators(
    error: Exception,
    loud: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind in (AccumulatorTCPServer, AccumulatorUnixServer):
        # To be put back.
        monkeypatch.setattr(kind, "handle_error", socketserver.BaseServer.handle_error, raising=False)
    say_less_of_broken_connections()

    class Broken(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            raise error

    server = AccumulatorTCPServer(("127.0.0.1", 0), Broken, "token")
    with server, socket.create_connection(server.server_address), caplog.at_level(logging.DEBUG, "k2k.spark"):  # type: ignore[arg-type]
        server.handle_request()
    assert ("Exception occurred during processing" in capsys.readouterr().err) == loud
    assert len(caplog.records) == (not loud)


_SESSIONS = """
import json, signal, sys
from pathlib import Path
from k2k_assets.spark.sessions import build_session
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets_tests.support.copies.pipelines import make_pipeline

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


@pytest.mark.storm
@pytest.mark.spark
def test_sessions_in_one_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SESSIONS, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
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
