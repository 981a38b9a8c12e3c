"""A process of its own for questions that may be the end of the process that asks them.

librdkafka (2.16) takes its process with it when a question about a group's offsets

- times out before the group's coordinator was found and connected to, and that is found later: the question was freed,
  and is sent all the same ("Assertion `eonce->refcnt > 0' failed"; its issue 4605),
- is answered with "not coordinator", as by every broker that has just given up, or not yet taken, a coordinator's
  partition: the answer's handler needs a consumer, which an admin client is not (its issue 5040).

A broker that is restarted does both. And one that was frozen may name no broker at all when it is asked what is allowed
on the cluster ("Assertion `rko_result' failed"). So these are asked in a child process, which is replaced when it dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any

_ENDING_SECONDS = 1.0


class Died(Exception):
    """The process ended, or was ended because it took too long, before it had answered."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What it answers when the function raised an error."""

    error: Exception


class Apart:
    """The process: it has a client of its own for a cluster, and ends with this process.

    It is no fork, and in a session of its own: signals from a terminal do not reach it.

    Args:
        cluster: The arguments of its `Cluster`.
    """

    def __init__(self, *cluster: object) -> None:
        self._turn = threading.Lock()
        self._connection, other = Pipe()
        modules = os.pathsep.join(path or os.getcwd() for path in sys.path)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "k2k_assets.kafka.apart_process", str(other.fileno())],
                env={**os.environ, "PYTHONPATH": modules},
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        with suppress(OSError):  # one that has ended already is found by the first call
            self._connection.send(cluster)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[object, ...],
        named: Mapping[str, object],
        seconds: float,
    ) -> Any:
        """Calls a function there; calls of several threads take turns.

        Args:
            function: One of a module, whose first argument is a cluster.
            arguments: The others.
            named: Likewise.
            seconds: After which the process is ended.

        Raises:
            Died: It did not survive this call, or what was asked before.
            K2KError: As the function raised it.
        """
        with self._turn:
            try:
                self._connection.send((function, arguments, named))
                if not self._connection.poll(seconds):
                    self.close()
                    raise Died(f"no answer within {seconds:g} s")
                answer = self._connection.recv()
            except (OSError, EOFError):
                raise Died(f"it ended with {self._exit_code()}") from None
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    def close(self) -> None:
        """Ends the process; a call that waits for it finds that it died."""
        self._process.kill()
        self._process.wait()

    def _exit_code(self) -> int:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_ENDING_SECONDS)
        self.close()
        return self._process.wait()
