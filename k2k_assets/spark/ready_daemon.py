"""The process that Spark forks its Python workers from, started and ready before Spark asks for one.

Its imports take as long as Java takes to start, and Spark would begin with them only after that. Spark starts its
daemon as a child of Java and talks to it through standard input and output. So the one that Java starts hands these,
and its environment, to the one that is ready, and ends when that does. Where none is ready it is the daemon itself,
as when the first was killed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from k2k_assets.spark.owned_directory import OwnedDirectory

# Names the socket to Java's children.
VARIABLE = "K2K_READY_DAEMON"
MODULE = "k2k_assets.spark.worker_daemon"
_TAKEN = b"taken"


class ReadyDaemon:
    """The driver's side: starts it. It is used once, and ends with this object if it was not."""

    def __init__(self) -> None:
        directory = OwnedDirectory("k2k-workers-")
        self.address = str(directory.path / "socket")
        # What the interpreter reads when it starts, as Spark sets it. Its standard input tells it of our end.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
        try:
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(self.address)
                door.listen(1)  # who asks while it imports waits
                self.process = subprocess.Popen(
                    [sys.executable, "-m", MODULE, str(door.fileno())],
                    stdin=subprocess.PIPE,
                    env=environment,
                    pass_fds=[door.fileno()],
                    preexec_fn=ignore_interrupts,
                )
        except OSError:
            directory.remove()
            raise
        weakref.finalize(self, directory.remove)
        assert self.process.stdin
        weakref.finalize(self, self.process.stdin.close)  # a process that still runs would be kept, with its pipe


def ignore_interrupts() -> None:
    """Ctrl-C of a terminal is for the driver alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait_to_be_asked() -> bool:
    """The ready one's side: takes over from the process that Java has started; false where the driver ends before."""
    door = socket.socket(fileno=int(sys.argv[1]))
    address = Path(door.getsockname())
    asked, _, _ = select.select([door, sys.stdin], [], [])
    with door:
        connection = door.accept()[0] if door in asked else None
    shutil.rmtree(address.parent, ignore_errors=True)
    if connection is None:
        return False
    _, pipes, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as said:
        arguments, environment = json.loads(said.read())
    for standard, pipe in enumerate(pipes):
        os.dup2(pipe, standard)
        os.close(pipe)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    connection.sendall(_TAKEN)
    os.register_at_fork(after_in_child=connection.close)  # only this process's end is to be seen
    return True


def hand_over() -> bool:
    """The side of the process that Java has started: waits for the end of the ready one; false where there is none."""
    address = os.environ.pop(VARIABLE, None)
    if address is None:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [b"\0"], [0, 1, 2])
            connection.sendall(json.dumps([sys.argv[1:], dict(os.environ)]).encode())
            connection.shutdown(socket.SHUT_WR)
            if not connection.recv(len(_TAKEN)):
                return False
        except OSError:
            return False
        with suppress(OSError):
            connection.recv(1)
        return True
