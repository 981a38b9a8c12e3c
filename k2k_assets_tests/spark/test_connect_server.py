"""An unreachable Spark Connect server is reported in bounded time; pyspark itself would try for ten minutes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark import connect_server
from k2k_assets.spark.connect_server import await_connect_server
from k2k_assets.spark.lasting_spark import LastingSpark
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=["refuses", "is silent"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where no server is: nobody listens, or somebody does who never says a word."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            taken.listen()
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def _for_a_run_without_an_end(pipeline: Pipeline) -> object:
    return LastingSpark(pipeline)


def _for_dagster(pipeline: Pipeline) -> object:
    return PipelineSparkResource(spark_config=spark_conf(pipeline)).session()


@pytest.mark.parametrize("made", [_for_a_run_without_an_end, _for_dagster])
def test_a_server_that_cannot_be_reached_is_named(
    tmp_path: Path, address: str, made: Callable[[Pipeline], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_server, "_SECONDS", 0.5)
    spark = {"remote": f"sc://{address}/;user_id=hunter2"}
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark=spark)
    with pytest.raises(K2KError) as caught:
        made(pipeline)
    assert str(caught.value) == (
        f"Spark did not start on the server {address} (spark.remote): no connection in 0.5 seconds"
    )


def test_the_time_is_bounded() -> None:
    assert connect_server._SECONDS <= 15


def test_a_server_that_is_there_is_not_waited_for() -> None:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        await_connect_server(f"sc://127.0.0.1:{port}")
        server.stop(None).wait()


@pytest.mark.parametrize(
    ("remote", "why"), [("sc://host:port", "Port could not be cast"), ("sc://host/path", "INVALID_CONNECT_URL")]
)
def test_an_address_that_is_none_is_told_at_once(tmp_path: Path, remote: str, why: str) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["a"], spark={"remote": remote})
    with pytest.raises(K2KError, match=rf"on the server host.* \(spark\.remote\): .*{why}"):
        LastingSpark(pipeline)
