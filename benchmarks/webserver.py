"""Dagster's webserver and its code server as a process of its own, told to launch runs as its UI tells it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.lab import Lab
from k2k_assets.core.deadline import wait_until
from k2k_assets.definitions import FOLDER_VARIABLE

# Without Dagster's queue, whose daemon looks for new runs every five seconds: that wait is Dagster's own.
INSTANCE = """telemetry:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
LOCATION = "k2k_assets.definitions"
_ASSET_JOB = "__ASSET_JOB"
_START_SECONDS = 120.0
_END_SECONDS = 15.0
_ANSWER_SECONDS = 60.0
_ENDED = {"SUCCESS", "FAILURE", "CANCELED"}

# As the UI's button Materialize asks for it.
_LAUNCH = """
mutation Launch($executionParams: ExecutionParams!) {
  launchPipelineExecution(executionParams: $executionParams) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
_STATUS = "query Status($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
_LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename } } } } }"


class Webserver:
    """Runs while it is entered; then its code location is loaded.

    Args:
        lab: Names the scratch folder; Dagster's output goes to `webserver.log` there.
        pipelines: The folder of the pipeline files.

    Attributes:
        process: The webserver; its code server is a child of it.
    """

    def __init__(self, lab: Lab, pipelines: Path) -> None:
        self._lab, self._pipelines = lab, pipelines
        self._port = _free_port()

    def __enter__(self) -> Webserver:
        home = self._lab.folder / "dagster"
        home.mkdir(exist_ok=True)
        (home / "dagster.yaml").write_text(INSTANCE)
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            FOLDER_VARIABLE: str(self._pipelines),
            "K2K_HOME": str(self._lab.folder / "home"),
        }
        serve = [*(sys.executable, "-m", "dagster_webserver"), "-m", LOCATION, "-h", "127.0.0.1", "-p", str(self._port)]
        with (self._lab.folder / "webserver.log").open("ab") as log:
            self.process = subprocess.Popen(serve, stdout=log, stderr=log, env=environment, start_new_session=True)
        wait_until(self._has_loaded, _START_SECONDS, "Dagster's code location to be loaded")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        with suppress(ProcessLookupError):  # the code server lives on for a while
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def materialize(self, asset: Sequence[str], run_config: object) -> str:
        """Launches a run of one asset and all its checks, and returns the run's id.

        Raises:
            RuntimeError: Dagster does not want to.
        """
        parameters = {
            "selector": {
                "repositoryLocationName": LOCATION,
                "repositoryName": "__repository__",
                "pipelineName": _ASSET_JOB,
                "assetSelection": [{"path": list(asset)}],
            },
            "mode": "default",
            "runConfigData": json.dumps(run_config),
        }
        answer = self._ask(_LAUNCH, {"executionParams": parameters})["launchPipelineExecution"]
        if answer["__typename"] != "LaunchRunSuccess":
            raise RuntimeError(f"Dagster does not launch a run of {'/'.join(asset)}: {answer}")
        return str(answer["run"]["runId"])

    def has_ended(self, run: str) -> bool:
        """Whether a run is over.

        Raises:
            RuntimeError: It failed.
        """
        status = self._ask(_STATUS, {"run": run})["runOrError"]["status"]
        if status in _ENDED - {"SUCCESS"}:
            raise RuntimeError(f"run {run} ended with {status}; what it said is in webserver.log")
        return bool(status == "SUCCESS")

    def _has_loaded(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"Dagster's webserver ended with {self.process.returncode}: see webserver.log")
        try:
            entries = self._ask(_LOCATIONS, {})["workspaceOrError"]["locationEntries"]
        except OSError:
            return False
        return [entry["locationOrLoadError"]["__typename"] for entry in entries] == ["RepositoryLocation"]

    def _ask(self, query: str, variables: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_SECONDS)
        try:
            question = json.dumps({"query": query, "variables": variables})
            connection.request("POST", "/graphql", question, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "errors" in answer:
            raise RuntimeError(f"Dagster's webserver: {answer['errors']}")
        return answer["data"]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
