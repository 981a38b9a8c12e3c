"""The sandbox under Dagster's UI: traffic that never ends, sensors that run, until Ctrl-C."""

from __future__ import annotations

import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.demo.screen import Screen, Step
from k2k_assets.demo.workplace import Workplace, discovered, workplace
from k2k_assets.orchestration.sensors.reloading import URL_VARIABLE
from k2k_assets.sandbox import KafkaSandbox, supervisor
from k2k_assets.sandbox.group_traffic import following_groups
from k2k_assets.sandbox.traffic import continuous_traffic, write_sample_traffic

_START_SECONDS = 300.0  # On a machine that does much else; should it end, that is seen at once.
# Dagster's own services take a few seconds to end; a run that is copying then is killed, and that loses nothing.
_END_SECONDS = 15.0
_POLL_SECONDS = 0.5
_LINGER_SECONDS = 60.0
# What is brought up to date and reported often, so that something is to be seen.
_OFTEN = "index:\n  interval: 2 minutes\nsync:\n  reportsPerDay: 50000\n"


def run_ui(screen: Screen, log: Path, port: int | None) -> None:
    """Runs `dagster dev` on the sandbox until it is interrupted.

    Args:
        screen: Where to tell of it.
        log: Where Dagster's output goes.
        port: Of the UI; a free one if None.

    Raises:
        K2KError: Something does not start, or ends by itself.
    """
    _ensure_installed()
    starting = "starting two Kafka clusters (the first time: downloading Kafka)"
    with workplace() as place, screen.step(starting) as step, KafkaSandbox() as sandbox:
        step.next("writing sample traffic")
        write_sample_traffic(sandbox.source_servers)
        port = port or _free_port()
        with (
            _traffic(sandbox.source_servers),
            following_groups(sandbox.source_servers),
            _discovered_dagster(step, place, sandbox, port, log) as dagster,
        ):
            _await_answer(dagster, port)
            step.done(f"Dagster runs; its log is {log}")
            step.next("copying what is written; Ctrl-C stops everything")
            screen.line(
                f"\n  http://127.0.0.1:{port}\n\nSample traffic goes on, consumer groups read it on the source, and the"
            )
            screen.line("sensors keep one run copying, and ask for runs that move groups. Ctrl-C stops everything.")
            with suppress(KeyboardInterrupt):
                _watch(dagster, sandbox)
            step.next("stopping")


@contextmanager
def _discovered_dagster(
    step: Step, place: Workplace, sandbox: KafkaSandbox, port: int, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster, which knows of all topics and groups from the start."""
    discovered(place.write_pipeline(sandbox, _OFTEN))
    step.done(f"two Kafka clusters run: source {sandbox.source_servers}, target {sandbox.target_servers}")
    step.next("starting Dagster")
    with _dagster_dev(port, log) as dagster:
        yield dagster


def _ensure_installed() -> None:
    for module in ("dagster", "dagster_webserver"):
        if importlib.util.find_spec(module) is None:
            missing = module.replace("_", "-")
            raise K2KError(f"Dagster's UI needs the package {missing}: run `make setup`, or install k2k-assets[ui].")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def _traffic(servers: str) -> Iterator[None]:
    stop = threading.Event()
    writer = threading.Thread(target=continuous_traffic, args=(servers, stop), name="sample-traffic", daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(_LINGER_SECONDS)


@contextmanager
def _dagster_dev(port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`dagster dev` in a session of its own, below a supervisor that ends it should this process be killed."""
    dagster = [
        *(sys.executable, "-m", "dagster", "dev", "-m", "k2k_assets.definitions"),
        *("-h", "127.0.0.1", "-p", str(port)),
    ]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(log), str(_END_SECONDS), "", *dagster],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "K2K_SENSORS": "running", URL_VARIABLE: f"http://127.0.0.1:{port}"},
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()  # the supervisor takes this for our end
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS + 5)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_answer(dagster: subprocess.Popen[bytes], port: int) -> None:
    deadline = Deadline(_START_SECONDS)
    pause = threading.Event()
    while not _answers(port):
        if dagster.poll() is not None:
            raise K2KError(f"Dagster's UI ended while it started (is port {port} in use?).")
        if deadline.expired():
            raise K2KError(f"Dagster's UI did not answer on port {port} within {_START_SECONDS:g} s.")
        pause.wait(_POLL_SECONDS)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _watch(dagster: subprocess.Popen[bytes], sandbox: KafkaSandbox) -> None:
    pause = threading.Event()
    while not pause.wait(_POLL_SECONDS):
        if dagster.poll() is not None:
            raise K2KError("Dagster ended by itself.")
        for broker in (sandbox.source, sandbox.target):
            if not broker.is_running():
                raise K2KError(f"The {broker.role} broker ended by itself. The end of its log:\n{broker.log_tail()}")
