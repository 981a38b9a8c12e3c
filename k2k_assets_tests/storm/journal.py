"""The events of a storm with their times: in a file, and optionally on the screen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path


class Journal:
    """Takes notes.

    Args:
        directory: For the journal and all logs.
        aloud: Whether notes go to the screen too.

    Attributes:
        faults: What was done, how often.
    """

    def __init__(self, directory: Path, aloud: bool = False) -> None:
        self.directory = directory
        self.faults: Counter[str] = Counter()
        self._aloud = aloud
        self._began = time.monotonic()
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)

    def note(self, words: str) -> None:
        """Writes a line."""
        line = f"{time.strftime('%H:%M:%S')} {time.monotonic() - self._began:7.1f} s  {words}"
        with self._lock, (self.directory / "journal.txt").open("a") as file:
            file.write(line + "\n")
        if self._aloud:
            print(line, flush=True)

    def did(self, fault: str, what: str, seconds_ago: float) -> None:
        """Counts a fault that is over, and notes it."""
        with self._lock:
            self.faults[fault] += 1
        self.note(f"{fault}: {what} (began {seconds_ago:.1f} s ago)")
