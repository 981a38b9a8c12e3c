"""A Java program as a child process that ends with this one: it can be stopped, killed, frozen and let go on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from k2k_assets.core.errors import K2KError

STOP_SECONDS = 20.0
"""Until a program that was asked to end is killed."""
_ERROR_LINES = 12


class SupervisedProcess:
    """A child process with a log file, under the supervisor that ends it when this process is gone.

    Args:
        what: How messages name it.
        log_file: All that it says, over all its starts.
        remove: A directory that goes with the process that has started it; None: nothing does.
    """

    def __init__(self, what: str, log_file: Path, remove: Path | None = None) -> None:
        self.what = what
        self.log_file = log_file
        self._remove = remove
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the program, or None while it is down."""
        return self._pid if self.is_running() else None

    def is_running(self) -> bool:
        """Whether the process is there (frozen or not); it may not answer yet."""
        return self._supervisor is not None and self._supervisor.poll() is None

    def spawn(self, command: Sequence[str]) -> None:
        """Starts the program; what there was of an earlier start is forgotten.

        Raises:
            K2KError: It cannot be started.
        """
        self._forget()
        # -I -S: nothing but the standard library is needed, and it starts in 15 ms.
        supervisor = [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py"))]
        grace = "0" if self._remove else str(STOP_SECONDS)
        self._supervisor = subprocess.Popen(
            [*supervisor, str(self.log_file), grace, str(self._remove or ""), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert self._supervisor.stdout is not None
        pid = self._supervisor.stdout.readline()
        if not pid:
            raise self.failure("could not be started")
        self._pid = int(pid)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Ends the program in an orderly way (SIGTERM), or kills it when that takes too long.

        Args:
            timeout: Seconds until it is killed.
        """
        if self.pid is not None:
            self.resume()
            self._signal(signal.SIGTERM)
            try:
                self._wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        self._forget()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self._signal(signal.SIGKILL)
        self._wait(STOP_SECONDS)
        self._forget()

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a frozen process go on."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = _ERROR_LINES) -> str:
        """The last lines that the program logged, without the frames of stack traces.

        Args:
            lines: How many at most.
        """
        try:
            text = self.log_file.read_text(errors="replace")
        except FileNotFoundError:
            return "(it logged nothing)"
        told = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
        return "\n".join(told[-lines:])

    def failure(self, what: str) -> K2KError:
        """The error that says what happened, with the end of the program's log.

        Args:
            what: What it did, or did not.
        """
        return K2KError(f"{self.what} {what}. The end of its log:\n{self.log_tail()}")

    def _signal(self, number: signal.Signals) -> None:
        if self._pid is not None and self.is_running():
            with contextlib.suppress(ProcessLookupError):  # it ended by itself a moment ago
                os.kill(self._pid, number)

    def _wait(self, timeout: float) -> None:
        if self._supervisor is not None:
            self._supervisor.wait(timeout)

    def _forget(self) -> None:
        if self._supervisor is not None:
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                if pipe is not None:
                    pipe.close()
        self._supervisor = self._pid = None
