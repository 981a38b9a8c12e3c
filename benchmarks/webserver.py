"""Dagster's webserver and its code server as a process of its own, told to launch runs as its UI tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from benchmarks.graphql import GraphQL, free_port
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
_START_SECONDS = 120.0
_END_SECONDS = 15.0


class Webserver:
    """Runs while it is entered; then its code location is loaded.

    Args:
        lab: Names the scratch folder; Dagster's output goes to `webserver.log` there.
        pipelines: The folder of the pipeline files.

    Attributes:
        process: The webserver; its code server is a child of it.
        ui: What its UI asks.
    """

    def __init__(self, lab: Lab, pipelines: Path) -> None:
        self._lab, self._pipelines = lab, pipelines
        self.ui = GraphQL(free_port(), LOCATION)

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
        serve = [
            *(sys.executable, "-m", "dagster_webserver"),
            "-m",
            LOCATION,
            "-h",
            "127.0.0.1",
            "-p",
            str(self.ui.port),
        ]
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

    def _has_loaded(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"Dagster's webserver ended with {self.process.returncode}: see webserver.log")
        return self.ui.has_loaded()
