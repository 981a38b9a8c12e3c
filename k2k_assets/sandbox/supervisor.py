"""Runs one broker and never outlives the process that started it, however that one ends.

A stand-alone script (standard library only, no import of this package): its standard input is a pipe that
only the parent holds. When that pipe closes, the parent is gone or wants the end: the broker gets SIGTERM,
and after a grace period SIGKILL. It lives in a session of its own, so a Ctrl-C in the terminal does not reach
the broker before the parent has done its part.

Arguments: log file, grace period (seconds), directory to remove when the parent is gone (or ""), command...
Writes the broker's process id on a line of its own, and ends with the broker's exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from types import FrameType


def main(arguments: list[str]) -> int:
    """Starts the command, waits for its end or the parent's, and cleans up after the latter."""
    log, grace, directory, *command = arguments
    with open(log, "ab") as output:
        broker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    orphaned = threading.Event()

    def terminate(signum: int, frame: FrameType | None) -> None:
        broker.kill()

    signal.signal(signal.SIGTERM, terminate)
    threading.Thread(target=_watch_parent, args=(broker, float(grace), orphaned), daemon=True).start()
    os.write(1, f"{broker.pid}\n".encode())
    code = broker.wait()
    if orphaned.is_set() and directory:
        _remove(directory)
    return code


def _watch_parent(broker: subprocess.Popen[bytes], grace: float, orphaned: threading.Event) -> None:
    while os.read(0, 1):
        pass
    orphaned.set()
    if grace > 0:
        broker.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            broker.wait(grace)
    broker.kill()


def _remove(directory: str) -> None:
    import shutil  # here, because it is seldom needed and would slow down every start

    shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        # The directory that holds both brokers' goes with the last one.
        os.rmdir(os.path.dirname(directory))


if __name__ == "__main__":
    # Not sys.exit(): the thread that reads standard input would keep the interpreter from ending.
    os._exit(main(sys.argv[1:]) & 0xFF)
