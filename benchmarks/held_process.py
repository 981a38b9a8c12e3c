"""A program that is measured, as a child process that ends with this one, and that can be frozen meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from k2k_assets.sandbox import supervisor

_GRACE_SECONDS = 20.0


class HeldProcess(ABC):
    """A process; used as a context manager.

    Args:
        title: As tables and messages name it.
        role: Of its CPU time, by the tables' columns.
        prefix: What it puts before a topic's name on the target.
        log: File that receives what it says.

    Attributes:
        pid: Its process id, once it runs.
    """

    def __init__(self, title: str, role: str, prefix: str, log: Path) -> None:
        self.title = title
        self.role = role
        self.prefix = prefix
        self.pid = 0
        self._log = log

    def __enter__(self) -> Self:
        # The sandbox's supervisor ends it when this process ends, however that happens.
        guard = [sys.executable, "-I", "-S", str(supervisor.__file__), str(self._log), str(_GRACE_SECONDS), ""]
        self._process = subprocess.Popen(
            [*guard, *self._command()],
            env={**os.environ, **self._environment()},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(_GRACE_SECONDS)

    @abstractmethod
    def _command(self) -> list[str]:
        """Program and arguments."""

    def _environment(self) -> Mapping[str, str]:
        """Variables beside those of this process."""
        return {}

    def pause(self) -> None:
        """Freezes it (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def ensure_running(self) -> None:
        """Raises if the process has ended.

        Raises:
            RuntimeError: It has; the end of its log is in the message.
        """
        if self._process.poll() is not None:
            words = "\n".join(self.said().splitlines()[-15:])
            raise RuntimeError(f"{self.title} ended. Its last words:\n{words}")

    def said(self) -> str:
        """All that it has said."""
        return self._log.read_text(errors="replace")
