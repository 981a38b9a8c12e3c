"""Holds the process that is measured (`driver.py`): starts it, tells it what to run, ends it whatever happens."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import psutil

_END_SECONDS = 30.0


class DriverProcess:
    """A driver with Spark in it, kept over many runs so that it is warm.

    Args:
        log: File that receives what it says.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._answers: SimpleQueue[str] = SimpleQueue()

    def __enter__(self) -> DriverProcess:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.driver"],
                cwd=Path(__file__).resolve().parent.parent,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
            )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        family = psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_SECONDS)
        _, alive = psutil.wait_procs(family, timeout=5.0)
        for process in alive:
            process.kill()

    @property
    def pid(self) -> int:
        """Of the driver."""
        return self._process.pid

    def start(self, pipeline: Path, continuous: bool = False, telemetry: Mapping[str, str] | None = None) -> None:
        """Begins a run.

        Args:
            pipeline: The pipeline file.
            continuous: Until `stop()`; else until caught up.
            telemetry: Variables by which its metrics are exported; None: as without `-t`.
        """
        self._tell({"pipeline": str(pipeline), "continuous": continuous, "telemetry": dict(telemetry or {})})

    def stop(self) -> None:
        """Asks the run to end."""
        self._tell("stop")

    def ensure_running(self) -> None:
        """Raises what `result` would, if the run is over although nobody stopped it."""
        if not self._answers.empty():
            raise RuntimeError(f"the run ended by itself: {self.result(0)}")

    def result(self, timeout: float) -> dict[str, Any]:
        """What the run did, once it is over.

        Args:
            timeout: Seconds.

        Raises:
            RuntimeError: It failed.
            TimeoutError: It is not over.
        """
        try:
            answer: dict[str, Any] = json.loads(self._answers.get(timeout=max(timeout, 0.001)))
        except Empty:
            raise TimeoutError(f"the run is not over after {timeout:g} s. {self._last_words()}") from None
        if "error" in answer:
            raise RuntimeError(f"the run failed: {answer['error']}. {self._last_words()}")
        return answer

    def _tell(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put('{"error": "the driver ended"}')

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "Its last words:\n" + "\n".join(lines[-15:])
