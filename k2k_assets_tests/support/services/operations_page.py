"""The commands of `docs/operations.md`. Together the tests that use this run each of them."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from k2k_assets.core.deadline import wait_until

_PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
_SECONDS = 120.0

INSTALLATION = ("python3 -m venv ", "/opt/k2k-0.1.0/bin/")
"""How the lines begin that `test_wheel.py` runs."""
FILES = ("install ", "ln ", "export ")
USER = "useradd "
UNITS = ("systemctl ",)
PROGRAMS = ("k2k ", "k2k-tool ")


def commands(*begin: str) -> list[str]:
    """The page's commands that begin so, in order; all without an argument."""
    blocks = re.findall(r"^```sh\n(.*?)^```", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(begin or "")]


def below(root: Path, command: str) -> str:
    """A command, with the folder in the place of `/`, and this Python in that of `python3`."""
    here = re.sub(r"(?<![\w.'}])/(opt|etc|var)/", rf"{root}/\1/", command)
    return re.sub(r"^python3 ", f"{sys.executable} ", here)


class Shell:
    """Runs commands of the page, each once, below a folder that stands for `/` and that they run in.

    Args:
        root: The folder.
        programs: Folder of the programs of K2K.
        instead: What stands in the place of words of the page, such as addresses.
    """

    def __init__(self, root: Path, programs: Path, instead: Mapping[str, str]) -> None:
        self._root, self._instead = root, instead
        self._environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self._left = commands(*PROGRAMS)

    @property
    def left(self) -> list[str]:
        """Those that were not run."""
        return list(self._left)

    def run(self, begins: str, more: str = "") -> str:
        """Runs the next one that begins so; returns what it said on standard output.

        Args:
            begins: How it begins.
            more: What is added at its end.
        """
        line = self._take(begins) + more
        done = subprocess.run(
            ["bash", "-ec", line], cwd=self._root, env=self._environment, capture_output=True, text=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def watch(self, begins: str, is_enough: Callable[[str], bool], more: str = "") -> int:
        """Runs the next one that begins so on a terminal until it has shown enough; returns its status after Ctrl-C."""
        ours, theirs = pty.openpty()
        line = shlex.split(self._take(begins) + more)
        shown = bytearray()
        with subprocess.Popen(
            line, cwd=self._root, env={**self._environment, "TERM": "xterm", "COLUMNS": "200"}, stdin=theirs,
            stdout=theirs, stderr=theirs,
        ) as process:  # fmt: skip
            os.close(theirs)
            try:

                def has_shown_enough() -> bool:
                    shown.extend(os.read(ours, 65536))
                    return is_enough(shown.decode(errors="replace"))

                wait_until(has_shown_enough, _SECONDS, f"enough of {line}")
                process.send_signal(signal.SIGINT)
                return process.wait(_SECONDS)
            finally:
                process.kill()
                os.close(ours)

    def _take(self, begins: str) -> str:
        line = next(line for line in self._left if line.startswith(begins))
        self._left.remove(line)
        here = below(self._root, line)
        for word, other in self._instead.items():
            here = here.replace(word, other)
        return here
