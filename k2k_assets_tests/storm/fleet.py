"""The processes of one kind in a storm: running ones, ended ones, and whether each had a reason to end."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from k2k_assets_tests.storm.instances import Instance
from k2k_assets_tests.storm.journal import Journal

_SUPERSEDED = 4
_UNREACHABLE = 3
_GAVE_UP = re.compile(r"Spark's Java process ended (\d+) times while it started")


class Fleet:
    """Instances of one command on one pipeline.

    Args:
        kind: Begins their names.
        journal: Is told what happens.
        troubled: Whether a broker was in trouble after that moment (monotonic seconds).

    Attributes:
        unexpected: Those that ended without a fault that explains it.
    """

    def __init__(self, kind: str, journal: Journal, troubled: Callable[[float], bool]) -> None:
        self.unexpected: list[str] = []
        self._kind = kind
        self._journal = journal
        self._troubled = troubled
        self._lock = threading.RLock()
        self._running: list[Instance] = []
        self._ended: list[Instance] = []

    @property
    def started(self) -> int:
        """Instances so far."""
        return len(self._running) + len(self._ended)

    def running(self) -> list[Instance]:
        """Those that run, oldest first."""
        with self._lock:
            return list(self._running)

    def some(self, rng: random.Random) -> Instance | None:
        """One of those that run."""
        draw = rng.random()
        running = self.running()
        return running[int(draw * len(running))] if running else None

    def start(self, run: Callable[[Path], Instance]) -> Instance:
        """Starts one more; `run` is given the file for its log. Those before it may find themselves superseded.

        So may it itself, by one of them that was frozen before it could say that it is there.
        """
        with self._lock:
            instance = run(self._journal.directory / f"{self._kind}-{self.started:03d}.log")
            for older in self._running:
                older.excuses.add(_SUPERSEDED)
                instance.excuses.add(_SUPERSEDED)
            self._running.append(instance)
            return instance

    def keep_up(self, run: Callable[[Path], Instance]) -> None:
        """Takes note of instances that ended, and starts one if none is left."""
        with self._lock:
            self._take_note()
            if not self._running:
                self._journal.note(f"{self.start(run).name} started")

    def stop(self, timeout: float) -> None:
        """Asks all to stop; who does not in time, or not well, is unexpected."""
        for instance in self.running():
            instance.ask_to_stop()
        end = time.monotonic() + timeout
        while self.running() and time.monotonic() < end:
            with self._lock:
                self._take_note()
            time.sleep(0.1)
        for instance in self.running():
            self.unexpected.append(f"{instance.name} did not stop within {timeout:g} s\n{instance.last_words()}")

    def last_words(self) -> str:
        """The ends of the logs of those that run."""
        return "\n".join(f"{instance.name}:\n{instance.last_words()}" for instance in self.running())

    def end(self) -> None:
        """Nothing lives on."""
        for instance in [*self._running, *self._ended]:
            instance.end()

    def _take_note(self) -> None:
        for instance in self.running():
            code = instance.exit_code()
            if code is not None:
                self._note_end(instance, code)

    def _note_end(self, instance: Instance, code: int) -> None:
        self._running.remove(instance)
        self._ended.append(instance)
        excused = code in instance.excuses or self._is_explained(instance, code)
        self._journal.note(f"{instance.name} ended with {code}{'' if excused else ', UNEXPECTED'}")
        if not excused:
            self.unexpected.append(f"{instance.name} ended with {code}\n{instance.last_words()}")

    def _is_explained(self, instance: Instance, code: int) -> bool:
        """A start or a stop may give up that meets a broker in trouble, or a start whose JVM is killed each time."""
        if gave_up := _GAVE_UP.search(instance.last_words()):
            return code == 1 and int(gave_up[1]) <= instance.killed_jvms
        stopped = 0 in instance.excuses
        return code == _UNREACHABLE and self._troubled(instance.started - 5) and (stopped or not instance.has_begun())
