"""Asks a Dagster web server what its UI asks it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from typing import Any

_ASSET_JOB = "__ASSET_JOB"
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
_RELOAD = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) { __typename }
}
"""


class GraphQL:
    """The web server on a port of this machine.

    Args:
        port: Where it listens.
        location: The code location: a module.
    """

    def __init__(self, port: int, location: str) -> None:
        self.port, self._location = port, location

    def materialize(self, asset: Sequence[str], run_config: object) -> str:
        """Launches a run of one asset and all its checks, and returns the run's id.

        Raises:
            RuntimeError: Dagster does not want to.
        """
        parameters = {
            "selector": {
                "repositoryLocationName": self._location,
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
            raise RuntimeError(f"run {run} ended with {status}; see its log")
        return bool(status == "SUCCESS")

    def has_loaded(self) -> bool:
        """Whether the code location is loaded, without an error."""
        try:
            entries = self._ask(_LOCATIONS, {})["workspaceOrError"]["locationEntries"]
        except OSError:
            return False
        return [(entry["locationOrLoadError"] or {}).get("__typename") for entry in entries] == ["RepositoryLocation"]

    def reload(self) -> None:
        """Loads the code location anew, as the UI's button Reload does."""
        self._ask(_RELOAD, {"location": self._location})

    def _ask(self, query: str, variables: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS)
        try:
            question = json.dumps({"query": query, "variables": variables})
            connection.request("POST", "/graphql", question, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "errors" in answer:
            raise RuntimeError(f"Dagster's webserver: {answer['errors']}")
        return answer["data"]


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
