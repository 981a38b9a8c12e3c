"""A broker that is far away: what goes to it and comes from it takes its time, and much may be on its way at once.

Run as a process of its own: `python -m benchmarks.distant_broker HOST:PORT SECONDS` tells its own port, and ends with
its standard input.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from k2k_assets_tests.support.brokers.kafka_frames import WITH_ADDRESSES, Request, correlation_of, with_address
from k2k_assets_tests.support.brokers.kafka_frames import read_frame as next_frame

_HOST = "127.0.0.1"
_SECONDS = 30.0
_Changed = Callable[[bytes], bytes]


@contextmanager
def distant(servers: str, round_trip: float) -> Iterator[str]:
    """The bootstrap address of a broker, as if it were far away.

    Args:
        servers: Where it is.
        round_trip: How long a question and its answer are on their way, in seconds.
    """
    command = [sys.executable, "-m", __spec__.name, servers, str(round_trip / 2)]
    folder = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"{_HOST}:{int(process.stdout.readline())}"
        process.stdin.close()
        process.wait(_SECONDS)


def _serve(broker: tuple[str, int], seconds: float) -> None:
    listener = socket.create_server((_HOST, 0))
    own = listener.getsockname()[:2]
    print(own[1], flush=True)
    while True:
        client, _ = listener.accept()
        there = socket.create_connection(broker, _SECONDS)
        for end in (client, there):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        naming: set[int] = set()
        _carry(client, there, seconds, partial(_noted, naming))
        _carry(there, client, seconds, partial(_named, naming, broker, own))


def _noted(naming: set[int], frame: bytes) -> bytes:
    request = Request.parse(frame, 0)
    if request.api in WITH_ADDRESSES:
        naming.add(request.correlation)
    return frame


def _named(naming: set[int], broker: tuple[str, int], own: tuple[str, int], frame: bytes) -> bytes:
    return with_address(frame, broker, own) if correlation_of(frame) in naming else frame


def _carry(start: socket.socket, end: socket.socket, seconds: float, changed: _Changed) -> None:
    under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def take() -> None:
        while (frame := next_frame(start)) is not None:
            under_way.put((time.monotonic() + seconds, changed(frame)))
        under_way.put((0.0, b""))

    def bring() -> None:
        while True:
            due, frame = under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if frame:
                    end.sendall(frame)
                    continue
                end.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return

    for each in (take, bring):
        threading.Thread(target=each, daemon=True).start()


def main() -> None:
    """Serves until its standard input ends."""
    host, port = sys.argv[1].split(":")
    arguments = ((host, int(port)), float(sys.argv[2]))
    threading.Thread(target=_serve, args=arguments, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
