"""The copier of `franz_go/`, in Go with the client franz-go: built here, and run as a child process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.held_process import HeldProcess
from benchmarks.lab import Lab
from benchmarks.report import say

SOURCES = Path(__file__).with_name("franz_go")
ENVIRONMENT = {"GOGC": "400"}
TUNED: dict[str, object] = {"batch": 100_000, "interval": "2s", "fetch-bytes": 2 * 1024 * 1024, "linger": "20ms"}
"""For throughput."""

_DOWNLOAD_SECONDS = 120.0
_BUILD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Report:
    """What the copier says of itself at its end.

    Attributes:
        records: Copied since its start.
        transactions: Committed since then.
        positions: Next offset on the source, by topic and partition with a slash in between.
    """

    records: int
    transactions: int
    positions: Mapping[str, int]


class FranzCopier(HeldProcess):
    """A process; used as a context manager.

    Args:
        lab: Where the clusters are.
        binary: The program.
        name: Of its files and topics; one that no other had.
        topics: Source topics.
        codec: How it compresses.
    """

    def __init__(self, lab: Lab, binary: Path, name: str, topics: Sequence[str], codec: str) -> None:
        super().__init__("franz-go", "workers", f"{name}.", lab.folder / f"{name}.log")
        servers = (lab.sandbox.source_servers, lab.sandbox.target_servers)
        self._arguments = [str(binary), *arguments(*servers, topics, name, codec)]

    @property
    def positions_topic(self) -> str:
        """Where it keeps its positions."""
        return f"{self.prefix}positions"

    def report(self) -> Report:
        """What it said at its end.

        Raises:
            RuntimeError: It did not end well.
        """
        return parsed(self.said())

    def _command(self) -> list[str]:
        return self._arguments

    def _environment(self) -> Mapping[str, str]:
        return ENVIRONMENT


def build(folder: Path) -> Path | None:
    """Builds the program into a folder; None, and a line that says why, where that cannot be done here.

    Raises:
        RuntimeError: The sources are wrong.
    """
    go = shutil.which("go")
    if go is None:
        say("franz-go is left out: there is no go")
        return None
    if fault := _failure([go, "mod", "download"], _DOWNLOAD_SECONDS):
        say(f"franz-go is left out: its modules cannot be had: {fault.splitlines()[-1]}")
        return None
    binary = folder / "franz-copier"
    if fault := _failure([go, "build", "-o", str(binary), "."], _BUILD_SECONDS):
        raise RuntimeError(f"{SOURCES.name} cannot be built:\n{fault}")
    return binary


def arguments(source: str, target: str, topics: Sequence[str], name: str, codec: str) -> list[str]:
    """The arguments of the program.

    Args:
        source: Bootstrap servers.
        target: Likewise.
        topics: Source topics.
        name: Its transactional id; names on the target begin with it.
        codec: How it compresses.
    """
    own = {"source": source, "target": target, "topics": ",".join(topics), "prefix": f"{name}.", "codec": codec}
    own |= {"positions": f"{name}.positions", "id": name}
    return [f"-{key}={value}" for key, value in {**own, **TUNED}.items()]


def parsed(said: str) -> Report:
    """The report: the last line of what the program said.

    Raises:
        RuntimeError: That is none.
    """
    last = said.strip().rpartition("\n")[2]
    try:
        return Report(**json.loads(last))
    except (ValueError, TypeError):
        raise RuntimeError(f"franz-go did not end well. Its last words:\n{last}") from None


def shown() -> list[str]:
    """All settings that matter, as lines."""
    words = ", ".join(f"`{name}={value}`" for name, value in TUNED.items())
    environment = ", ".join(f"`{name}={value}`" for name, value in ENVIRONMENT.items())
    return [
        f"franz-go {_version()}, {_go()}: `benchmarks/franz_go`, one process, {environment}, GOMAXPROCS as the "
        f"machine, one transactional producer, read_committed source, {words}, compression as the load's; positions in "
        "each transaction, no offset mapping"
    ]


def _version() -> str:
    found = re.search(r"github.com/twmb/franz-go v(\S+)", (SOURCES / "go.mod").read_text())
    return found[1] if found else "unknown"


def _go() -> str:
    said = subprocess.run(["go", "version"], capture_output=True, text=True, timeout=30, check=False)
    return " ".join(said.stdout.split()[2:3]) or "unknown"


def _failure(command: list[str], seconds: float) -> str:
    """What a command says where it fails; else nothing."""
    try:
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"{' '.join(command[1:3])} did not end within {seconds:g} s"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
