"""Instances of a pipeline as processes: copies with or without Spark, and mappers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import psutil

from k2k_assets import orchestration
from k2k_assets.sandbox import supervisor
from k2k_assets_tests.support.copies.processes import K2K, copy_workers, executor_jvms, jvms
from k2k_assets_tests.support.copies.unlucky import NONE, Mishap

Engine = Literal["spark", "processes", "dagster"]
Kind = Engine | Literal["mapper"]
# Those above are signals: the system has eight bits for both.
_MOST_CODE = 200
Part = Literal["worker", "jvm", "executor", "driver", "daemon", "code server", "everything"]
# Parts of the command lines of Dagster's own processes.
_OF_DAGSTER: dict[Part, tuple[str, ...]] = {"daemon": ("dagster._daemon",), "code server": ("code-server", "grpc")}


def copying(engine: Engine, path: Path, slots: int, mishap: Mishap = NONE) -> list[str]:
    """How to run an instance that copies, with something wrong about it if wanted."""
    if engine == "dagster":
        return _dagster_dev(path.parent)
    if engine == "spark":
        return [*(K2K if mishap == NONE else mishap.k2k()), "start", "-f", str(path)]
    return [sys.executable, "-m", "k2k_assets_tests.storm.engine", str(path), str(slots), mishap.to_json()]


def _dagster_dev(pipelines: Path) -> list[str]:
    """`dagster dev` with the settings that are shipped, and its sensors on."""
    variables = {
        "DAGSTER_HOME": str(home_of_dagster(pipelines)),
        "K2K_HOME": str(pipelines.parent / "home"),
        "K2K_PIPELINES": str(pipelines),
        "K2K_SENSORS": "running",
    }
    dev = [str(Path(sys.executable).with_name("dagster")), "dev", "-m", "k2k_assets.definitions", "-p", "0"]
    return ["env", *(f"{name}={value}" for name, value in variables.items()), *dev]


def home_of_dagster(pipelines: Path) -> Path:
    """Where it keeps its history, beside the folder of pipeline files; made with the first look at it."""
    home = pipelines.parent / "dagster"
    if not home.exists():
        home.mkdir()
        (home / "dagster.yaml").write_text(Path(orchestration.__file__).with_name("dagster.yaml").read_text())
    return home


def mapping_groups(path: Path) -> list[str]:
    """How to run a mapper of consumer groups."""
    return [sys.executable, "-m", "k2k_assets.cli.offset_mapping", "start", "-f", str(path)]


class Instance:
    """One running instance.

    Args:
        kind: What runs the slots; or a mapper, which has none.
        command: What is run.
        log: File for all that it says.

    Attributes:
        name: For the journal.
        pid: Of the driver.
        started: Monotonic seconds.
        excuses: Exit codes that would be right.
        killed_jvms: How many Java processes were killed under it.
    """

    def __init__(self, kind: Kind, command: Sequence[str], log: Path) -> None:
        self.name = log.stem
        self.log = log
        self.kind = kind
        self.started = time.monotonic()
        self.excuses: set[int] = set()
        self.killed_jvms = 0
        # The supervisor of the brokers ends it if the test is killed.
        supervised = [sys.executable, "-I", "-S", supervisor.__file__, str(log), "0", "", *command]
        self._supervisor = subprocess.Popen(
            supervised, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._supervisor.stdout is not None
        self.pid = int(self._supervisor.stdout.readline())
        # Not by its process id later, because the system may have reused that after minutes.
        self._driver: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess):
            self._driver = psutil.Process(self.pid)
        self._family: set[psutil.Process] = {self._driver} if self._driver else set()
        self._was_asked = False

    def exit_code(self) -> int | None:
        """How it ended, minus the signal that killed it; None while it runs."""
        code = self._supervisor.poll()
        return code - 256 if code is not None and code > _MOST_CODE else code

    def processes(self, part: Part) -> list[psutil.Process]:
        """The processes of one part that live now."""
        if self._driver is None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = self._driver.children(recursive=True)
            self._family.update(family)
            if self.kind == "dagster" and part not in ("worker", "jvm", "everything"):
                return self._of_dagster(part, family)
            if part == "driver":
                return [self._driver]
            if part == "everything":
                return [self._driver, *family]
            if part == "executor":
                return executor_jvms(self)
            if self.kind in ("spark", "dagster"):
                return copy_workers(self) if part == "worker" else jvms(self)
            # Workers are children of the fork server, which is a child of the driver.
            return [child for child in family if child.ppid() != self.pid] if part == "worker" else []
        return []

    def _of_dagster(self, part: Part, family: Sequence[psutil.Process]) -> list[psutil.Process]:
        if part == "driver":  # the run that copies or builds the index, which has a Java process
            return [parent for jvm in jvms(self) if (parent := jvm.parent()) is not None]
        words = _OF_DAGSTER.get(part, ())
        return [process for process in family if any(word in " ".join(process.cmdline()) for word in words)]

    def kill(self, part: Part, which: int = 0) -> str:
        """SIGKILL to a part; of several workers to one of them. Returns what was killed."""
        if self.kind == "dagster" and part in ("daemon", "code server", "everything"):
            self.excuses.update(range(-signal.NSIG, 256))  # without one of them the rest of it ends too
        elif part in ("driver", "everything"):
            self.excuses.add(-signal.SIGKILL)
        killed = self._signal(signal.SIGKILL, part, which)
        self.killed_jvms += part == "jvm" and bool(killed)
        return killed

    @contextlib.contextmanager
    def frozen(self, part: Part, which: int = 0) -> Iterator[str]:
        """SIGSTOP to a part while the block lasts. Yields what was frozen."""
        chosen = self._chosen(part, which)
        for process in chosen:
            _send(process, signal.SIGSTOP)
        try:
            yield _words(part, chosen)
        finally:
            for process in chosen:
                _send(process, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """SIGTERM to the driver, once: a second one would end it at once."""
        self.excuses.add(0)
        if self.kind == "dagster":  # whose runs outlive it
            self.kill("everything")
            self._end_runs()
        elif self._driver and not self._was_asked:
            self._was_asked = True
            _send(self._driver, signal.SIGTERM)

    def _end_runs(self) -> None:
        """Those too of an earlier Dagster with the same home."""
        pipelines = self.log.parent / "pipelines"
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("K2K_PIPELINES") == str(pipelines) and process.pid != os.getpid():
                    _send(process, signal.SIGCONT)
                    _send(process, signal.SIGKILL)

    def end(self) -> None:
        """Lets nothing of it live, not even what its driver left behind."""
        if self.kind == "dagster":
            self._end_runs()
        self.processes("everything")
        for process in self._family:
            _send(process, signal.SIGCONT)
            _send(process, signal.SIGKILL)
        self._supervisor.wait(30)

    def last_words(self, lines: int = 8) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def has_begun(self) -> bool:
        """Whether it was at work: it has drawn its generation."""
        return "generation " in self.log.read_text(errors="replace")

    def _chosen(self, part: Part, which: int) -> list[psutil.Process]:
        found = self.processes(part)
        return [found[which % len(found)]] if found and part != "everything" else found

    def _signal(self, number: signal.Signals, part: Part, which: int) -> str:
        chosen = self._chosen(part, which)
        for process in chosen:
            _send(process, number)
        return _words(part, chosen)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _words(part: Part, processes: list[psutil.Process]) -> str:
    return f"{part} {', '.join(str(process.pid) for process in processes)}" if processes else ""
