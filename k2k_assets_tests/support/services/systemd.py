"""Runs a unit of `examples/deploy/systemd` by systemd's rules, as far as it uses them, but for users and namespaces."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_POLL_SECONDS = 0.05
_BIN = "/opt/k2k/bin/"
_MODULES = {
    "k2k": "k2k_assets.cli.main",
    "k2k-tool": "k2k_assets.cli.tool",
    "k2k-offset-mapping": "k2k_assets.cli.offset_mapping",
}
# A service has so many times the unit's time to end: other tests use the same processors.
_BUSY = 2
# What systemd takes where a unit says nothing.
_DEFAULTS = {"TimeoutStopSec": "90", "KillMode": "control-group", "WorkingDirectory": "/"}


def read_unit(path: Path) -> dict[str, list[str]]:
    """All settings of a unit; one may be there more than once."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            found.setdefault(line.split("=", 1)[0], []).append(line.split("=", 1)[1])
    return found


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


class Service:
    """A unit that runs until it is stopped, or ends with a status of `RestartPreventExitStatus`.

    Args:
        path: The unit.
        instance: What `%i` stands for.
        root: Stands in for `/`: `/etc/k2k` and `/var/lib/k2k` are below it.
        beside: More variables, as of a machine's own settings.
        programs: The folder that `/opt/k2k/bin` stands for; None: the programs of this environment.
        more: More arguments, as a machine's own settings may add.

    Attributes:
        starts: How often it was started.
        process: The process of the newest start.
        ended: Set when it is not started again.
    """

    def __init__(
        self,
        path: Path,
        instance: str,
        root: Path,
        beside: Mapping[str, str] | None = None,
        programs: Path | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self._programs, self._more = programs, more
        self._unit, self._root, self._beside = read_unit(path), root, dict(beside or {})
        self._instance = instance
        self.log = root / f"{path.stem}.log"
        self.starts = 0
        self.ended, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Does as `systemctl start`, once."""
        self._thread.start()

    def stop(self) -> int:
        """Does as `systemctl stop`; returns the exit status of the main process."""
        self._stop.set()
        self._thread.join(_BUSY * float(self._setting("TimeoutStopSec")) + 10)
        assert not self._thread.is_alive()
        return self.process.returncode

    def _setting(self, name: str) -> str:
        return self._unit.get(name, [_DEFAULTS[name]])[0]

    def _here(self, text: str) -> str:
        for folder in ("/etc/k2k", "/var/lib/k2k"):
            text = text.replace(folder, f"{self._root}{folder}")
        return text.replace("%i", self._instance)

    def _command(self) -> list[str]:
        program, *arguments = shlex.split(self._here(self._unit["ExecStart"][0]))
        assert program.startswith(_BIN)
        name = program.removeprefix(_BIN)
        run = [str(self._programs / name)] if self._programs else [sys.executable, "-m", _MODULES[name]]
        return [*run, *arguments, *self._more]

    def _environment(self) -> dict[str, str]:
        """Nothing of the shell's but what finds Java and the tests."""
        kept = ("PATH", "JAVA_HOME", "PYTHONPATH", "K2K_CACHE", "OPENBLAS_CORETYPE", "SPARK_SUBMIT_OPTS")
        found = {name: os.environ[name] for name in kept if name in os.environ}
        found["HOME"] = self._here("/var/lib/k2k")
        for line in self._unit.get("Environment", ()):
            found.update(map(_variable, shlex.split(self._here(line))))
        for name in self._unit["EnvironmentFile"]:
            file = Path(self._here(name.removeprefix("-")))
            if not name.startswith("-") or file.exists():
                found.update(_variable(line) for line in file.read_text().splitlines() if "=" in line)
        return {**found, **self._beside}

    def _run(self) -> None:
        never = set(map(int, self._unit["RestartPreventExitStatus"][0].split()))
        assert self._unit["Restart"] == ["always"]
        try:
            while True:
                code = self._once()
                if self._stop.is_set() or code in never or self._stop.wait(float(self._unit["RestartSec"][0])):
                    return
        finally:
            self.ended.set()

    def _once(self) -> int:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                cwd=self._here(self._setting("WorkingDirectory")),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        try:
            while self.process.poll() is None and not self._stop.wait(_POLL_SECONDS):
                pass
            if self.process.poll() is None:
                if self._setting("KillMode") == "mixed":
                    self.process.send_signal(signal.SIGTERM)
                else:
                    os.killpg(self.process.pid, signal.SIGTERM)
                self.process.wait(_BUSY * float(self._setting("TimeoutStopSec")))
        finally:
            with suppress(ProcessLookupError):  # what is left of the control group
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@contextmanager
def service(
    path: Path,
    instance: str,
    root: Path,
    beside: Mapping[str, str] | None = None,
    programs: Path | None = None,
    more: Sequence[str] = (),
) -> Iterator[Service]:
    """A started unit that never outlives the test."""
    made = Service(path, instance, root, beside, programs, more)
    made.start()
    try:
        yield made
    finally:
        if not made.ended.is_set():
            made.stop()
