"""Starts the daemon from which Spark forks its Python workers early, so that it is ready when Spark needs it.

The daemon's imports take as long as the start of Java, and Spark would start the daemon only after that. Spark starts
its daemon as a child of Java and talks to it through standard input and output. So the process that Java starts passes
these, and its environment, to the ready daemon, and ends when that ends. If no daemon is ready, as when the first was
killed, the process that Java started becomes the daemon.
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

# Environment variable that names the socket to Java's children.
VARIABLE = "K2K_READY_DAEMON"
MODULE = "k2k_assets.spark.worker_daemon"
_TAKEN = b"taken"


class ReadyDaemon:
    """The driver's side: starts the daemon, which is used once. An unused daemon ends with this object."""

    def __init__(self) -> None:
        directory = OwnedDirectory("k2k-workers-")
        self.address = str(directory.path / "socket")
        # The variables that Spark sets for the interpreter. The end of standard input tells the daemon that we ended.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
        try:
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(self.address)
                door.listen(1)  # a connection during the imports waits
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
        weakref.finalize(self, self.process.stdin.close)  # `Popen` keeps running processes, and so their pipes, alive


def ignore_interrupts() -> None:
    """Ignores Ctrl-C of a terminal, which the driver handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait_to_be_asked() -> bool:
    """The ready daemon's side: takes over from the process that Java started; false if the driver ends before."""
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
    os.register_at_fork(after_in_child=connection.close)  # so that the connection ends with this process
    return True


def hand_over() -> bool:
    """The side of the process that Java started: hands over, waits for the ready daemon to end; false without one."""
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
