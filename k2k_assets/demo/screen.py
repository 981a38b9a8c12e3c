"""What the demo shows while it works, and where all other output goes: into a log file.

Spark's JVM, its Python workers and Dagster write to the process's own standard output and error. Those two are
pointed at the log, and the screen keeps a copy of the standard output that was there before.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

# Wide enough for the summary where nobody says how wide the terminal is.
_WIDTH_OF_NO_TERMINAL = 120


class Step:
    """One step while it is worked on."""

    def __init__(self, screen: Screen, what: str) -> None:
        self._screen = screen
        self.text = what
        self.started = time.monotonic()

    def detail(self, text: str) -> None:
        """Says what is going on within the step; shown on a terminal only."""
        self._screen.update(f"{self.text}: {text}")

    def done(self, text: str) -> None:
        """Says what has been done, and starts the clock anew for what is next."""
        now = time.monotonic()
        self._screen.line(f"{now - self.started:6.1f} s  {text}")
        self.started = now

    def next(self, text: str) -> None:
        """Renames the step: it goes on with something else."""
        self.text = text
        self._screen.update(text)


class Screen:
    """Lines of finished steps, and on a terminal a moving line for the one in work.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._spinner = Spinner("dots")

    def line(self, text: str) -> None:
        """Prints one line; never wrapped, never interpreted."""
        self.console.print(Text(text), soft_wrap=True)

    def update(self, text: str) -> None:
        """Says what is worked on."""
        shown = Text(text)
        shown.truncate(max(10, self.console.width - 4), overflow="ellipsis")
        self._spinner.update(text=shown)

    @contextmanager
    def step(self, what: str) -> Iterator[Step]:
        """Shows a step for as long as the context lasts."""
        if not self.console.is_terminal:
            yield Step(self, what)
            return
        self.update(what)
        # Not redirected: what libraries write to standard error is for the log.
        with Live(
            self._spinner,
            console=self.console,
            transient=True,
            refresh_per_second=10,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield Step(self, what)


@contextmanager
def all_else_into(log: Path) -> Iterator[Console]:
    """Points standard output and error at a file, for this process and those that it starts.

    Args:
        log: The file; it is added to.

    Yields:
        A console on the standard output that was there before.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    with log.open("ab") as file:
        for number in kept:
            os.dup2(file.fileno(), number)
    with os.fdopen(os.dup(kept[1]), "w", encoding=sys.stdout.encoding, errors="replace") as shown:
        try:
            yield Console(file=shown, width=None if shown.isatty() else _WIDTH_OF_NO_TERMINAL, highlight=False)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
