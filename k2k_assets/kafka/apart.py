"""Runs admin calls that can crash librdkafka in a child process.

librdkafka (2.16) aborts its process when a request for a group's offsets

- times out before the client has connected to the group's coordinator, and the coordinator is found later: the request
  was freed by then, and is sent all the same ("Assertion `eonce->refcnt > 0' failed"; its issue 4605),
- is answered with "not coordinator", as every broker does that has just given up a coordinator's partition or has not
  taken it over yet: the response handler needs a consumer, which an admin client is not (its issue 5040).

A broker that restarts causes both. And a broker that was frozen may list no broker at all when it is asked for the
authorized operations on the cluster ("Assertion `rko_result' failed"). So a child process makes these calls, and is
replaced when it dies.
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
    """The child process ended before it answered, or was ended because its answer took too long."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The child's answer when the function raised an error."""

    error: Exception


class Apart:
    """A child process with a client of its own for a cluster; it ends with this process.

    It is started anew, not forked, and in a session of its own, so that signals from a terminal do not reach it.

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
        with suppress(OSError):  # if the child has ended already, the first call finds out
            self._connection.send(cluster)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[object, ...],
        named: Mapping[str, object],
        seconds: float,
    ) -> Any:
        """Calls a function in the child; calls of several threads take turns.

        Args:
            function: A function of a module; its first argument is the child's `Cluster`.
            arguments: Its other positional arguments.
            named: Its keyword arguments.
            seconds: Longest time for the call; then the child is ended.

        Raises:
            Died: The child did not survive this call, or an earlier one.
            K2KError: The function raised it.
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
        """Ends the child; a call that waits for its answer raises `Died`."""
        self._process.kill()
        self._process.wait()

    def _exit_code(self) -> int:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_ENDING_SECONDS)
        self.close()
        return self._process.wait()
